"""Events: headers and a body. And what may go wrong on their way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Headers = Mapping[str, str]
NO_HEADERS: Headers = {}


class Event(NamedTuple):
    """An event. Events share their headers: whoever changes them makes new ones."""

    headers: Headers
    body: bytes


def bytes_of(events: Iterable[Event]) -> int:
    """Return the bytes of all bodies, which a channel counts."""
    return sum([len(body) for _, body in events])


class ChannelFull(Exception):
    """A channel does not take the events now: none of them is in any channel. The message is one sentence."""


class SinkFailed(Exception):
    """A sink could not deliver; its events are in the channel again. The message is one sentence."""


class Stopped(Exception):
    """The agent stops: the events were not taken."""
