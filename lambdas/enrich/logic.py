"""Enriches a flight event: pure functions, no AWS.

An enriched event adds to the event the airline's name, the plane (null if its tail number is not in the registry),
the minutes gained in the air, and whether the flight was cancelled.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parent / "reference"

_REQUIRED_TEXT = ("event_id", "event_time", "carrier", "origin", "dest")
_REQUIRED_INTEGERS = ("flight", "sched_dep_time", "sched_arr_time", "distance")
# A cancelled flight has no departure; a diverted flight has no arrival delay.
_NULLABLE_INTEGERS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")


class MalformedEvent(ValueError):
    """The record is not a flight event; the message says why, in one clause."""


@dataclass(frozen=True, slots=True)
class Plane:
    """One registered plane. `year` of manufacture is None if the registry lacks it."""

    year: int | None
    manufacturer: str
    model: str
    seats: int
    engine: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference tables: airline names by carrier, planes by tail number."""

    airlines: dict[str, str]
    planes: dict[str, Plane]


def load_reference(directory: Path = REFERENCE) -> Reference:
    """Read airlines.csv and planes.csv (3,322 planes: some 10 ms)."""
    with (directory / "airlines.csv").open(newline="", encoding="utf-8") as file:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(file)}
    with (directory / "planes.csv").open(newline="", encoding="utf-8") as file:
        planes = {
            row["tailnum"]: Plane(
                year=int(row["year"]) if row["year"] else None,
                manufacturer=row["manufacturer"],
                model=row["model"],
                seats=int(row["seats"]),
                engine=row["engine"],
            )
            for row in csv.DictReader(file)
        }
    return Reference(airlines, planes)


def parse_event(data: bytes) -> dict[str, Any]:
    """Return the flight event in `data`, UTF-8 JSON. Raises MalformedEvent."""
    try:
        event = json.loads(data, parse_constant=_refuse_constant)
    except MalformedEvent:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedEvent("it is not JSON") from error
    if not isinstance(event, dict):
        raise MalformedEvent("it is not a JSON object")
    for name in _REQUIRED_TEXT:
        if not isinstance(event.get(name), str) or not event[name]:
            raise MalformedEvent(f"its {name} is not a text")
    for name in _REQUIRED_INTEGERS:
        if not _is_integer(event.get(name)):
            raise MalformedEvent(f"its {name} is not a whole number")
    for name in _NULLABLE_INTEGERS:
        value = event.get(name)
        if value is not None and not _is_integer(value):
            raise MalformedEvent(f"its {name} is neither a whole number nor null")
    if not isinstance(event.get("tailnum", None), str | None):
        raise MalformedEvent("its tailnum is neither a text nor null")
    _check_time(event["event_time"])
    return event


def _is_integer(value: object) -> bool:
    # In Python, not in JSON, true is a whole number.
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_constant(name: str) -> Any:
    raise MalformedEvent(f"it holds {name}, which is not JSON")


def _check_time(text: str) -> None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedEvent("its event_time is not ISO 8601") from error
    if time.utcoffset() != timedelta(0):
        raise MalformedEvent("its event_time is not in UTC")


def enrich(event: dict[str, Any], reference: Reference) -> dict[str, Any]:
    """Return a new event: `event` with airline, plane, gained minutes and cancellation added.

    `gained_minutes` is the departure's delay minus the arrival's: positive if the flight made up time in the air,
    None if it did not arrive at its destination.
    """
    departure_delay, arrival_delay = event.get("dep_delay"), event.get("arr_delay")
    gained_minutes = None
    if departure_delay is not None and arrival_delay is not None:
        gained_minutes = departure_delay - arrival_delay
    plane = reference.planes.get(event.get("tailnum") or "")
    return {
        **event,
        "airline": reference.airlines.get(event["carrier"]),
        "plane_year": plane.year if plane else None,
        "plane_manufacturer": plane.manufacturer if plane else None,
        "plane_model": plane.model if plane else None,
        "plane_seats": plane.seats if plane else None,
        "plane_engine": plane.engine if plane else None,
        "gained_minutes": gained_minutes,
        "cancelled": event.get("dep_time") is None,
    }
