"""A real PostgreSQL, a stream that stands in for Kinesis, and captures between them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.cdc.capture import Capture, Settings
from headrace.cdc.envelopes import envelope_of
from headrace.cdc.stream_sink import PRODUCER_OPTIONS, PartitionKeys, StreamSink
from headrace.cdc.table_sink import ProgressFile
from headrace.client.clock import SystemClock
from headrace.client.producer import Producer
from tests.support.fake_stream import FakeStream
from tests.support.logical_postgres import LogicalPostgres
from tests.support.server import wait_until


@pytest.fixture(scope="session")
def postgres() -> Iterator[LogicalPostgres]:
    server = LogicalPostgres()
    yield server
    server.stop()


class Lab:
    """A database of its own, and captures of it, each until the server has nothing more."""

    def __init__(self, server: LogicalPostgres, name: str, folder: Path) -> None:
        self.server, self.name = server, name
        self.url = server.url_of("postgres", name)
        self.stream = FakeStream(2)
        self.progress = ProgressFile(folder / "progress.json")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.run(*statements, database=self.name)

    def sink(self, format_: str = "plain", by: Any = None, **options: Any) -> StreamSink:
        producer = Producer(
            "s", streams=self.stream, make_wire=lambda: self.stream,  # type: ignore[arg-type]
            **{**PRODUCER_OPTIONS, "linger_ms": 1.0, "connections": 1, "seed": 1},
        )  # fmt: skip
        settings = {"record_bytes": 1 << 20, **options}
        return StreamSink(
            producer, envelope_of(format_, self.name, "db"), PartitionKeys(by or {}), **settings
        )

    def capture(self, sink: Any = None, **settings: Any) -> Capture:
        settings = {"slot": self.name, "publication": self.name, "once": True, **settings}
        return Capture(
            Settings(settings.pop("url", self.url), **settings),
            sink or self.sink(),
            self.progress,
            SystemClock(),
        )

    def read(self, sink: Any = None, **settings: Any) -> list[dict[str, Any]]:
        """Capture, and return the events that came, without the descriptions of tables, by their transactions."""
        before = len(self.events())
        sink = sink or self.sink()
        self.capture(sink, **settings).run()
        sink.close()
        return [event for event in self.events()[before:] if event.get("op") != "schema"]

    def records(self) -> list[dict[str, Any]]:
        return [record for request in self.stream.requests for record in request["Records"]]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(_data(record)) for record in self.records()]

    def keys(self) -> list[str]:
        return [record["PartitionKey"] for record in self.records()]


def _data(record: dict[str, Any]) -> bytes:
    data = record["Data"]
    return data if isinstance(data, bytes) else base64.b64decode(data)


@pytest.fixture
def lab(postgres: LogicalPostgres, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    name = "".join(c if c.isalnum() else "_" for c in request.node.name.lower())[:40]
    postgres.run(f"create database {name}")
    yield Lab(postgres, name, tmp_path)
    slots = f"from pg_replication_slots where database = '{name}'"
    drop = f"select pg_drop_replication_slot(slot_name) {slots}"

    def drop_slots() -> bool:
        # The server notices a moment later that a capture is gone, one that had just begun to read too.
        try:
            postgres.run(drop)
        except psycopg.errors.ObjectInUse:
            return False
        return True

    wait_until(drop_slots, what="slots without readers")
    postgres.run(f"drop database {name} with (force)")
