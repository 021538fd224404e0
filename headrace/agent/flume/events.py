"""Events (headers and a body), what may go wrong on their way, and what every source of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple, Protocol


class Source(Protocol):
    """A source. Its intake counts what it does."""

    @property
    def ends(self) -> bool:
        """Whether it comes to an end by itself: `--once` waits for it."""
        ...

    def run(self, *, once: bool) -> None:
        """Put events until the intake stops, or, `once`, until there are no more. Raises OSError, Stopped."""
        ...


Headers = Mapping[str, str]
NO_HEADERS: Headers = {}


class Event(NamedTuple):
    """An event. Events share their headers: whoever changes them makes new ones."""

    headers: Headers
    body: bytes


# Without the constructor's Python, which costs more than the rest of an event's way into a channel.
_new: Callable[[tuple[Headers, bytes]], Event] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    Event,
)
_body = itemgetter(1)


def events_of(headers: Headers, bodies: Iterable[bytes]) -> list[Event]:
    """Return events that share their headers."""
    return list(map(_new, zip(repeat(headers), bodies, strict=False)))


def bytes_of(events: Iterable[Event]) -> int:
    """Return the bytes of all bodies, which a channel counts."""
    return sum(map(len, map(_body, events)))


class ChannelFull(Exception):
    """A channel does not take the events now: none of them is in any channel. The message is one sentence."""


class SinkFailed(Exception):
    """A sink could not deliver; its events are in the channel again. The message is one sentence."""


class Stopped(Exception):
    """The agent stops: the events were not taken."""
