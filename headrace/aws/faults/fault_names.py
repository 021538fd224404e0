"""Checks that a fault names something that exists: a service, its action, a stream, a shard.

A fault with a misspelt name would never act, and a test that relies on it would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.model import loader, service_model

# Returns the shard ids of every stream of the cloud, by the stream's name.
ShardsByStream = Callable[[], Mapping[str, Collection[str]]]

_MOST_NAMED = 10
_NEAREST_NAMED = 3


class UnknownName(ValueError):
    """A name does not exist; the message is one sentence that lists the nearest names."""


def check_service(service: str, action: str | None) -> None:
    """Raise UnknownName unless botocore knows the service, and the service the action."""
    try:
        names = service_model(service).operation_names
    except UnknownServiceError:
        near = _nearest(service, loader().list_available_services("service-2"))
        raise UnknownName(
            f"There is no AWS service {service!r}; the nearest are {_list_names(near[:_NEAREST_NAMED])}."
        ) from None
    if action is not None and action not in names:
        near = _nearest(action, names)
        raise UnknownName(
            f"The service {service} has no action {action!r}; the nearest are {_list_names(near[:_NEAREST_NAMED])}."
        )


def check_stream(members: Mapping[str, Any], shards_by_stream: ShardsByStream) -> None:
    """Raise UnknownName when a fault names a stream or shard that the cloud does not have."""
    stream, shard = members.get("stream"), members.get("shard")
    if stream is None and shard is None:
        return
    known = shards_by_stream()
    if stream is not None and stream not in known:
        raise UnknownName(_describe_missing(f"stream {stream!r}", _nearest(stream, known)))
    streams = known if stream is None else (stream,)
    shards = {shard_id for name in streams for shard_id in known[name]}
    if shard is not None and shard not in shards:
        where = "" if stream is None else f" in the stream {stream}"
        raise UnknownName(_describe_missing(f"shard {shard!r}{where}", _nearest(shard, shards)))


def _describe_missing(what: str, names: list[str]) -> str:
    there = f"there are {_list_names(names)}" if names else "there are none"
    return f"There is no {what}, {there}; for one that is yet to be made, set even_if_missing."


def _list_names(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the names in one text, the most similar to `wanted` first."""

    def unlike(name: str) -> tuple[float, str]:
        return -SequenceMatcher(None, wanted.lower(), name.lower()).ratio(), name

    return sorted(names, key=unlike)
