"""Translates the options of EMR's bundled connector (`aws-kinesis`) to those of headrace's source and sink.

For `format("aws-kinesis")` in steps on the local cloud: `connector/` from Spark 4.0 on, `connector35/`
on 3.5.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.spark.bundled_values import check_values, starting_position
from headrace.spark.option_table import Option
from headrace.spark.option_values import region_of
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
