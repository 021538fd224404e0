"""The options of source and sink.

Names are those of the `aws-kinesis` connector that EMR bundles; letter case is free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Init,
    Latest,
    PerShard,
    Position,
    TrimHorizon,
)

PREFIX = "kinesis."
READ_BYTES_PER_S = 2 * 1024 * 1024  # documented: a shard's read capacity
MOST_RECORDS_PER_FETCH = 10_000  # documented: API_GetRecords, Limit


class InvalidOption(ValueError):
    """An option that is unknown, missing, or has a value that means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a query was given.

    Attributes:
        stream: the stream's name.
        region: its region; None leaves it to boto3.
        endpoint_url: of Kinesis; None leaves it to boto3 (AWS, or AWS_ENDPOINT_URL).
        init: where a query without a checkpoint begins; None: at LATEST for a stream, TRIM_HORIZON for a batch.
        fail_on_data_loss: whether records that are gone fail the query, or are passed over with a warning.
        max_records_per_shard: of one micro-batch.
        max_records_per_trigger: of one micro-batch over all shards; None sets no bound.
        records_per_fetch: of one GetRecords call.
        max_bytes_per_shard, max_bytes_per_trigger: of data, of one micro-batch; one record of each shard always fits.
        fetch_interval_ms: between two calls to a shard, on average: 200 keeps Kinesis's five calls a second.
        read_bytes_per_s: of a shard, on average; what Kinesis allows, unless several readers share it.
        describe_interval_s: between two looks for new shards.
        role_arn, role_session_name: assumed for every call, when given.
    """

    stream: str
    region: str | None = None
    endpoint_url: str | None = None
    init: Init | None = None
    fail_on_data_loss: bool = True
    max_records_per_shard: int = 100_000
    max_records_per_trigger: int | None = None
    records_per_fetch: int = MOST_RECORDS_PER_FETCH
    max_bytes_per_shard: int | None = None
    max_bytes_per_trigger: int | None = None
    fetch_interval_ms: int = 200
    read_bytes_per_s: int = READ_BYTES_PER_S
    describe_interval_s: float = 1.0
    role_arn: str | None = None
    role_session_name: str = "headrace-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a write was given.

    Attributes:
        stream, region, endpoint_url, role_arn, role_session_name: as of the source.
        record_ttl_ms: how long a record that Kinesis refuses is tried again before the write fails.
        ordered: whether a key's records are stored in their order, at the price that one request holds a key once.
    """

    stream: str
    region: str | None = None
    endpoint_url: str | None = None
    role_arn: str | None = None
    role_session_name: str = "headrace-spark"
    record_ttl_ms: int = 30_000
    ordered: bool = True


def parse_options(given: Mapping[str, str]) -> Options:
    """Return the options of a source. Raises InvalidOption."""
    return Options(**_values(given, "source", _SOURCE))


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Return the options of a sink. Raises InvalidOption.

    A streaming write's own options (`checkpointLocation`, `path`) are Spark's, and passed over.
    """
    ours = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    return SinkOptions(**_values(ours, "sink", _SINK))


_OF_SPARK = frozenset({"checkpointlocation", "path"})


def _values(given: Mapping[str, str], role: str, table: _Table) -> dict[str, Any]:
    values: dict[str, Any] = {}
    parsers = {name.lower(): (field, parse) for name, field, parse in table}
    for name, text in given.items():
        known = parsers.get(name.lower())
        if known is None:
            names = ", ".join(name for name, _, _ in table)
            raise InvalidOption(f"The kinesis {role} has no option {name!r}. It has: {names}.")
        field, parse = known
        try:
            value = parse(text.strip())
        except ValueError as error:
            raise InvalidOption(f"Option {name} has the value {text!r}: {error}.") from None
        if field:
            values[field] = value
    if not values.get("stream"):
        raise InvalidOption(f"The kinesis {role} needs the option kinesis.streamName.")
    return values


def parse_init(text: str) -> Init:
    """Return where to begin: a position for all shards, or a JSON object of positions by shard id.

    `{"shardId-000000000000": "AFTER_SEQUENCE_NUMBER 4959…", "*": "TRIM_HORIZON"}`; `*` are all others, and when it is
    left out they begin at TRIM_HORIZON. Raises ValueError.
    """
    if not text.lstrip().startswith("{"):
        return parse_position(text)
    found = cast("dict[str, object]", json.loads(text))
    positions = {name: parse_position(str(position), name) for name, position in found.items()}
    others = positions.pop("*", TrimHorizon())
    return PerShard(tuple(sorted(positions.items())), others)


def parse_position(text: str, shard_id: str = "*") -> Position:
    """Return a position: LATEST, TRIM_HORIZON, EARLIEST, or AT_TIMESTAMP and an ISO time.

    Of one shard also AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and a number. Raises ValueError.
    """
    word, _, rest = text.strip().partition(" ")
    match word.upper(), rest.strip():
        case "LATEST", "":
            return Latest()
        case (("TRIM_HORIZON" | "EARLIEST"), ""):
            return TrimHorizon()
        case "AT_TIMESTAMP", when if when:
            return AtTimestamp(_epoch_ms(when))
        case (("AT_SEQUENCE_NUMBER" | "AFTER_SEQUENCE_NUMBER") as kind, number) if (
            shard_id != "*" and number.isdecimal()
        ):
            return AtSequenceNumber(number, after=kind.startswith("AFTER"))
        case _:
            raise ValueError("not LATEST, TRIM_HORIZON, EARLIEST, or AT_TIMESTAMP with an ISO time")


def _epoch_ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("not a positive number")
    return number


def _fetch(text: str) -> int:
    number = _count(text)
    if number > MOST_RECORDS_PER_FETCH:
        raise ValueError(f"more than {MOST_RECORDS_PER_FETCH}")
    return number


def _duration_s(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit, seconds in units.items():
        number = text.removesuffix(unit)
        if number != text and number.isdecimal():
            return int(number) * seconds
    raise ValueError("not a duration such as 1s or 500ms")


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("not true or false")


def _polling(text: str) -> str:
    if text.lower() != "getrecords":
        raise ValueError("this source reads by GetRecords only")
    return text


def _unaggregated(text: str) -> str:
    if _boolean(text):
        raise ValueError("this sink does not aggregate records")
    return text


_Table = list[tuple[str, str, Callable[[str], Any]]]
_CONNECTION: _Table = [
    ("kinesis.streamName", "stream", str),
    ("kinesis.region", "region", str),
    ("kinesis.endpointUrl", "endpoint_url", str),
    ("kinesis.stsRoleArn", "role_arn", str),
    ("kinesis.stsSessionName", "role_session_name", str),
]
_SOURCE: _Table = [
    *_CONNECTION,
    ("kinesis.startingPosition", "init", parse_init),
    ("kinesis.failOnDataLoss", "fail_on_data_loss", _boolean),
    ("kinesis.maxFetchRecordsPerShard", "max_records_per_shard", _count),
    ("kinesis.maxRecordsPerTrigger", "max_records_per_trigger", _count),
    ("kinesis.getRecords.numberOfRecordsPerFetch", "records_per_fetch", _fetch),
    ("kinesis.maxFetchBytesPerShard", "max_bytes_per_shard", _count),
    ("kinesis.maxBytesPerTrigger", "max_bytes_per_trigger", _count),
    ("kinesis.getRecords.fetchIntervalMs", "fetch_interval_ms", _count),
    ("kinesis.getRecords.maxBytesPerSecond", "read_bytes_per_s", _count),
    ("kinesis.describeShardInterval", "describe_interval_s", _duration_s),
    ("kinesis.consumerType", "", _polling),
]
_SINK: _Table = [
    *_CONNECTION,
    ("kinesis.sink.recordTtl", "record_ttl_ms", _count),
    ("kinesis.sink.ordered", "ordered", _boolean),
    ("kinesis.sink.aggregationEnabled", "", _unaggregated),
]
