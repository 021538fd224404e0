"""Checks the options' values as EMR's bundled connector does, and converts its starting positions to headrace's.

Source: awslabs/spark-sql-kinesis-connector, KinesisOptions.scala and KinesisModel.scala (its sentences too).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, cast

from headrace.spark.options import InvalidOption

_POSITIVE = (
    "kinesis.maxFetchRecordsPerShard", "kinesis.maxFetchTimePerShardSec", "kinesis.minBatchesToRetain",
    "kinesis.checkNewRecordThreads", "kinesis.getRecords.numberOfRecordsPerFetch",
)  # fmt: skip
_NOT_NEGATIVE = (
    "kinesis.metadataNumRetries", "kinesis.clientNumRetries", "kinesis.subscribeToShard.timeoutSec",
    "kinesis.subscribeToShard.maxRetries",
)  # fmt: skip
_NOT_NEGATIVE_LONG = (
    "kinesis.metadataRetryIntervalsMs", "kinesis.metadataMaxRetryIntervalMs", "kinesis.clientRetryIntervalsMs",
    "kinesis.clientMaxRetryIntervalMs", "kinesis.getRecords.fetchIntervalMs",
)  # fmt: skip
_TOGETHER = (
    ("kinesis.stsRoleArn", "kinesis.stsSessionName"),
    ("kinesis.awsAccessKeyId", "kinesis.awsSecretKey"),
)
_MOST_INT, _MOST_LONG = 2**31 - 1, 2**63 - 1
# "maxFetchTime can't be too small as KDS sometimes takes more than 5s to response" (its source).
_LEAST_FETCH_TIME_S = 10
_COMMITTERS = ("HDFS", "DYNAMODB")
_WORDS = ("LATEST", "TRIM_HORIZON", "EARLIEST")
_HAS_ZONE = re.compile(r"[^T]*T.*(?:[zZ]|[+-]\d{2}(?::?\d{2})?)")


def check_values(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a value that the connector refuses; `options` has the options' names in lower case."""
    for names, least, most, kind in (
        (_POSITIVE, 1, _MOST_INT, "a positive integer"),
        (_NOT_NEGATIVE, 0, _MOST_INT, "zero or a positive integer"),
        (_NOT_NEGATIVE_LONG, 0, _MOST_LONG, "zero or a positive long"),
    ):
        for name in names:
            text = options.get(name.lower())
            if text is not None and not _is_number(text, least, most):
                raise InvalidOption(f"Invalid value '{text}' for option '{name}', must be {kind}")
    time_s = options.get("kinesis.maxfetchtimepershardsec")
    if time_s is not None and int(time_s) < _LEAST_FETCH_TIME_S:
        raise InvalidOption("kinesis.maxFetchTimePerShardSec must be no less than 10")
    for first, second in _TOGETHER:
        if (first.lower() in options) != (second.lower() in options):
            raise InvalidOption(f"{first} and {second} must be both defined or empty")
    committer = options.get("kinesis.metadatacommittertype", _COMMITTERS[0])
    if committer.upper() not in _COMMITTERS:
        # Assumed: only that the connector refuses it is known.
        raise InvalidOption(f"kinesis.metadataCommitterType is HDFS or DYNAMODB, not {committer!r}")


def starting_position(text: str) -> str:
    """Return headrace's text for the connector's starting position. Raises InvalidOption."""
    word = text.strip().upper()
    if word in _WORDS:
        return text
    if word.startswith("AT_TIMESTAMP"):
        if not _HAS_ZONE.fullmatch(text.strip()):
            raise InvalidOption(
                f"{text} for startingPosition entered in Invalid Format, please follow the UTC Format "
                "YYYY-MM-DDTHH:MM:SSZ where Z is timezone in UTC +/- offset hours"
            )
        return text
    try:
        shards = cast("dict[str, Any]", json.loads(text))
        positions = {
            shard: _position(value) for shard, value in shards.items() if shard != "metadata"
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidOption(
            f"kinesis.startingPosition {text!r} is none of {', '.join(_WORDS)}, AT_TIMESTAMP with a time, or a JSON "
            "object of iteratorType (AFTER_SEQUENCE_NUMBER, ...; headrace has no SHARD_END) and iteratorPosition by "
            "shard id"
        ) from None
    # Shards that are not named begin at the time of the start.
    return json.dumps({**positions, "*": "LATEST"})


def _position(value: Any) -> str:
    kind = str(value["iteratorType"]).upper()
    where = str(value.get("iteratorPosition", ""))
    if kind == "AT_TIMESTAMP":
        moment = datetime.fromtimestamp(int(where) / 1000, timezone.utc)
        return f"{kind} {moment.isoformat()}"
    if kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        return f"{kind} {where}"
    if kind in ("LATEST", "TRIM_HORIZON"):
        return kind
    raise ValueError(kind)


def _is_number(text: str, least: int, most: int) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None and least <= int(text) <= most
