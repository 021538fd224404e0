"""The sessions of MQTT clients, their subscriptions, and what of them is stored.

A session that outlives its connection is stored: its filters, and each message of QoS 1 until the client acknowledges
it. Whoever uses these classes holds moto's lock.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from headrace.services.iot.mqtt.packets import EXPIRY_S, Publish
from headrace.store.database import Database

log = logging.getLogger(__name__)

# (account, region).
Place = tuple[str, str]
# Documented: the most unacknowledged messages in either direction of a connection.
MOST_IN_FLIGHT = 100
# headrace's own bounds on what waits for one client.
MOST_WAITING = 10_000
MOST_WAITING_BYTES = 64 * 1024 * 1024


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
        if len(self.waiting) >= MOST_WAITING or self.waiting_bytes + size > MOST_WAITING_BYTES:
            if not self.has_overflowed:
                self.has_overflowed = True
                log.warning("messages for the MQTT client %s are dropped: too many wait", self.key)
            return False
        self.waiting.append(queued)
        self.waiting_bytes += size
        return True

    def take(self, now_ms: int) -> tuple[list[Publish], list[int]]:
        """Return the messages that may be sent now, and the numbers of rows whose messages have expired."""
        ready: list[Publish] = []
        expired: list[int] = []
        receiver = self.receiver
        while receiver is not None and self.waiting and len(self.flying) < receiver.receive_maximum:
            queued = self.waiting.popleft()
            self.waiting_bytes -= len(queued.message.payload)
            self.has_overflowed = False
            if queued.expires_ms and queued.expires_ms <= now_ms:
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
        return 0 if queued is None else queued.number

    def land(self) -> None:
        """Let what was sent and not acknowledged wait again, first; it is sent as repeated."""
        for queued in reversed(self.flying.values()):
            queued.message = replace(queued.message, is_repeated=True)
            self.waiting.appendleft(queued)
            self.waiting_bytes += len(queued.message.payload)
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
                session = next((each for each in group if each.receiver), next(iter(group)))
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


# --- storage --------------------------------------------------------------------------------------


class _StoredMessage(msgspec.Struct, omit_defaults=True, array_like=True):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    expires_ms: int
    properties: dict[int, Any]


class SessionStore:
    """Sessions that are kept, their messages, and retained messages, in the cloud's database.

    `write` stores what was noted since the last call, in one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "mqtt",
            [
                "CREATE TABLE mqtt_sessions (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
                "CREATE TABLE mqtt_messages (number INTEGER PRIMARY KEY, session TEXT NOT NULL, message BLOB NOT NULL)",
                "CREATE INDEX mqtt_messages_session ON mqtt_messages (session)",
                (
                    "CREATE TABLE mqtt_retained (account TEXT, region TEXT, topic TEXT, modified_ms INTEGER,"
                    " message BLOB NOT NULL, PRIMARY KEY (account, region, topic)) WITHOUT ROWID"
                ),
            ],
        )
        ((last,),) = database.query("SELECT COALESCE(MAX(number), 0) FROM mqtt_messages")
        self._last = int(last)
        self._statements: list[tuple[str, tuple[Any, ...]]] = []

    def write(self) -> None:
        """Store what was noted. Raises DiskFull, OSError; then nothing of it is stored."""
        statements, self._statements = self._statements, []
        if statements:
            with self._database.transaction():
                for statement, values in statements:
                    self._database.execute(statement, values)

    def put_session(self, session: Session) -> None:
        """Note a session that is kept, as it is now."""
        value = {
            "expiry_s": session.expiry_s,
            "expires_ms": session.expires_ms,
            "filters": {
                name: [each.qos, each.ignores_own, each.keeps_retain]
                for name, each in session.filters.items()
            },
        }
        self._note(
            "INSERT INTO mqtt_sessions VALUES (?, ?)"
            " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
            session.key,
            json.dumps(value),
        )

    def drop_session(self, session: Session) -> None:
        """Note that a session and its messages are gone."""
        self._note("DELETE FROM mqtt_sessions WHERE key = ?", session.key)
        self._note("DELETE FROM mqtt_messages WHERE session = ?", session.key)

    def put_message(self, session: Session, message: Publish, expires_ms: int) -> int:
        """Note a message for a session; return its number."""
        self._last += 1
        self._note(
            "INSERT INTO mqtt_messages VALUES (?, ?, ?)",
            self._last,
            session.key,
            _encode(message, expires_ms),
        )
        return self._last

    def drop_messages(self, numbers: Iterable[int]) -> None:
        """Note that messages were acknowledged, or have expired."""
        for number in numbers:
            self._note("DELETE FROM mqtt_messages WHERE number = ?", number)

    def retain(self, place: Place, message: Publish, now_ms: int, expires_ms: int) -> None:
        """Note a topic's retained message; an empty payload removes it."""
        if not message.payload:
            self._note(
                "DELETE FROM mqtt_retained WHERE account = ? AND region = ? AND topic = ?",
                *place,
                message.topic,
            )
            return
        self._note(
            "INSERT INTO mqtt_retained VALUES (?, ?, ?, ?, ?) ON CONFLICT(account, region, topic)"
            " DO UPDATE SET message = excluded.message, modified_ms = excluded.modified_ms",
            *place,
            message.topic,
            now_ms,
            _encode(message, expires_ms),
        )

    def _note(self, statement: str, *values: Any) -> None:
        self._statements.append((statement, values))

    def sessions(self) -> list[Session]:
        """Return the stored sessions, with their messages."""
        sessions: dict[str, Session] = {}
        for key, text in self._database.query("SELECT key, value FROM mqtt_sessions"):
            account, region, client_id = key.split("/", 2)
            value = json.loads(text)
            filters = {name: Subscription(*each) for name, each in value["filters"].items()}
            sessions[key] = Session(
                (account, region),
                client_id,
                value["expiry_s"],
                filters,
                expires_ms=value["expires_ms"],
            )
        rows = self._database.query(
            "SELECT number, session, message FROM mqtt_messages ORDER BY number"
        )
        for number, key, encoded in rows:
            if key in sessions:
                message, expires_ms = _decode(encoded)
                sessions[key].add(Queued(message, number, expires_ms))
        return list(sessions.values())

    def retained(self) -> Iterator[tuple[Place, Publish, int, int]]:
        """Yield the retained messages: place, message, when it was retained, when it expires (0: never)."""
        rows = self._database.query(
            "SELECT account, region, modified_ms, message FROM mqtt_retained"
        )
        for account, region, modified_ms, encoded in rows:
            message, expires_ms = _decode(encoded)
            yield (account, region), message, modified_ms, expires_ms


def _encode(message: Publish, expires_ms: int) -> bytes:
    return msgspec.msgpack.encode(
        _StoredMessage(
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            expires_ms,
            dict(message.properties),
        )
    )


def _decode(encoded: bytes) -> tuple[Publish, int]:
    stored = msgspec.msgpack.decode(encoded, type=_StoredMessage)
    message = Publish(
        stored.topic, stored.payload, stored.qos, stored.retain, properties=stored.properties
    )
    return message, stored.expires_ms
