"""A worker of the Kinesis Client Library that notes its records: kcl-rs, or, for the Java daemon, amazon_kclpy.

Arguments: `rs`, application, stream, endpoint, output; or `java`, output (the daemon runs it for each shard).
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any


def note(path: str, records: Any) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"".join(record.binary_data + b"\n" for record in records))
    os.close(file)


def methods(output: str) -> dict[str, Any]:
    """Return the methods of a processor, which both libraries name alike."""

    def process_records(self: Any, records: Any) -> None:
        note(output, records.records)
        records.checkpointer.checkpoint()

    def checkpoint(self: Any, event: Any) -> None:
        event.checkpointer.checkpoint()

    def nothing(self: Any, event: Any) -> None:
        pass

    return {
        "process_records": process_records, "shard_ended": checkpoint, "shutdown_requested": checkpoint,
        "initialize": nothing, "lease_lost": nothing,
    }  # fmt: skip


def run_rs(application: str, stream: str, endpoint_url: str, output: str) -> None:
    import kcl_rs

    scheduler = kcl_rs.Scheduler(
        stream_name=stream, application_name=application, region="us-east-1", endpoint_url=endpoint_url,
        record_processor_factory=type("Worker", (kcl_rs.RecordProcessorBase,), methods(output)),
        initial_position="TRIM_HORIZON", access_key_id="test", secret_access_key="test",
        retrieval_mode="POLLING", idle_time_between_reads_millis=200,
    )  # fmt: skip
    scheduler.start()
    threading.Event().wait()


def run_java(output: str) -> None:
    from amazon_kclpy import kcl
    from amazon_kclpy.v3 import processor

    kcl.KCLProcess(type("Worker", (processor.RecordProcessorBase,), methods(output))()).run()


if __name__ == "__main__":
    {"rs": run_rs, "java": run_java}[sys.argv[1]](*sys.argv[2:])
