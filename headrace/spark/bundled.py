"""Translates the options of EMR's bundled connector (`aws-kinesis`) to those of headrace's source and sink.

For `format("aws-kinesis")` in steps on the local cloud: `connector/` from Spark 4.0 on, `connector35/`
on 3.5.

Checks the options' values as EMR's bundled connector does, and converts its starting positions to headrace's.

Source: awslabs/spark-sql-kinesis-connector, KinesisOptions.scala and KinesisModel.scala (its sentences too).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, cast

from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.spark.option_table import Option, region_of
from headrace.spark.options import InvalidOption
from headrace.spark.sink import InvalidSchema

log = logging.getLogger(__name__)

FORMAT = "aws-kinesis"
NEEDED_OF_SOURCE = ("kinesis.endpointUrl",)
NEEDED_OF_SINK = ("kinesis.region", "kinesis.endpointUrl")
_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})


def warn_of_aggregation() -> None:
    """Log a warning that this sink, unlike the bundled connector, does not aggregate records."""
    log.warning(
        "Records are written one by one; on EMR the aws-kinesis connector aggregates them unless "
        "kinesis.sink.aggregationEnabled is false."
    )


def as_ours(
    options: Mapping[str, str], table: list[Option], needed: tuple[str, ...]
) -> dict[str, str]:
    """Return the options of headrace's source or sink for a job's options of the bundled connector.

    Raises InvalidOption for a missing option.
    """
    known = {option.name.lower(): option for option in table if option.bundled is not None}
    texts = {name.lower(): text for name, text in options.items()}
    for name in ("kinesis.streamName", *needed):
        if not texts.get(name.lower()):
            raise InvalidOption(f"{name} is not specified: the aws-kinesis connector needs it.")
    for name in sorted(set(texts) - set(known) - _OF_SPARK):
        log.warning("The aws-kinesis connector has no option %s: it has no effect.", name)
        del texts[name]
    check_values(texts)
    if "kinesis.startingposition" in texts:
        texts["kinesis.startingposition"] = starting_position(texts["kinesis.startingposition"])
    _without_fan_out(texts)
    texts.pop("kinesis.sink.aggregationenabled", None)
    _at_the_local_cloud(texts)
    return _defaults(known) | texts


def _without_fan_out(options: dict[str, str]) -> None:
    if options.get("kinesis.consumertype", "").lower() != "subscribetoshard":
        return
    if not options.get("kinesis.consumername"):
        raise InvalidOption("kinesis.consumerName must be specified for SubscribeToShard.")
    log.warning("The stream is read by GetRecords here; on EMR by SubscribeToShard.")
    del options["kinesis.consumertype"]


def _at_the_local_cloud(options: dict[str, str]) -> None:
    """Leave out an AWS endpoint if the environment sets another endpoint, as it does in local steps."""
    url = options["kinesis.endpointurl"]
    region = region_of(url)
    elsewhere = os.environ.get("AWS_ENDPOINT_URL_KINESIS") or os.environ.get("AWS_ENDPOINT_URL")
    if region is None or not elsewhere:
        return
    log.info("%s is at %s here.", url, elsewhere)
    del options["kinesis.endpointurl"]
    options.setdefault("kinesis.kinesisregion", region)


def _defaults(known: Mapping[str, Option]) -> dict[str, str]:
    """Return the bundled connector's defaults."""
    defaults: dict[str, str] = {}
    for name, option in known.items():
        if option.kind != "used" or not option.bundled or option.parse is str:
            continue
        try:
            option.parse(option.bundled)
        except ValueError:  # a description in the table, not a value
            continue
        defaults[name] = option.bundled
    return defaults


def check_schema(schema: StructType) -> None:
    """Raise InvalidSchema for a frame that the connector would not write."""
    types = {field.name: field.dataType for field in schema.fields}
    for name in ("data", "partitionKey"):
        if name not in types:
            raise InvalidSchema(f"Required attribute '{name}' not found")
    for name in ("data", "partitionKey", "explicitHashKey"):
        if not isinstance(types.get(name, StringType()), (BinaryType, StringType)):
            raise InvalidSchema(f"{name} attribute type must be a String or BinaryType")


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
