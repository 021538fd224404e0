"""FilterLogEvents: the events of a group in the order of their times, a page at a time.

A page is found without the events that it does not have: nothing of them is copied, and the search ends at its end.
Documented: API_FilterLogEvents (at most 10,000 events and 1 MB a page; streams are always interleaved; no streams are
named as searched). Assumed: what an event weighs is what PutLogEvents counts.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from typing import Any

from headrace.services.logs.metric_filters import EventMessageFilter, PreparedPattern, refuse

_MOST_EVENTS = 10_000
_MOST_BYTES = 1_048_576
# Documented for PutLogEvents: what an event counts beside its message.
_EVENT_BYTES = 26
# Where an event is among those of its group: its time, and its number.
_Place = tuple[int, int]


def filter_log_events(self: Any) -> str:
    """Answer FilterLogEvents; `self` is moto's handler."""
    asked = self._get_param
    group = self.logs_backend._find_log_group(
        log_group_id=asked("logGroupIdentifier"), log_group_name=asked("logGroupName")
    )
    names, prefix = asked("logStreamNames") or (), asked("logStreamNamePrefix")
    if names and prefix is not None:
        raise refuse("Only one of logStreamNames and logStreamNamePrefix can be specified.")
    limit = asked("limit") or _MOST_EVENTS
    if limit > _MOST_EVENTS:
        raise refuse(
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint:"
            f" Member must have value less than or equal to {_MOST_EVENTS}"
        )
    pattern = EventMessageFilter(PreparedPattern.of(asked("filterPattern")))
    streams = [
        stream
        for name, stream in list(group.streams.items())
        if (not names or name in names) and name.startswith(prefix or "")
    ]
    token = asked("nextToken")
    after = _place_of(token, group.name) if token else (asked("startTime") or 0, -1)
    if after is None:  # AWS answers nothing to a token that is none
        return json.dumps({"events": [], "searchedLogStreams": []})
    until = asked("endTime")
    ordered = heapq.merge(*(_ordered(stream, after) for stream in streams))
    if until:
        ordered = takewhile(lambda one: one[0][0] <= until, ordered)
    matching = ((name, event) for _, name, event in ordered if pattern.matches(event.message))
    page, has_more = _page_of(matching, limit)
    answer: dict[str, Any] = {
        "events": [{**event.to_filter_dict(), "logStreamName": name} for name, event in page],
        "searchedLogStreams": [],
    }
    if has_more:
        _, last = page[-1]
        answer["nextToken"] = f"{group.name}@{last.timestamp}@{last.event_id}"
    return json.dumps(answer)


def _page_of(matching: Iterator[tuple[str, Any]], limit: int) -> tuple[list[Any], bool]:
    """Return the events of a page, and whether more follow."""
    page: list[tuple[str, Any]] = []
    size_bytes = 0
    for name, event in islice(matching, limit + 1):
        size_bytes += len(event.message.encode()) + _EVENT_BYTES
        if page and (len(page) == limit or size_bytes > _MOST_BYTES):
            return page, True
        page.append((name, event))
    return page, False


def _ordered(stream: Any, after: _Place) -> Iterator[tuple[_Place, str, Any]]:
    """Yield a stream's events behind a place in their order, each with its own place."""
    events = list(stream.events)
    if any(_place(one) > _place(next_one) for one, next_one in pairwise(events)):
        events.sort(key=_place)
    first = bisect_left(events, (after[0], after[1] + 1), key=_place)
    name = stream.log_stream_name
    for event in islice(events, first, None):
        yield _place(event), name, event


def _place(event: Any) -> _Place:
    return event.timestamp, event.event_id


def _place_of(token: str, group: str) -> _Place | None:
    """Return the place of the last event before a page; None when a token is no page's of this group."""
    name, _, place = str(token).partition("@")
    parts = place.split("@")
    if (
        name != group
        or len(parts) != 2
        or not all(part.isascii() and part.isdigit() for part in parts)
    ):
        return None
    try:
        return int(parts[0]), int(parts[1])
    except ValueError:  # thousands of digits
        return None
