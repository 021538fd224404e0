"""Answers `format("aws-kinesis")`, the connector that EMR's image carries, with headrace's source in local steps.

Spark finds it as it finds `pyspark_headrace`. It is on the path only of jobs that name the connector: see
`headrace.spark_submit.connector`.
"""

from headrace.spark.source import KinesisDataSource


class DefaultSource(KinesisDataSource):
    """The source and the sink under the connector's name."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` is given."""
        return "aws-kinesis"


__all__ = ["DefaultSource"]
