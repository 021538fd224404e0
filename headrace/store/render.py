"""Renders records as the JSON that GetRecords sends; this is done once, when records are put."""

from __future__ import annotations

from collections.abc import Sequence

_START = '{"SequenceNumber":"'
_KEY = '","PartitionKey":"'


def render(
    numbers: Sequence[str], data: Sequence[str], keys: Sequence[str], arrival_ms: int, tail: str
) -> bytes:
    """Return records as GetRecords sends them, joined by `frame.SEPARATOR`; an empty key is none, and is left out.

    Whole columns are placed in one list, which is joined once: this takes half the time of formatting each record.
    """
    arrival = f'","ApproximateArrivalTimestamp":{arrival_ms / 1000:.3f},"Data":"'
    if len(numbers) == 1:
        key = _KEY + keys[0] if keys[0] else ""
        text = f'{_START}{numbers[0]}{arrival}{data[0]}{key}"{tail}}}'
        return text.encode("ascii")
    parts = [f'"{tail}}},\n{_START}', "", arrival, "", _KEY, ""] * len(numbers)
    parts[0] = _START
    parts[1::6] = numbers
    parts[3::6] = data
    parts[5::6] = keys
    if "" in keys:
        parts[4::6] = [_KEY if key else "" for key in keys]
    parts.append(f'"{tail}}}')
    return "".join(parts).encode("ascii")
