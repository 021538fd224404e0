"""Implements `format("aws-kinesis")`, the connector that EMR bundles, for steps on the local cloud.

Spark finds it like `autoload/pyspark_headrace`. It is on the path only of jobs that name the connector (see
`headrace.spark_submit.making`), and never in the zip of `headrace.spark.package`, because EMR's image has the real
connector. Jobs for the real connector run here unchanged: this one has its defaults and columns, and refuses what it
refuses. The remaining differences are logged, and listed in docs/spark-kinesis.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from headrace.spark.bundled import (
    FORMAT,
    NEEDED_OF_SINK,
    NEEDED_OF_SOURCE,
    as_ours,
    check_schema,
    warn_of_aggregation,
)
from headrace.spark.option_table import SINK, SOURCE
from headrace.spark.options import InvalidOption, as_one_batch, parse_options, parse_sink_options
from headrace.spark.reading import COLUMNS
from headrace.spark.sink import KinesisStreamWriter
from headrace.spark.source import KinesisDataSource, KinesisStreamReader
from headrace.spark.untyped import Records
from headrace.spark.versions import HAS_READ_LIMITS

_THEIR_COLUMNS = ", ".join(name for name in COLUMNS.split(", ") if not name.startswith("shardId "))


class AwsKinesisDataSource(KinesisDataSource):
    """The bundled connector's source and sink, implemented by headrace's. Streaming only, like the original."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the bundled connector: without shardId."""
        parse_options(as_ours(self.options, SOURCE, needed=NEEDED_OF_SOURCE))
        return _THEIR_COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options_given = as_ours(self.options, SOURCE, needed=NEEDED_OF_SOURCE)
        options = parse_options(options_given)
        return _Reader(options if HAS_READ_LIMITS else as_one_batch(options, options_given))

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
        check_schema(schema)
        options_given = as_ours(self.options, SINK, needed=NEEDED_OF_SINK)
        warn_of_aggregation()
        return KinesisStreamWriter(parse_sink_options(options_given))


class _Reader(KinesisStreamReader):
    def read(self, partition: InputPartition) -> Iterator[Records]:
        """Yield a partition's records."""
        for batch in super().read(partition):
            yield batch.select([name for name in batch.schema.names if name != "shardId"])


DefaultSource = AwsKinesisDataSource
