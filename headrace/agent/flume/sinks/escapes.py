"""The escapes of Flume's paths, such as `%{host}` and `%Y-%m-%d`: by an event's headers and its time.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#hdfs-sink; observed in Flume's source
(BucketPath): a time escape needs the header `timestamp`, a header that is missing becomes nothing.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from headrace.agent.flume.events import Headers

_TAG = re.compile(r"%(?:\{([\w.-]+)\}|\[(\w+)\]|(\w|%))")
# Of so many digits every number is one of Java's long.
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_HOST = ("localhost", "IP", "FQDN")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SIGNS: dict[str, Callable[[datetime], str]] = {
    "a": lambda t: _DAYS[t.weekday()][:3],
    "A": lambda t: _DAYS[t.weekday()],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "B": lambda t: _MONTHS[t.month - 1],
    "c": lambda t: (
        f"{_DAYS[t.weekday()][:3]} {_MONTHS[t.month - 1][:3]} {t.day} {t:%H:%M:%S} {t.year}"
    ),
    "d": lambda t: f"{t.day:02}",
    "e": lambda t: str(t.day),
    "D": lambda t: f"{t:%m/%d/%y}",
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{t.hour % 12 or 12:02}",
    "j": lambda t: f"{t:%j}",
    "k": lambda t: str(t.hour),
    "l": lambda t: str(t.hour % 12 or 12),
    "m": lambda t: f"{t.month:02}",
    "n": lambda t: str(t.month),
    "M": lambda t: f"{t.minute:02}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "S": lambda t: f"{t.second:02}",
    "y": lambda t: f"{t.year % 100:02}",
    "Y": lambda t: f"{t.year:04}",
    "z": lambda t: f"{t:%z}",
}


class NoTime(Exception):
    """An event has no time, which a path needs. The message is one sentence."""


def read_timestamp(headers: Headers) -> int | None:
    """Return the milliseconds of the header `timestamp`; None without one that is a number of 64 bits."""
    text = headers.get("timestamp", "")
    return int(text) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Rounding:
    """How the time is rounded down: to a multiple of `value` units within the next larger unit."""

    unit: str
    value: int

    def down(self, moment: datetime) -> datetime:
        """Return the rounded time."""
        if self.unit == "second":
            return moment.replace(second=moment.second - moment.second % self.value, microsecond=0)
        if self.unit == "minute":
            return moment.replace(
                minute=moment.minute - moment.minute % self.value, second=0, microsecond=0
            )
        return moment.replace(
            hour=moment.hour - moment.hour % self.value, minute=0, second=0, microsecond=0
        )


class Escapes:
    """A text with escapes. `has_time`: whether what it becomes depends on an event's time."""

    def __init__(self, text: str) -> None:
        """Take the text. Raises ValueError with one sentence for a host escape that Flume has not."""
        self._text = text
        tags = list(_TAG.finditer(text))
        self.has_time = any(tag[3] and tag[3] != "%" for tag in tags)
        self._hosts: dict[str, str] = {}
        for tag in tags:
            if tag[2]:
                self._hosts[tag[2]] = _host(tag[2])

    def fill(
        self, headers: Headers, zone: tzinfo | None, rounding: Rounding | None, local_ms: int | None
    ) -> str:
        """Return the text for an event; its time is `local_ms`, or else the header `timestamp`. Raises NoTime."""
        moment = None
        if self.has_time:
            now_ms = read_timestamp(headers) if local_ms is None else local_ms
            if now_ms is None:
                raise NoTime(
                    f"an event has no header timestamp that is a number, which {self._text} needs"
                )
            try:
                moment = datetime.fromtimestamp(now_ms / 1000, zone).astimezone(zone)
            except (ValueError, OverflowError, OSError) as error:
                raise NoTime(f"an event's header timestamp {now_ms} is no time: {error}") from error
            if rounding is not None:
                moment = rounding.down(moment)

        def value(tag: re.Match[str]) -> str:
            header, host, sign = tag.groups()
            if header:
                return headers.get(header, "")
            if host:
                return self._hosts[host]
            if sign == "%":
                return "%"
            assert moment is not None
            if sign == "t":
                return str(local_ms) if local_ms is not None else headers["timestamp"]
            if sign == "s":
                return str(int(moment.timestamp()))
            make = _SIGNS.get(sign)
            return make(moment) if make else ""

        return _TAG.sub(value, self._text)


def _host(kind: str) -> str:
    name = socket.gethostname()
    if kind == "localhost":
        return name
    if kind == "FQDN":
        return socket.getfqdn()
    if kind == "IP":
        return socket.gethostbyname(name)
    raise ValueError(f"there is no escape %[{kind}], only {', '.join(f'%[{h}]' for h in _HOST)}")
