"""Answers `format("aws-kinesis")`, the connector that EMR bundles, in steps on the local cloud.

Spark finds it as it finds `pyspark_headrace`. It is never in the zip of `headrace.spark.package`: on EMR the image's
own connector answers. So jobs that are written for that one run here as they are: its defaults hold, its columns come,
and what it would refuse is refused. What is different all the same is logged, and in docs/spark-kinesis.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.spark.option_table import SINK, SOURCE, Option
from headrace.spark.option_values import region_of
from headrace.spark.options import InvalidOption, as_one_batch, parse_options, parse_sink_options
from headrace.spark.reading import COLUMNS
from headrace.spark.sink import InvalidSchema, KinesisStreamWriter
from headrace.spark.source import KinesisDataSource, KinesisStreamReader
from headrace.spark.untyped import Records
from headrace.spark.versions import HAS_READ_LIMITS

log = logging.getLogger(__name__)

_THEIR_COLUMNS = ", ".join(name for name in COLUMNS.split(", ") if not name.startswith("shardId "))
_OF_SPARK = frozenset({"checkpointlocation", "path"})


class AwsKinesisDataSource(KinesisDataSource):
    """The bundled connector's source and sink, done by ours. Streaming only, as it is."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "aws-kinesis"

    def schema(self) -> str:
        """Return the columns of the bundled connector: without shardId."""
        parse_options(as_ours(self.options, SOURCE, needed=("kinesis.endpointUrl",)))
        return _THEIR_COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        given = as_ours(self.options, SOURCE, needed=("kinesis.endpointUrl",))
        options = parse_options(given)
        return _Reader(options if HAS_READ_LIMITS else as_one_batch(options, given))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Refuse, as the bundled connector does."""
        raise InvalidOption("The aws-kinesis connector reads streams only: use spark.readStream.")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refuse, as the bundled connector does."""
        raise InvalidOption("The aws-kinesis connector writes streams only: use df.writeStream.")

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a streaming query in append mode."""
        if overwrite:
            raise InvalidOption("The aws-kinesis connector takes the output mode append only.")
        _check_schema(schema)
        given = as_ours(self.options, SINK, needed=("kinesis.region", "kinesis.endpointUrl"))
        log.warning(
            "Records are written one by one; on EMR the aws-kinesis connector aggregates them unless "
            "kinesis.sink.aggregationEnabled is false."
        )
        return KinesisStreamWriter(parse_sink_options(given))


class _Reader(KinesisStreamReader):
    def read(self, partition: InputPartition) -> Iterator[Records]:
        """Yield a partition's records."""
        for batch in super().read(partition):
            yield batch.select([name for name in batch.schema.names if name != "shardId"])


def as_ours(
    given: Mapping[str, str], table: list[Option], needed: tuple[str, ...]
) -> dict[str, str]:
    """Return the options that our source or sink is to have for what a job gave the bundled connector.

    Raises InvalidOption for what is missing.
    """
    known = {option.name.lower(): option for option in table if option.bundled is not None}
    found = {name.lower(): text for name, text in given.items()}
    for name in ("kinesis.streamName", *needed):
        if not found.get(name.lower()):
            raise InvalidOption(f"{name} is not specified: the aws-kinesis connector needs it.")
    for name in sorted(set(found) - set(known) - _OF_SPARK):
        log.warning("The aws-kinesis connector has no option %s: it has no effect.", name)
        del found[name]
    _without_fan_out(found)
    found.pop("kinesis.sink.aggregationenabled", None)
    _at_the_local_cloud(found)
    return _defaults(known) | found


def _without_fan_out(found: dict[str, str]) -> None:
    if found.get("kinesis.consumertype", "").lower() != "subscribetoshard":
        return
    if not found.get("kinesis.consumername"):
        raise InvalidOption("kinesis.consumerName must be specified for SubscribeToShard.")
    log.warning("The stream is read by GetRecords here; on EMR by SubscribeToShard.")
    del found["kinesis.consumertype"]


def _at_the_local_cloud(found: dict[str, str]) -> None:
    """Leave out an address of AWS where the environment says that AWS is elsewhere, as it does in local steps."""
    url = found["kinesis.endpointurl"]
    region = region_of(url)
    elsewhere = os.environ.get("AWS_ENDPOINT_URL_KINESIS") or os.environ.get("AWS_ENDPOINT_URL")
    if region is None or not elsewhere:
        return
    log.info("%s is at %s here.", url, elsewhere)
    del found["kinesis.endpointurl"]
    found.setdefault("kinesis.kinesisregion", region)


def _defaults(known: Mapping[str, Option]) -> dict[str, str]:
    """Return the bundled connector's defaults."""
    found: dict[str, str] = {}
    for name, option in known.items():
        if option.kind != "used" or not option.bundled or option.parse is str:
            continue
        try:
            option.parse(option.bundled)
        except ValueError:  # words of the table, no value
            continue
        found[name] = option.bundled
    return found


def _check_schema(schema: StructType) -> None:
    types = {field.name: field.dataType for field in schema.fields}
    for name in ("data", "partitionKey"):
        if name not in types:
            raise InvalidSchema(f"Required attribute '{name}' not found")
    for name in ("data", "partitionKey", "explicitHashKey"):
        if not isinstance(types.get(name, StringType()), (BinaryType, StringType)):
            raise InvalidSchema(f"{name} attribute type must be a String or BinaryType")


DefaultSource = AwsKinesisDataSource
