"""Parses the values of options. Every function raises ValueError with the reason for an invalid text."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import cast

from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Init,
    Latest,
    Position,
    ShardPositions,
    TrimHorizon,
)

MOST_RECORDS_PER_FETCH = 10_000  # documented: API_GetRecords, Limit
# Spark's format of durations (JavaUtils.timeStringAs); without a unit they are milliseconds here.
_UNITS_S = {
    "us": 1e-6, "ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
_AWS_ENDPOINT = re.compile(r"^\w+://(?:[\w-]+\.)*kinesis(?:-fips)?\.([a-z]{2}[a-z0-9-]+-\d)\.")


def parse_init(text: str) -> Init:
    """Parse a starting position: one for all shards, or a JSON object of positions by shard id.

    `{"shardId-000000000000": "AFTER_SEQUENCE_NUMBER 4959…", "*": "TRIM_HORIZON"}`; `*` is for all other shards, which
    begin at TRIM_HORIZON without it.
    """
    if not text.lstrip().startswith("{"):
        return parse_position(text)
    document = cast("dict[str, object]", json.loads(text))
    positions = {name: parse_position(str(position), name) for name, position in document.items()}
    others = positions.pop("*", TrimHorizon())
    return ShardPositions(tuple(sorted(positions.items())), others)


def parse_position(text: str, shard_id: str = "*") -> Position:
    """Parse a position: LATEST, TRIM_HORIZON, EARLIEST, or AT_TIMESTAMP and an ISO time.

    A single shard's position may also be AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and a number.
    """
    word, _, rest = text.strip().partition(" ")
    kind, where = word.upper(), rest.strip()
    if (kind, where) == ("LATEST", ""):
        return Latest()
    if kind in ("TRIM_HORIZON", "EARLIEST") and not where:
        return TrimHorizon()
    if kind == "AT_TIMESTAMP" and where:
        return AtTimestamp(_epoch_ms(where))
    if (
        kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
        and shard_id != "*"
        and where.isdecimal()
    ):
        return AtSequenceNumber(where, after=kind.startswith("AFTER"))
    raise ValueError("not LATEST, TRIM_HORIZON, EARLIEST, or AT_TIMESTAMP with an ISO time")


def _epoch_ms(text: str) -> int:
    # Python 3.9 and 3.10 parse neither a Z nor fractions without exactly three or six digits.
    plain = re.sub(r"\.(\d{1,9})", lambda found: f".{found[1]:0<6}"[:7], text)
    moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", plain))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def count(text: str) -> int:
    """Parse a number above 0."""
    number = int(text)
    if number < 1:
        raise ValueError("not a positive number")
    return number


def whole(text: str) -> int:
    """Parse a number that is 0 or above."""
    number = int(text)
    if number < 0:
        raise ValueError("a negative number")
    return number


def fetch(text: str) -> int:
    """Parse the number of records for a call."""
    number = count(text)
    if number > MOST_RECORDS_PER_FETCH:
        raise ValueError(f"more than {MOST_RECORDS_PER_FETCH}")
    return number


def duration_s(text: str) -> float:
    """Parse a duration such as `500ms`, `1s` or `2min`, to seconds; a bare number is in milliseconds."""
    match = re.fullmatch(r"(\d+) *([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_S:
        raise ValueError("not a duration such as 1s or 500ms")
    return int(match[1]) * _UNITS_S[match[2]]


def boolean(text: str) -> bool:
    """Parse `true` or `false`."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("not true or false")


def read_mode(text: str) -> str:
    """Parse who reads Kinesis: `auto`, `driver` or `executors`."""
    if text.lower() in ("auto", "driver", "executors"):
        return text.lower()
    raise ValueError("not auto, driver or executors")


def fan_out(text: str) -> bool:
    """Parse the consumer type: whether it is `SubscribeToShard`, and not `GetRecords`."""
    if text.lower() not in ("getrecords", "subscribetoshard"):
        raise ValueError("not GetRecords or SubscribeToShard")
    return text.lower() == "subscribetoshard"


def unaggregated(text: str) -> bool:
    """Parse `false`: records are never aggregated."""
    if boolean(text):
        raise ValueError("this sink does not aggregate records")
    return False


def region_of(endpoint_url: str) -> str | None:
    """Return the region in the URL of an AWS endpoint of Kinesis; None for another URL."""
    match = _AWS_ENDPOINT.match(endpoint_url)
    return match[1] if match else None
