"""A job as a value: its name, its options, what it reads, computes and writes. `main()` runs it.

A job's file has its pure `transform`, and ends with

    JOB = Job("my_job", "What it is for.", transform, results=RESULTS)

    if __name__ == "__main__":
        sys.exit(JOB.main())
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import batches, events, kinesis, options, outputs, queries
from spark_jobs.common.day_tables import DayTable
from spark_jobs.common.options import DRAIN

# Each of a job's own options, such as `--planes`, with argparse's keywords for it.
Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Source:
    """A stream that a job reads.

    Attributes:
        argument: the argument that names the stream.
        schema, required: its events' fields, and those that must be there.
        observation: the name under which the job's transform counts its events.
        part: the subfolder of its unreadable records, with a slash, for a job with several streams.
    """

    argument: str = "stream"
    schema: str = events.FLIGHT_SCHEMA
    required: tuple[str, ...] = events.FLIGHT_REQUIRED
    observation: str = events.OBSERVATION
    part: str = ""


@dataclass(frozen=True)
class Job:
    """A job on streams: one query, from the checkpoint on, which reads each stream once.

    With `--trigger available-now`, the default, a run takes what they hold, and ends; with a time between micro-batches
    it runs on. With `--metrics NAMESPACE` CloudWatch gets the query's: the lag, rows and rates of its streams, the rows
    in state, those dropped as late, and the counts of events.

    Attributes:
        name: the job's name, which is its file's.
        about: a sentence for `--help`.
        transform: returns the query's rows from each source's records, and the watermark.
        results: the rows' names and order; without them the output is a table of the job's own, never a stream.
        sink: returns what writes a micro-batch's rows; by default they go to `--output` as `results` says. Writing a
            micro-batch again must change nothing.
        options: the options that only this job has.
        sources: the streams.
        settings: Spark's settings during the query.
        waits: whether results wait in the state for events or for the watermark; the run then counts these rows.
        trigger: the default of `--trigger`.
    """

    name: str
    about: str
    transform: Callable[..., DataFrame] = events.flights_once
    results: outputs.Results | None = None
    sink: Callable[[SparkSession, argparse.Namespace], batches.Sink] | None = None
    options: Options = field(default_factory=dict)
    sources: tuple[Source, ...] = (Source(),)
    settings: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    trigger: str = DRAIN

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a step's arguments; exits with a sentence for invalid ones."""
        parser = options.parser(self.name, self.about, self.trigger)
        options.add(parser, self.options)
        return options.parse(parser, argv, to_stream=self.results is not None)

    @property
    def mode(self) -> str:
        """The query's output mode."""
        return "update" if self.results and self.results.corrects else "append"

    def query(
        self, spark: SparkSession, arguments: argparse.Namespace, *records: DataFrame
    ) -> tuple[DataFrame, batches.Sink]:
        """Return the query's rows from each source's `records`, and what writes its micro-batches."""
        sink = self._sink(spark, arguments)
        if arguments.quarantine is None:
            return self.transform(*records, arguments.watermark), sink
        once = [queries.read_once(rows) for rows in records]
        bad = [
            queries.unreadable(rows, source.schema, source.required, source.part)
            for source, rows in zip(self.sources, once)
        ]
        quarantine = queries.Quarantine(self._parts(arguments))
        rows = quarantine.with_results(self.transform(*once, arguments.watermark), bad)
        return rows, quarantine.sink(spark, arguments, sink)

    def run(
        self, spark: SparkSession, arguments: argparse.Namespace, *records: DataFrame
    ) -> dict[str, int]:
        """Run the query on each source's `records` to its end, and return its counts of events."""
        before = {name: spark.conf.get(name) for name in self.settings}
        _set(spark, self.settings)
        try:
            rows, sink = self.query(spark, arguments, *records)
            return queries.run_query(
                spark,
                rows,
                self.name,
                self.mode,
                arguments,
                sink,
                tuple(source.observation for source in self.sources),
                self._parts(arguments),
                waits=self.waits,
            )
        finally:
            _set(spark, before)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job in a new session, on the command line's arguments by default, and return the exit status."""
        arguments = self.parse(sys.argv[1:] if argv is None else argv)

        def run(spark: SparkSession) -> dict[str, int]:
            if arguments.metrics:
                from headrace.spark.cloudwatch import publish_progress

                publish_progress(spark, namespace=arguments.metrics, region=arguments.region)
            streams = [getattr(arguments, source.argument) for source in self.sources]
            records = [kinesis.source(spark, arguments, stream) for stream in streams]
            return self.run(spark, arguments, *records)

        return _in_session(self.name, run)

    def _parts(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        return tuple(source.part for source in self.sources) if arguments.quarantine else ()

    def _sink(self, spark: SparkSession, arguments: argparse.Namespace) -> batches.Sink:
        if self.sink is not None:
            return self.sink(spark, arguments)
        if self.results is None:
            raise ValueError(f"Job {self.name} has neither results nor a sink.")
        return outputs.sink(spark, arguments, self.results)


@dataclass(frozen=True)
class TableJob:
    """A job that makes a table, `--output`, of `day_tables.py` from stored tables; a run replaces it at once.

    Attributes:
        name: the job's name, which is its file's.
        about: a sentence for `--help`.
        table: returns the table's rows.
        schema: the table's columns; one is `day`.
        options: its options.
    """

    name: str
    about: str
    table: Callable[[SparkSession, argparse.Namespace], DataFrame]
    schema: str
    options: Options

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a step's arguments; exits with a sentence for invalid ones."""
        parser = argparse.ArgumentParser(prog=f"{self.name}.py", description=self.about)
        options.add(parser, self.options)
        return parser.parse_args(argv)

    def run(self, spark: SparkSession, arguments: argparse.Namespace) -> dict[str, int]:
        """Write the table, and return the number of its rows."""
        table = DayTable(spark, arguments.output.rstrip("/") + "/", self.schema)
        table.replace(self.table(spark, arguments))
        return {"rows": table.read().count()}

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job in a new session, on the command line's arguments by default, and return the exit status."""
        arguments = self.parse(sys.argv[1:] if argv is None else argv)
        return _in_session(self.name, lambda spark: self.run(spark, arguments))


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, str(value))


def _in_session(name: str, run: Callable[[SparkSession], dict[str, int]]) -> int:
    """Run a job in a new session, print its counts, and return the exit status."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    try:
        counts = run(spark)
    finally:
        spark.stop()
    sys.stdout.write(", ".join(f"{what}: {count}" for what, count in counts.items()) + "\n")
    return 0
