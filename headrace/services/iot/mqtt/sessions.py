"""The sessions of MQTT clients, and their subscriptions.

A session that outlives its connection is stored: its filters, and each message of QoS 1 until the client acknowledges
it. Whoever uses these classes holds moto's lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.services.iot.mqtt.packets import EXPIRY_S, Publish

log = logging.getLogger(__name__)

# (account, region).
Place = tuple[str, str]
# Documented: the most unacknowledged messages in either direction of a connection.
MOST_IN_FLIGHT = 100
# headrace's own bounds on what waits for one client; bytes count until it acknowledges them.
MOST_WAITING = 10_000
MOST_WAITING_BYTES = 64 * 1024 * 1024
# ... and for all together.
MOST_WAITING_BYTES_OF_ALL = 512 * 1024 * 1024


class Receiver(Protocol):
    """The connection of a session's client."""

    version: int
    is_congested: bool
    receive_maximum: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client asked for with a filter: the QoS, and MQTT 5's options."""

    qos: int
    ignores_own: bool = False
    keeps_retain: bool = False


@dataclass(slots=True)
class Queued:
    """A message of QoS 1 for one session; `number` is its row, 0 when it is not stored."""

    message: Publish
    number: int
    expires_ms: int = 0


@dataclass(slots=True)
class Waiting:
    """How much waits for all clients together, or for their acknowledgements."""

    size_bytes: int = 0


@dataclass(eq=False, slots=True)
class Session:
    """One client's state. It is kept `expiry_s` after its connection ended; 0: it ends with it."""

    place: Place
    client_id: str
    expiry_s: int = 0
    filters: dict[str, Subscription] = field(default_factory=dict[str, Subscription])
    receiver: Receiver | None = None
    expires_ms: int = 0
    will: Publish | None = None
    will_due_ms: int = 0
    waiting: deque[Queued] = field(default_factory=deque[Queued])
    waiting_bytes: int = 0
    flying: dict[int, Queued] = field(default_factory=dict[int, Queued])
    has_overflowed: bool = False
    of_all: Waiting = field(default_factory=Waiting)
    _last_id: int = 0

    @property
    def key(self) -> str:
        """The name under which it is stored."""
        return "/".join((*self.place, self.client_id))

    @property
    def is_kept(self) -> bool:
        """Whether it outlives its connection."""
        return self.expiry_s > 0

    def add(self, queued: Queued) -> bool:
        """Let a message wait; False when too much waits already."""
        size = len(queued.message.payload)
        if (
            len(self.waiting) >= MOST_WAITING
            or self.waiting_bytes + size > MOST_WAITING_BYTES
            or self.of_all.size_bytes + size > MOST_WAITING_BYTES_OF_ALL
        ):
            if not self.has_overflowed:
                self.has_overflowed = True
                log.warning("messages for the MQTT client %s are dropped: too many wait", self.key)
            return False
        self.waiting.append(queued)
        self._count(size)
        return True

    def _count(self, size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        self.of_all.size_bytes += size_bytes

    def clear(self) -> None:
        """Forget what waits."""
        self.waiting.clear()
        self.flying.clear()
        self._count(-self.waiting_bytes)

    def take(self, now_ms: int) -> tuple[list[Publish], list[int]]:
        """Return the messages that may be sent now, and the numbers of rows whose messages have expired."""
        ready: list[Publish] = []
        expired: list[int] = []
        receiver = self.receiver
        while receiver is not None and self.waiting and len(self.flying) < receiver.receive_maximum:
            queued = self.waiting.popleft()
            self.has_overflowed = False
            if queued.expires_ms and queued.expires_ms <= now_ms:
                self._count(-len(queued.message.payload))
                expired += [queued.number] if queued.number else []
                continue
            message = queued.message
            if queued.expires_ms:
                left_s = max(1, (queued.expires_ms - now_ms) // 1000)
                message = replace(message, properties={**message.properties, EXPIRY_S: left_s})
            packet_id = self._next_id()
            self.flying[packet_id] = queued
            ready.append(replace(message, packet_id=packet_id))
        return ready, expired

    def acknowledge(self, packet_id: int) -> int:
        """Forget a sent message; return the number of its row, 0 without one."""
        queued = self.flying.pop(packet_id, None)
        if queued is None:
            return 0
        self._count(-len(queued.message.payload))
        return queued.number

    def land(self) -> None:
        """Let what was sent and not acknowledged wait again, first; it is sent as repeated."""
        for queued in reversed(self.flying.values()):
            queued.message = replace(queued.message, is_repeated=True)
            self.waiting.appendleft(queued)
        self.flying.clear()

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65_535 + 1
            if self._last_id not in self.flying:
                return self._last_id


# --- subscriptions --------------------------------------------------------------------------------


class _Node:
    """A level of filters; `shares` has the sessions of each shared subscription's group, in turn."""

    __slots__ = ("children", "sessions", "shares")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.sessions: dict[Session, Subscription] = {}
        self.shares: dict[str, dict[Session, Subscription]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.sessions or self.shares)


def split_share(topic_filter: str) -> tuple[str, str]:
    """Return the group of a shared subscription (`$share/GROUP/FILTER`), or "", and the filter."""
    if topic_filter.startswith("$share/"):
        _, group, rest = [*topic_filter.split("/", 2), "", ""][:3]
        return group, rest
    return "", topic_filter


class Subscriptions:
    """Who asked for which topics of one account and region."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, topic_filter: str, session: Session, subscription: Subscription) -> None:
        """Add a subscription, or replace it."""
        group, levels = split_share(topic_filter)
        node = self._root
        for level in levels.split("/"):
            node = node.children.setdefault(level, _Node())
        (node.shares.setdefault(group, {}) if group else node.sessions)[session] = subscription

    def remove(self, topic_filter: str, session: Session) -> None:
        """Remove a subscription, and the levels that nobody uses any longer."""
        group, levels = split_share(topic_filter)
        path: list[tuple[_Node, str]] = []
        node = self._root
        for level in levels.split("/"):
            path.append((node, level))
            child = node.children.get(level)
            if child is None:
                return
            node = child
        if group:
            node.shares.get(group, {}).pop(session, None)
            if not node.shares.get(group):
                node.shares.pop(group, None)
        else:
            node.sessions.pop(session, None)
        for parent, level in reversed(path):
            if parent.children[level].is_empty:
                del parent.children[level]

    def match(self, topic: str) -> dict[Session, Subscription]:
        """Return who gets a message on a topic: each session once, at the highest QoS that it asked for."""
        chosen: dict[Session, Subscription] = {}
        for node in self._nodes(topic.split("/")):
            for session, subscription in node.sessions.items():
                if session not in chosen or chosen[session].qos < subscription.qos:
                    chosen[session] = subscription
            for group in node.shares.values():
                session = next((member for member in group if member.receiver), next(iter(group)))
                # The next message goes to the next one.
                subscription = group[session] = group.pop(session)
                chosen.setdefault(session, subscription)
        return chosen

    def _nodes(self, levels: list[str]) -> Iterator[_Node]:
        """Yield the nodes of the filters that match; wildcards never match a first level that begins with `$`."""
        nodes = [self._root]
        for at, level in enumerate(levels):
            wild = at > 0 or not level.startswith("$")
            if wild:
                yield from (node.children["#"] for node in nodes if "#" in node.children)
            names = (level, "+") if wild else (level,)
            nodes = [
                node.children[name] for node in nodes for name in names if name in node.children
            ]
        yield from nodes
        yield from (node.children["#"] for node in nodes if "#" in node.children)
