"""What a source puts its events into: interceptors, a channel selector, and transactions with the channels.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#flume-channel-selectors.

Flume's interceptors: what changes or drops events between a source and its channels.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#flume-interceptors.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import ChannelFull, Event, Headers, Stopped, bytes_of
from headrace.agent.properties import Section
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


Intercept = Callable[[list[Event]], list[Event]]
_MILLIS = "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer"
_PASS_THROUGH = (
    "default", "org.apache.flume.interceptor.RegexExtractorInterceptorPassThroughSerializer",
)  # fmt: skip


def interceptor_of(section: Section, clock: Clock) -> Intercept:
    """Return what an interceptor's keys say. Raises ConfigurationError."""
    kind = section.text("type")
    name = kind.removesuffix("$Builder").rpartition(".")[2].removesuffix("Interceptor").lower()
    make = _KINDS.get(name.replace("_", ""))
    if make is None:
        raise section.error("type", f"the interceptor {kind!r} is not built")
    intercept = make(section, clock)
    section.finish()
    return intercept


def _with_header(key: str, value: Callable[[], str], *, keeps: bool) -> Intercept:
    """Set a header; events that share headers share the new ones too."""

    def intercept(events: list[Event]) -> list[Event]:
        text = value()
        changed: dict[int, Headers] = {}
        result: list[Event] = []
        for event in events:
            headers = changed.get(id(event.headers))
            if headers is None:
                headers = event.headers
                if not (keeps and key in headers):
                    headers = {**headers, key: text}
                changed[id(event.headers)] = headers
            result.append(Event(headers, event.body))
        return result

    return intercept


def _timestamp(section: Section, clock: Clock) -> Intercept:
    key = section.text("headerName", section.text("header", "timestamp"))
    keeps = section.flag("preserveExisting", default=False)
    return _with_header(key, lambda: str(clock.now_ms()), keeps=keeps)


def _host(section: Section, _: Clock) -> Intercept:
    keeps, key = section.flag("preserveExisting", default=False), section.text("hostHeader", "host")
    name = socket.gethostname()
    if section.flag("useIP", default=True):
        try:
            name = socket.gethostbyname(name)
        except OSError as error:
            raise section.error(
                "useIP", f"this host's name {name!r} has no address: {error}"
            ) from error
    return _with_header(key, lambda: name, keeps=keeps)


def _static(section: Section, _: Clock) -> Intercept:
    keeps = section.flag("preserveExisting", default=True)
    key, value = section.text("key", "key"), section.text("value", "value")
    return _with_header(key, lambda: value, keeps=keeps)


def _uuid(section: Section, _: Clock) -> Intercept:
    key, prefix = section.text("headerName", "id"), section.text("prefix", "")
    keeps = section.flag("preserveExisting", default=True)

    def intercept(events: list[Event]) -> list[Event]:
        return [
            event if keeps and key in event.headers
            else Event({**event.headers, key: f"{prefix}{uuid.uuid4()}"}, event.body)
            for event in events
        ]  # fmt: skip

    return intercept


def _remove_header(section: Section, _: Clock) -> Intercept:
    name, parting = section.text("withName", ""), section.text("fromListSeparator", r"\s*,\s*")
    listed = section.text("fromList", "")
    if not section.has("fromListSeparator"):
        names = {word.strip() for word in listed.split(",")}
    else:
        names = set(section.pattern("fromListSeparator", parting).split(listed))
    names |= {name}
    matching = section.pattern("matching", "").matches if section.has("matching") else None

    def intercept(events: list[Event]) -> list[Event]:
        return [
            Event({k: v for k, v in event.headers.items() if k not in names and not (matching and matching(k))},
                  event.body)
            for event in events
        ]  # fmt: skip

    return intercept


def _search_replace(section: Section, _: Clock) -> Intercept:
    pattern, charset = section.pattern("searchPattern"), section.charset("charset")
    replacement = _replacement(section, pattern.groups)

    def intercept(events: list[Event]) -> list[Event]:
        return [
            Event(
                event.headers,
                pattern.replace(event.body.decode(charset, "replace"), replacement).encode(charset, "replace"),
            )
            for event in events
        ]  # fmt: skip

    return intercept


def _replacement(section: Section, count: int) -> Callable[[list[str | None]], str]:
    r"""Return what Java's `replaceAll` puts for a match of `count` groups, the whole one first: `$1`, `\$`."""
    parts: list[str | int] = []
    for escaped, group, text in re.findall(
        r"\\(.)|\$(\d)|([^\\$]+|.)", section.text("replaceString", ""), re.DOTALL
    ):
        parts.append(int(group) if group else escaped or text)
    bad = [part for part in parts if isinstance(part, int) and part > count]
    if bad:
        raise section.error(
            "replaceString", f"searchPattern of {section.owner} has no group {bad[0]}"
        )
    return lambda groups: "".join(
        (groups[part] or "") if isinstance(part, int) else part for part in parts
    )


def _regex_filter(section: Section, _: Clock) -> Intercept:
    pattern = section.pattern("regex", ".*")
    excludes = section.flag("excludeEvents", default=False)

    def intercept(events: list[Event]) -> list[Event]:
        return [e for e in events if pattern.is_found(e.body.decode(errors="replace")) != excludes]

    return intercept


def _regex_extractor(section: Section, _: Clock) -> Intercept:
    pattern = section.pattern("regex")
    makers: list[tuple[str, Callable[[str], str]]] = []
    for word in section.words("serializers"):
        part = section.part(f"serializers.{word}.", f"serializer {word} of {section.owner}")
        kind = part.text("type", "default")
        if kind in _PASS_THROUGH:
            makers.append((part.text("name"), lambda text: text))
        elif kind == _MILLIS:
            makers.append((part.text("name"), _millis(part)))
        else:
            raise part.error("type", f"the serializer {kind!r} is not built")
        part.finish()
    if not makers:
        raise section.error("serializers", f"{section.owner} needs at least one serializer")

    def intercept(events: list[Event]) -> list[Event]:
        result: list[Event] = []
        for event in events:
            groups = pattern.groups_found(event.body.decode(errors="replace"))
            if groups is not None:
                # Flume passes over groups that no serializer names.
                named = {
                    name: make(text)
                    for (name, make), text in zip(makers, groups, strict=False)
                    if text is not None
                }
                event = Event({**event.headers, **named}, event.body)
            result.append(event)
        return result

    return intercept


_JODA = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f",
         "Z": "%z", "EEE": "%a", "a": "%p", "hh": "%I"}  # fmt: skip


def _millis(section: Section) -> Callable[[str], str]:
    """Return what turns a time of a pattern of Joda's into milliseconds since 1970."""
    text = section.text("pattern")
    style = ""
    for match in re.finditer(r"(([A-Za-z])\2*)|'([^']*)'|([^A-Za-z'])", text):
        letters, quoted, sign = match[1], match[3], match[4]
        if letters and letters not in _JODA:
            raise section.error("pattern", f"{letters!r} in a pattern of times is not built")
        style += _JODA[letters] if letters else (quoted or sign or "").replace("%", "%%")

    def convert(value: str) -> str:
        try:
            moment = datetime.strptime(value, style)  # noqa: DTZ007 - Joda's default is the machine's zone too.
            return str(int(moment.timestamp() * 1000))
        except (ValueError, OverflowError):
            # Flume's event would never pass; here it keeps what it had.
            return value

    return convert


_KINDS: dict[str, Callable[[Section, Clock], Intercept]] = {
    "timestamp": _timestamp, "host": _host, "static": _static, "uuid": _uuid, "removeheader": _remove_header,
    "searchreplace": _search_replace, "searchandreplace": _search_replace, "regexfilter": _regex_filter,
    "regexfiltering": _regex_filter, "regexextractor": _regex_extractor,
}  # fmt: skip
