"""What a source puts its events into: interceptors, a channel selector, and transactions with the channels.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#flume-channel-selectors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.agent.config.properties import Section
from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import ChannelFull, Event, Headers, Stopped, bytes_of
from headrace.agent.flume.interceptors import Intercept
from headrace.core.clock import Clock

Channels = tuple[MemoryChannel, ...]
_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0
_LOG = logging.getLogger("headrace.agent")


@dataclass(slots=True)
class Counts:
    """What a source or a sink has done. Written by its own threads; `events` under a lock where several write."""

    events: int = 0
    bytes_: int = 0
    left_out: int = 0
    failures: int = 0

    def add(self, events: Sequence[Event]) -> None:
        """Count events that were put or delivered, and the bytes of their bodies."""
        self.events += len(events)
        self.bytes_ += bytes_of(events)


@dataclass(frozen=True, slots=True)
class Selector:
    """Which channels take an event: by a header's value, or `default` for all. Optional ones may miss it."""

    default: Channels
    optional: Channels = ()
    header: str | None = None
    mapping: Mapping[str, Channels] = field(default_factory=dict[str, Channels])
    optional_mapping: Mapping[str, Channels] = field(default_factory=dict[str, Channels])

    def channels(self, headers: Headers) -> tuple[Channels, Channels]:
        """Return the channels that must take an event, and those that may."""
        if self.header is None:
            return self.default, self.optional
        value = headers.get(self.header, "").strip()
        required = self.mapping.get(value, self.default)
        return required, tuple(c for c in self.optional_mapping.get(value, ()) if c not in required)


def selector_of(section: Section, channels: Mapping[str, MemoryChannel]) -> Selector:
    """Return what a source's `selector.` keys say of its channels. Raises ConfigurationError."""
    kind = section.text("type", "replicating")

    def named(text: str, key: str) -> Channels:
        for word in text.split():
            if word not in channels:
                raise section.error(
                    key, f"{section.owner} names {word!r}, which is no channel of its source"
                )
        return tuple(channels[word] for word in text.split())

    everything = tuple(channels.values())
    if kind.lower() in ("replicating", "org.apache.flume.channel.replicatingchannelselector"):
        optional = named(section.text("optional", ""), "optional")
        result = Selector(tuple(c for c in everything if c not in optional), optional)
    elif kind.lower() in ("multiplexing", "org.apache.flume.channel.multiplexingchannelselector"):
        result = Selector(
            default=named(section.text("default", ""), "default"),
            header=section.text("header", "flume.selector.header"),
            mapping={k: named(v, f"mapping.{k}") for k, v in section.below("mapping.").items()},
            optional_mapping={
                k: named(v, f"optional.{k}") for k, v in section.below("optional.").items()
            },
        )
    else:
        raise section.error("type", f"the channel selector {kind!r} is not built")
    section.finish()
    return result


class Intake:
    """The way of a source's events into its channels. Thread-safe.

    Room is reserved in all required channels first, so that a full one leaves none of them with the events.
    """

    def __init__(
        self, name: str, intercepts: Sequence[Intercept], selector: Selector, most: int, clock: Clock,
        stop: threading.Event,
    ) -> None:  # fmt: skip
        """Take the parts; `most` is how many events every channel takes in a transaction."""
        self.name, self.most, self.counts = name, most, Counts()
        self._intercepts, self._selector, self._clock, self.stop = intercepts, selector, clock, stop
        self._counting = threading.Lock()

    def put(self, events: Sequence[Event]) -> None:
        """Put a transaction. Raises ChannelFull: then no required channel has any of it."""
        passed = list(events)
        for intercept in self._intercepts:
            passed = intercept(passed)
        required: dict[MemoryChannel, list[Event]] = {}
        optional: dict[MemoryChannel, list[Event]] = {}
        if self._selector.header is None:
            required = dict.fromkeys(self._selector.default, passed) if passed else {}
            optional = dict.fromkeys(self._selector.optional, passed) if passed else {}
        else:
            for event in passed:
                must, may = self._selector.channels(event.headers)
                for channel in must:
                    required.setdefault(channel, []).append(event)
                for channel in may:
                    optional.setdefault(channel, []).append(event)
        self._transact(required)
        for channel, chosen in optional.items():
            try:
                self._transact({channel: chosen})
            except ChannelFull as error:
                self._tell(f"{error}; {len(chosen)} events pass over it, since it is optional")
        with self._counting:
            self.counts.add(passed)
            self.counts.left_out += len(events) - len(passed)

    def _transact(self, chosen: Mapping[MemoryChannel, list[Event]]) -> None:
        waiting = dict[MemoryChannel, list[Event]]()
        try:
            for channel, events in chosen.items():
                channel.reserve(events)
                waiting[channel] = events
            for channel, events in chosen.items():
                channel.append(events)
                del waiting[channel]
        except ChannelFull:
            for channel, events in waiting.items():
                channel.release(events)
            raise

    def _tell(self, sentence: str) -> None:
        """Log a failure: the first, the second, the fourth and so on."""
        with self._counting:
            self.counts.failures += 1
            failures = self.counts.failures
        if failures & (failures - 1) == 0:
            _LOG.warning("source %s: %s (%d times)", self.name, sentence, failures)

    def put_all(self, events: Sequence[Event]) -> None:
        """Put events in order, in as many transactions as needed, and wait for room. Raises Stopped."""
        for at in range(0, len(events), self.most):
            part, pause_s = events[at : at + self.most], _PAUSE_S
            while True:
                try:
                    self.put(part)
                except ChannelFull as error:
                    self._tell(f"{error}; it waits")
                    if self._clock.wait(self.stop, pause_s):
                        raise Stopped from None
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                else:
                    break
