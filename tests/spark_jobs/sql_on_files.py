"""Runs a compiled SQL job on files in place of streams; also as a program of any Spark, and in Python 3.9.

`python sql_on_files.py FOLDER` runs FOLDER/job.py on the files of FOLDER/in and writes FOLDER/out.
"""

from __future__ import annotations

import functools
import json
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from pyspark.sql import functions

SCHEMA = (
    "data BINARY, streamName STRING, partitionKey STRING, sequenceNumber STRING,"
    " approximateArrivalTimestamp TIMESTAMP"
)


def records_of(folder: Path, stream: str) -> list[tuple[Any, str]]:
    """Return the records that a job has put into a stream, in order: pairs of data, a text or bytes, and a key."""
    files = sorted(
        (folder / "out" / stream).rglob("*.json"), key=lambda one: one.stat().st_mtime_ns
    )
    return [
        (bytes.fromhex(data[0]) if isinstance(data, list) else data, key)
        for file in files
        for data, key in json.loads(file.read_text(encoding="utf-8"))
    ]


def _text_of(data: Any) -> Any:
    return data if isinstance(data, str) else [bytes(data).hex()]


def _has_state(frame: Any) -> bool:
    return "EventTimeWatermark" in frame._jdf.queryExecution().analyzed().toString()


def _is_of_job(name: str) -> bool:
    """Whether the job has made a query for itself: it puts what other queries have stored."""
    return " " in name


class Together:
    """Queries without a state whose rows are of one type, as one query, which starts when one of them is waited for.

    To start a query costs far more than to run it on a few rows.
    """

    def __init__(self, start: Callable[[Any], Any]) -> None:
        self._start = start
        self._frames: list[Any] = []
        self._query: Any = None

    def add(self, frame: Any) -> Together:
        self._frames.append(frame)
        return self

    def __getattr__(self, name: str) -> Any:
        if self._query is None:
            self._query = self._start(
                functools.reduce(lambda one, other: one.union(other), self._frames)
            )
        return getattr(self._query, name)


def run(folder: Path, *arguments: str, keeps_views: bool = True, together: bool = False) -> None:
    """Run the job with a file of each stream as a micro-batch, and end when all are read.

    Without `keeps_views` tables have no stored state, whose files take most of a micro-batch's time. With `together`
    the queries that need no state are one.
    """
    source = (folder / "job.py").read_text(encoding="utf-8")
    # Not by this module's name, which may be that of a program.
    job = ModuleType("sql_job")
    exec(compile(source, "job.py", "exec", dont_inherit=True), job.__dict__)

    def read_kinesis(session: Any, _arguments: Any, stream: str) -> Any:
        stream_of = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return stream_of.parquet(str(folder / "in" / stream))

    def write(batch: Any, batch_id: int) -> None:
        # Not by a job of Spark's, which costs more than the query. A repeated micro-batch writes its rows again.
        of_queries: dict[tuple[str, str], list[Any]] = {}
        for row in batch.collect():
            rows = of_queries.setdefault((row["_stream"], row["_name"]), [])
            rows.append([_text_of(row["data"]), row["partitionKey"]])
        for (stream, name), rows in of_queries.items():
            out = folder / "out" / stream / name.replace(" ", "_")
            out.mkdir(parents=True, exist_ok=True)
            file = f"{batch_id}-{uuid.uuid4()}"
            (out / file).write_text(json.dumps(rows), encoding="utf-8")
            (out / file).rename(out / f"{file}.json")

    unions: dict[tuple[str, str], Together] = {}

    def write_kinesis(
        frame: Any, _arguments: Any, stream: str, name: str, mode: str, progress: str
    ) -> Any:
        def start(frame: Any) -> Any:
            writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
            return writer.option("checkpointLocation", progress).trigger(availableNow=True).start()

        frame = frame.withColumns({"_stream": functions.lit(stream), "_name": functions.lit(name)})
        if not together or _is_of_job(name) or _has_state(frame):
            return start(frame)
        kind = frame.schema["data"].dataType.simpleString()
        return unions.setdefault((mode, kind), Together(start)).add(frame)

    read_object = job.__dict__["read_object"]

    def read_file(session: Any, arguments: Any, address: str) -> Any:
        return read_object(session, arguments, str(folder / "objects" / Path(address).name))

    job.__dict__.update(
        read_kinesis=read_kinesis, write_kinesis=write_kinesis, read_object=read_file
    )
    if not keeps_views:
        job.__dict__["keep_view"] = lambda *_: None
    job.__dict__["main"](
        [
            "--region",
            "us-east-1",
            "--checkpoint",
            str(folder / "progress"),
            "--once",
            "--shuffle-partitions",
            "1",
            *arguments,
        ]
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]))
