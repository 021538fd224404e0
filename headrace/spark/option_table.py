"""A table of every option of the source and the sink, and of every option of EMR's `aws-kinesis` connector.

    python -m headrace.spark.option_table docs/spark-kinesis.md

writes the tables between the marks in that page. The functions that parse values raise ValueError with the reason for
an invalid text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

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


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: as users write it; letter case is free.
        meaning: for users; for an option that is refused or has no effect, the reason.
        field: the field of Options or SinkOptions; empty if the value is only checked.
        parse: converts the text to a value; raises ValueError.
        default: as text; empty for none.
        bundled: the bundled connector's default; None if it has no such option, empty if it has no default.
        kind: `used`, `no effect` (accepted, and a warning is logged) or `refused`.
    """

    name: str
    meaning: str
    field: str = ""
    parse: Callable[[str], Any] = str
    default: str = ""
    bundled: str | None = None
    kind: str = "used"


def _idle(name: str, bundled: str, why: str) -> Option:
    return Option(name=name, bundled=bundled, meaning=why, kind="no effect")


def _refused_option(name: str, bundled: str, why: str) -> Option:
    return Option(name=name, bundled=bundled, meaning=why, kind="refused")


_METADATA_TRIES = (
    "a failed read or write of kinesis.metadataPath is repeated five times, from 100 ms on"
)
_FILES = "positions are files at kinesis.metadataPath, whatever the store is called"
_QUEUE = "a task reads until its batch has its records, without a queue"
_JVM = "a class of the JVM; use boto3's ways to credentials, or kinesis.stsRoleArn"
_PROXY = "set HTTPS_PROXY in the environment"

CONNECTION = [
    Option(
        name="kinesis.streamName", field="stream", bundled="", meaning="the stream's name; needed"
    ),
    Option(
        name="kinesis.region", field="region", bundled="the endpoint's",
        meaning="the stream's region; without one the endpoint's, else boto3's",
    ),
    Option(
        name="kinesis.kinesisRegion", field="kinesis_region", bundled="the endpoint's",
        meaning="the same, and goes before it",
    ),
    Option(
        name="kinesis.endpointUrl", field="endpoint_url", bundled="needed",
        meaning="of Kinesis; without one boto3's: AWS, or AWS_ENDPOINT_URL",
    ),
    Option(
        name="kinesis.stsRoleArn", field="role_arn", bundled="",
        meaning="a role that is assumed for every call",
    ),
    Option(
        name="kinesis.stsSessionName", field="role_session_name", default="headrace-spark",
        bundled="needed with a role", meaning="the name of the role's session",
    ),
    Option(
        name="kinesis.stsEndpointUrl", field="sts_endpoint_url", bundled="",
        meaning="of STS, where the role is assumed",
    ),
    Option(
        name="kinesis.awsAccessKeyId", field="access_key_id", bundled="",
        meaning="a key instead of boto3's own search; together with the next",
    ),
    Option(name="kinesis.awsSecretKey", field="secret_key", bundled="", meaning="its secret"),
    Option(
        name="kinesis.sessionToken", field="session_token", bundled="",
        meaning="its token, of a temporary key",
    ),
    Option(
        name="kinesis.clientNumRetries", field="most_retries", parse=whole, default="11",
        bundled="5", meaning="how often a call that is throttled or fails is sent again",
    ),
    Option(
        name="kinesis.clientRetryIntervalsMs", field="retry_interval_ms", parse=whole,
        default="100", bundled="1000",
        meaning="the longest wait before the first time, which doubles each time; half of it passes at least",
    ),
    Option(
        name="kinesis.clientMaxRetryIntervalMs", field="longest_retry_interval_ms",
        parse=whole, default="5000", bundled="10000", meaning="the longest such wait",
    ),
    _refused_option("kinesis.credentialProviderClass", "", _JVM),
    _refused_option("kinesis.credentialProviderParam", "", _JVM),
    _refused_option("proxyAddress", "", _PROXY),
    _refused_option("proxyPort", "", _PROXY),
    _refused_option("proxyUsername", "", _PROXY),
    _refused_option("proxyPassword", "", _PROXY),
]  # fmt: skip

SOURCE = [
    *CONNECTION,
    Option(
        name="kinesis.startingPosition", field="init", parse=parse_init, bundled="LATEST",
        meaning="where a query without a checkpoint begins: LATEST, TRIM_HORIZON, EARLIEST, AT_TIMESTAMP and an ISO "
        "time, or a JSON object of these (and AT_/AFTER_SEQUENCE_NUMBER) by shard id; without one LATEST for a "
        "stream, TRIM_HORIZON for `spark.read`",
    ),
    Option(
        name="kinesis.failOnDataLoss", field="fail_on_data_loss", parse=boolean, default="true",
        bundled="false",
        meaning="whether records that are gone before they were read fail the query; else it warns and goes on",
    ),
    Option(
        name="kinesis.maxFetchRecordsPerShard", field="max_records_per_shard", parse=count,
        default="100000", bundled="100000",
        meaning="records of one shard in one micro-batch; on Spark 4.0 and 4.1, where AvailableNow is one batch, there "
        "is no default: without it a batch takes all that the stream holds",
    ),
    Option(
        name="kinesis.maxRecordsPerTrigger", field="max_records_per_trigger", parse=count,
        meaning="records of one micro-batch; without it unbounded",
    ),
    Option(
        name="kinesis.maxFetchBytesPerShard", field="max_bytes_per_shard", parse=count,
        meaning="bytes of data of one shard in one micro-batch; one record always fits",
    ),
    Option(
        name="kinesis.maxBytesPerTrigger", field="max_bytes_per_trigger", parse=count,
        meaning="bytes of data in one micro-batch; one record of every shard always fits",
    ),
    Option(
        name="kinesis.getRecords.numberOfRecordsPerFetch", field="records_per_fetch", parse=fetch,
        default="10000", bundled="10000", meaning="records that one GetRecords call may give",
    ),
    Option(
        name="kinesis.getRecords.fetchIntervalMs", field="fetch_interval_ms", parse=whole,
        default="200", bundled="200",
        meaning="between two GetRecords calls to a shard, on average: 200 keeps Kinesis's five a second",
    ),
    Option(
        name="kinesis.getRecords.maxBytesPerSecond", field="read_bytes_per_s", parse=count,
        default="2097152",
        meaning="of a shard, on average: what Kinesis allows. Divide it (and multiply the interval) when others read "
        "the stream too",
    ),
    Option(
        name="kinesis.describeShardInterval", field="describe_interval_s", parse=duration_s,
        default="1s", bundled="1s", meaning="between two looks for new shards",
    ),
    Option(
        name="kinesis.consumerType", field="fan_out", parse=fan_out, default="GetRecords", bundled="GetRecords",
        meaning="GetRecords, or SubscribeToShard: enhanced fan-out, by the executors alone (the distributed mode)",
    ),
    Option(
        name="kinesis.maxFetchTimePerShardSec", field="max_fetch_time_s", parse=count, bundled="no default",
        meaning="how long a micro-batch that has records is held back for a shard's allowance; without it 50 ms, "
        "and with AvailableNow (on Spark 4.0 and 4.1 always) until kinesis.maxFetchRecordsPerShard is reached",
    ),
    Option(
        name="kinesis.availableNow", field="available_now", parse=boolean, default="false",
        meaning="true: on Spark 4.0 and 4.1 no limit above holds, so that the one batch of AvailableNow takes all; "
        "later Sparks tell the source themselves, and it has no effect",
    ),
    Option(
        name="kinesis.readMode", field="read_mode", parse=read_mode, default="auto",
        meaning="who reads Kinesis: driver, executors (the distributed mode), or auto: executors if they are not in "
        "the driver's process and kinesis.metadataPath is set (on Spark 3.5 also without it)",
    ),
    Option(
        name="kinesis.metadataPath", field="metadata_path", bundled="the checkpoint's",
        meaning="distributed mode: where the driver writes what a batch reads, and tasks where they stopped: S3, HDFS, "
        "or a folder that all machines see. Needed from Spark 4.0 on, which does not tell a Python source the "
        "checkpoint; on 3.5 it is below the checkpoint by default",
    ),
    Option(
        name="kinesis.maxTasks", field="max_tasks", parse=count, default="32",
        meaning="distributed mode: tasks of one micro-batch; each reads its share of the shards, up to 16 at once",
    ),
    Option(
        name="kinesis.minBatchesToRetain", field="min_batches_to_retain", parse=count, default="100",
        bundled="Spark's", meaning="distributed mode: of how many batches kinesis.metadataPath keeps the files",
    ),
    _idle("kinesis.checkNewRecordThreads", "8", "up to 16 shards are asked side by side"),
    _idle("kinesis.metadataCommitterType", "HDFS", _FILES),
    _idle("kinesis.metadataNumRetries", "5", _METADATA_TRIES),
    _idle("kinesis.metadataRetryIntervalsMs", "1000", _METADATA_TRIES),
    _idle("kinesis.metadataMaxRetryIntervalMs", "10000", _METADATA_TRIES),
    _idle("kinesis.dynamodb.tableName", "", _FILES),
    Option(
        name="kinesis.consumerName", field="consumer_name", bundled="",
        meaning="enhanced fan-out: the consumer's name; it is registered if it is missing, and stays after the query",
    ),
    _idle("kinesis.subscribeToShard.timeoutSec", "60", "a subscription is read until the batch has its records"),
    _idle("kinesis.subscribeToShard.maxRetries", "10", "kinesis.clientNumRetries holds for all calls"),
    _idle("kinesis.internal.dataQueueCapacity", "1000", _QUEUE),
    _idle("kinesis.internal.maxDataQueueEmptyCount", "2", _QUEUE),
    _idle("kinesis.internal.dataQueueWaitTimeoutSec", "5", _QUEUE),
    _idle("kinesis.internal.maintenanceTaskIntervalSec", "100", "a batch removes old files of the batches before it"),
    _idle("kinesis.internal.avoidEmptyBatches", "true", "a batch without new records is none"),
]  # fmt: skip

SINK = [
    *CONNECTION,
    Option(
        name="kinesis.sink.recordTtl", field="record_ttl_ms", parse=count, default="30000",
        bundled="30000",
        meaning="milliseconds for which a record that Kinesis refuses is sent again; then the write fails (the "
        "bundled connector drops the record)",
    ),
    Option(
        name="kinesis.sink.ordered", field="ordered", parse=boolean, default="true",
        meaning="whether a partition key's records are stored in their order",
    ),
    Option(
        name="kinesis.sink.aggregationEnabled", parse=unaggregated, default="false", bundled="true",
        meaning="false: a row is a record; true is refused",
    ),
    _idle("kinesis.sink.flushWaitTimeMs", "100", "a task ends when its last record is stored"),
    _idle("kinesis.sink.recordMaxBufferedTimeMs", "1000", "nothing is held back"),
    _idle("kinesis.sink.maxConnections", "1", "every task has its own connection"),
]  # fmt: skip


def markdown(options: list[Option]) -> str:
    """Return a table of options."""
    lines = ["| option | default | bundled connector | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        bundled = "not there" if option.bundled is None else option.bundled or "no default"
        kind = "" if option.kind == "used" else f"*{option.kind}*: "
        default = f"`{option.default}`" if option.default else ""
        lines.append(f"| `{option.name}` | {default} | {bundled} | {kind}{option.meaning} |")
    return "\n".join(lines)


def page_with_tables(page: str) -> str:
    """Return a page with new tables between its marks."""
    parts = {
        "connection": CONNECTION,
        "source": SOURCE[len(CONNECTION) :],
        "sink": SINK[len(CONNECTION) :],
    }
    for name, options in parts.items():
        begin, end = f"<!-- options: {name} -->", "<!-- end -->"
        table = f"{begin}\n{markdown(options)}\n{end}"
        page = re.sub(f"{re.escape(begin)}.*?{end}", lambda _, t=table: t, page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page_with_tables(path.read_text()))
