"""Implements `format("aws-kinesis")`, the connector that EMR bundles, for steps on the local cloud with Spark 3.5.

Spark 3.5 finds sources only among the JVM's classes. So this module patches PySpark's stream readers and writers in the
job's process: for that format they use the source and the sink of `headrace.spark`, with the bundled connector's
defaults and columns, and, like that, without knowing the trigger AvailableNow. It works only in Python jobs; in SQL and
Scala, Spark reports that it cannot find the format.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT = "aws-kinesis"


def answer(readwriter: ModuleType) -> None:
    """Patch the classes of `pyspark.sql.streaming.readwriter` to know the format."""
    for kind in (readwriter.DataStreamReader, readwriter.DataStreamWriter):
        _remember(kind, readwriter.to_str)
    _answer_load(readwriter.DataStreamReader)
    _answer_start(readwriter.DataStreamWriter)


def _remember(kind: Any, to_text: Any) -> None:
    """Make a reader or writer store its settings, because the JVM's object does not return them."""
    set_format, set_option, set_options = kind.format, kind.option, kind.options

    @functools.wraps(set_format)
    def format(self: Any, source: str) -> Any:  # noqa: A001 - PySpark's name
        self._headrace_format = source
        return set_format(self, source)

    @functools.wraps(set_option)
    def option(self: Any, key: str, value: Any) -> Any:
        _get_options(self)[key] = to_text(value)
        return set_option(self, key, value)

    @functools.wraps(set_options)
    def options(self: Any, **more: Any) -> Any:
        _get_options(self).update({name: to_text(value) for name, value in more.items()})
        return set_options(self, **more)

    kind.format, kind.option, kind.options = format, option, options


def _get_options(of: Any) -> dict[str, str | None]:
    return of.__dict__.setdefault("_headrace_options", {})


def _is_asked(of: Any, source: str | None) -> bool:
    return (source or getattr(of, "_headrace_format", "")).lower() == FORMAT


def _options(of: Any) -> dict[str, str]:
    return {name: text for name, text in _get_options(of).items() if text is not None}


def _answer_load(kind: Any) -> None:
    load = kind.load

    @functools.wraps(load)
    def answered(
        self: Any,
        path: Any = None,
        format: Any = None,  # noqa: A002 - PySpark's name
        schema: Any = None,
        **options: Any,
    ) -> Any:
        if not _is_asked(self, format):
            return load(self, path, format, schema, **options)
        from headrace.spark.bundled import NEEDED_OF_SOURCE, as_ours
        from headrace.spark.callbacks import OneBatchSource, stream_frame
        from headrace.spark.option_table import SOURCE
        from headrace.spark.options import parse_options

        self.options(**options)
        options_given = parse_options(as_ours(_options(self), SOURCE, needed=NEEDED_OF_SOURCE))
        return stream_frame(self._spark, options_given, OneBatchSource).drop("shardId")

    kind.load = answered


def _answer_start(kind: Any) -> None:
    start = kind.start
    set_mode = kind.outputMode

    @functools.wraps(set_mode)
    def output_mode(self: Any, outputMode: str) -> Any:
        self._headrace_mode = outputMode
        return set_mode(self, outputMode)

    @functools.wraps(start)
    def answered(
        self: Any,
        path: Any = None,
        format: Any = None,  # noqa: A002 - PySpark's name
        outputMode: Any = None,
        **more: Any,
    ) -> Any:
        if not _is_asked(self, format):
            return start(self, path, format, outputMode, **more)
        from headrace.spark.bundled import (
            NEEDED_OF_SINK,
            as_ours,
            check_schema,
            warn_of_aggregation,
        )
        from headrace.spark.option_table import SINK
        from headrace.spark.options import InvalidOption, parse_sink_options
        from headrace.spark.streams import append

        spark_own = {name: more.pop(name) for name in ("partitionBy", "queryName") if name in more}
        self.options(**more)
        if (outputMode or getattr(self, "_headrace_mode", "append")).lower() != "append":
            raise InvalidOption("The aws-kinesis connector takes the output mode append only.")
        check_schema(self._df.schema)
        sink = parse_sink_options(as_ours(_options(self), SINK, needed=NEEDED_OF_SINK))
        warn_of_aggregation()

        def write(batch: DataFrame, _: int) -> None:
            append(batch, sink)

        self.foreachBatch(write)
        return start(self, **spark_own)

    kind.outputMode, kind.start = output_mode, answered
