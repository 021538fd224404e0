"""Flume's sink groups: failover to the next sink, or the load spread over all.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#flume-sink-processors. A sink that
fails is left alone for one second, then two, four and so on.

What every sink is.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import SinkFailed
from headrace.agent.flume.intake import Counts
from headrace.agent.properties import Section
from headrace.core.clock import Clock


class Sink(Protocol):
    """A sink. For one thread at a time."""

    channel: MemoryChannel
    counts: Counts

    def process(self, timeout_s: float) -> bool:
        """Deliver a transaction; return whether there was anything within the time.

        Raises SinkFailed: then what was not delivered is in the channel again.
        """
        ...

    def close(self) -> None:
        """Deliver what is held back, and close. Raises SinkFailed."""
        ...


_FIRST_PENALTY_MS = 1000
_LOG = logging.getLogger("headrace.agent")


class _Member:
    """A sink of a group, and until when it is left alone."""

    def __init__(self, name: str, sink: Sink, priority: int = 0) -> None:
        self.name, self.sink, self.priority = name, sink, priority
        self.failures, self.free_at_s = 0, 0.0


class Group:
    """Sinks of which one at a time takes a transaction. For one thread."""

    def __init__(
        self, members: Sequence[_Member], clock: Clock, *, most_penalty_ms: int, order: str
    ) -> None:
        """Take the sinks; `order` is failover, round_robin or random; no penalty: `most_penalty_ms` is 0."""
        self._members, self._clock, self._most_ms, self._order = (
            list(members),
            clock,
            most_penalty_ms,
            order,
        )
        self._turn, self._chance = 0, random.Random()

    @property
    def channels(self) -> list[MemoryChannel]:
        """What the sinks take from."""
        return [member.sink.channel for member in self._members]

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`; raises SinkFailed only when every sink has failed or is left alone."""
        now_s, failure = self._clock.monotonic_s(), None
        free = [member for member in self._order_members() if member.free_at_s <= now_s]
        for member in free:
            try:
                is_busy = member.sink.process(timeout_s)
            except SinkFailed as error:
                failure = error
                self._punish(member, now_s, error)
            else:
                member.failures = 0
                return is_busy
        raise SinkFailed(
            str(failure) if failure else "every sink of the group has failed and is left alone"
        )

    def _order_members(self) -> list[_Member]:
        if self._order == "failover":
            return sorted(self._members, key=lambda member: -member.priority)
        if self._order == "random":
            return self._chance.sample(self._members, len(self._members))
        self._turn = (self._turn + 1) % len(self._members)
        return self._members[self._turn :] + self._members[: self._turn]

    def _punish(self, member: _Member, now_s: float, error: SinkFailed) -> None:
        member.failures += 1
        penalty_ms = min(_FIRST_PENALTY_MS << min(member.failures - 1, 16), self._most_ms)
        member.free_at_s = now_s + penalty_ms / 1000
        _LOG.error("sink %s: %s; another takes over", member.name, error)

    def close(self) -> None:
        """See `Sink.close`."""
        for member in self._members:
            member.sink.close()


def group_of(section: Section, sinks: Mapping[str, Sink], clock: Clock) -> Group:
    """Return what a group's keys say. Raises ConfigurationError."""
    names = section.words("sinks")
    for name in names:
        if name not in sinks:
            raise section.error(
                "sinks", f"{section.owner} names {name!r}, which is no sink, or in a group already"
            )
    if not names:
        raise section.error("sinks", f"{section.owner} needs sinks")
    kind = section.choice("processor.type", ("default", "failover", "load_balance"), "default")
    if kind == "default" and len(names) > 1:
        raise section.error(
            "processor.type",
            f"the processor default of {section.owner} takes one sink, not {len(names)}",
        )
    if kind != "load_balance":
        priorities = {
            name: section.number(
                f"processor.priority.{name}", 0 if kind == "default" else None, least=-(1 << 31)
            )
            for name in names
        }
        if kind == "failover" and len(set(priorities.values())) < len(names):
            raise section.error(
                "processor.type", f"two sinks of {section.owner} have the same priority"
            )
        members = [_Member(name, sinks[name], priorities[name]) for name in names]
        penalty = section.number("processor.maxpenalty", 30_000)
        result = Group(
            members, clock, most_penalty_ms=penalty if kind == "failover" else 0, order="failover"
        )
    else:
        order = section.text("processor.selector", "round_robin").lower()
        if order not in ("round_robin", "random"):
            raise section.error("processor.selector", f"the selector {order!r} is not built")
        most = section.number("processor.selector.maxTimeOut", 30_000)
        backs_off = section.flag("processor.backoff", default=False)
        members = [_Member(name, sinks[name]) for name in names]
        result = Group(members, clock, most_penalty_ms=most if backs_off else 0, order=order)
    section.finish()
    return result
