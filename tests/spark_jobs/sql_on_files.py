"""Runs a compiled SQL job on files in place of streams; also as a program of any Spark, and in Python 3.9.

`python sql_on_files.py FOLDER` runs FOLDER/job.py on the files of FOLDER/in and writes FOLDER/out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

SCHEMA = (
    "data BINARY, streamName STRING, partitionKey STRING, sequenceNumber STRING,"
    " approximateArrivalTimestamp TIMESTAMP"
)


def run(folder: Path, *arguments: str) -> None:
    """Run the job with a file of each stream as a micro-batch, and end when all are read."""
    source = (folder / "job.py").read_text(encoding="utf-8")
    # Not by this module's name, which may be that of a program.
    job = ModuleType("sql_job")
    exec(compile(source, "job.py", "exec", dont_inherit=True), job.__dict__)

    def read_kinesis(session: Any, _arguments: Any, stream: str) -> Any:
        stream_of = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return stream_of.parquet(str(folder / "in" / stream))

    def write_kinesis(
        frame: Any, _arguments: Any, stream: str, name: str, mode: str, progress: str
    ) -> Any:
        def write(batch: Any, _batch_id: int) -> None:
            # A folder of each query: Spark removes what another one has begun in its own.
            out = folder / "out" / stream / name.replace(" ", "_")
            batch.coalesce(1).write.mode("append").parquet(str(out))

        writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
        return writer.option("checkpointLocation", progress).trigger(availableNow=True).start()

    read_object = job.__dict__["read_object"]

    def read_file(session: Any, arguments: Any, address: str) -> Any:
        return read_object(session, arguments, str(folder / "objects" / Path(address).name))

    job.__dict__.update(
        read_kinesis=read_kinesis, write_kinesis=write_kinesis, read_object=read_file
    )
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
