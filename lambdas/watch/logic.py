"""Finds silent and overheating devices: pure functions, no AWS.

A window's state is what each of its devices did, in a hundred bytes: far below the megabyte at which Lambda would end a
window early for a thousand devices of a shard. What was before the window is in a table: `last`, the device's last
reading, `hot`, whether that was too hot, and `silent`, the last reading before a silence that is reported already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

SILENT_MS = 10 * 60_000
HOT_CELSIUS = 80.0
# How much the clocks of devices differ at most, and their messages' order: a silence is sure only after that.
DOUBT_MS = 2 * 60_000
# DynamoDB's longest sort key.
MAX_DEVICE_BYTES = 1024

# A device's part of a state.
Seen = dict[str, Any]


def reading_of(data: bytes) -> tuple[str, int, float]:
    """Return a reading's device, time in milliseconds of the device's clock, and degrees. Raises ValueError."""
    event = json.loads(data)
    try:
        at_ms = round(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)
        device, celsius = str(event["device"]), float(event["celsius"])
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("it is not a reading") from error
    if not 1 <= len(device.encode()) <= MAX_DEVICE_BYTES:
        raise ValueError("its device cannot be a key of the table")
    return device, at_ms, celsius


def add(state: Mapping[str, Any], payloads: Iterable[bytes]) -> dict[str, Any]:
    """Return a window's state after some more records; do not change `state`.

    A device's readings come in order; one that is not later than the device's last one is a repetition.
    """
    devices = {name: dict(seen) for name, seen in state.get("devices", {}).items()}
    malformed = state.get("malformed", 0)
    for data in payloads:
        try:
            device, at_ms, celsius = reading_of(data)
        except (ValueError, RecursionError):
            malformed += 1
            continue
        hot = celsius >= HOT_CELSIUS
        seen = devices.get(device)
        if seen is None:
            devices[device] = {"first": at_ms, "began_hot": hot, "last": at_ms, "hot": hot}
        elif at_ms > seen["last"]:
            if at_ms - seen["last"] >= SILENT_MS:
                seen["silences"] = [*seen.get("silences", []), seen["last"]]
            if hot and not seen["hot"]:
                seen["heats"] = [*seen.get("heats", []), at_ms]
            seen |= {"last": at_ms, "hot": hot}
    return {"devices": devices, "malformed": malformed}


def alerts(seen: Seen, device: str, before: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield what a window shows of a device, given its row in the table; each alert has an id of its own."""
    last = None if before is None else before["last"]
    if before is None:
        if seen["began_hot"]:
            yield _alert("overheating", device, seen["first"])
    elif seen["first"] > before["last"]:
        if seen["first"] - before["last"] >= SILENT_MS and before.get("silent") != last:
            yield _alert("silent", device, before["last"])
        if seen["began_hot"] and not before["hot"]:
            yield _alert("overheating", device, seen["first"])
    for since in seen.get("silences", []):
        yield _alert("silent", device, since)
    for since in seen.get("heats", []):
        yield _alert("overheating", device, since)


def silences(
    rows: Mapping[str, Mapping[str, Any]], newest_ms: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the devices that have been silent for long, with their alerts, once for each silence."""
    for device, row in rows.items():
        is_silent = newest_ms - DOUBT_MS - row["last"] >= SILENT_MS
        if is_silent and row.get("silent") != row["last"]:
            yield device, _alert("silent", device, row["last"])


def newest(state: Mapping[str, Any]) -> int:
    """Return the latest time of a window's readings, in milliseconds; 0 without any."""
    return max((seen["last"] for seen in state["devices"].values()), default=0)


def row_after(seen: Seen, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a device's row once its window has ended."""
    if before is not None and before["last"] >= seen["last"]:
        return dict(before)
    silent = None if before is None else before.get("silent")
    return {"last": seen["last"], "hot": seen["hot"], "silent": silent}


def _alert(kind: str, device: str, since_ms: int) -> dict[str, Any]:
    return {
        "id": f"{kind}#{device}#{since_ms}",
        "kind": kind,
        "device": device,
        "since_ms": since_ms,
    }
