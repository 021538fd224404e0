"""Counts departures by carrier: pure functions, no AWS.

A window's state is `{"departures": {carrier: count}, "malformed": count}`: a number for each carrier, some hundred
bytes, far below the megabyte at which Lambda would end a window early.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def carrier_of(data: bytes) -> str | None:
    """Return the carrier of a flight that departed, or None if it was cancelled.

    Raises ValueError when the data is not a flight.
    """
    event = json.loads(data)
    carrier = event.get("carrier") if isinstance(event, dict) else None
    if not carrier or not isinstance(carrier, str) or "dep_time" not in event:
        raise ValueError("it is not a flight")
    return None if event["dep_time"] is None else carrier


def add(state: dict[str, Any], payloads: Iterable[bytes]) -> dict[str, Any]:
    """Return a window's state after some more records; do not change `state`."""
    departures = dict(state.get("departures", {}))
    malformed = state.get("malformed", 0)
    for data in payloads:
        try:
            carrier = carrier_of(data)
        except (ValueError, RecursionError):
            # Count it and do not fail: `enrich` reports it already.
            malformed += 1
            continue
        if carrier is not None:
            departures[carrier] = departures.get(carrier, 0) + 1
    return {"departures": departures, "malformed": malformed}


def items(state: dict[str, Any], *, window: dict[str, str], shard_id: str) -> list[dict[str, Any]]:
    """Return a window's items for the table, one for each carrier, in DynamoDB's form.

    Their key is window, carrier and shard, so that a repeated last invocation writes the same items again.
    """
    return [
        {
            "window": {"S": window["start"]},
            "carrier_shard": {"S": f"{carrier}#{shard_id}"},
            "carrier": {"S": carrier},
            "window_end": {"S": window["end"]},
            "departures": {"N": str(count)},
        }
        for carrier, count in sorted(state.get("departures", {}).items())
    ]
