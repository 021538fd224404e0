"""`headrace sql run` on a real cloud: from streams by a step of EMR into streams, and on from the checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import REGION, ServerProcess

pytestmark = pytest.mark.spark

QUERIES = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, delay INT) WITH (stream = 'flights');
CREATE TABLE airports (origin VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 'airports');
CREATE TABLE named AS SELECT origin, UCASE(name) AS name FROM airports WHERE name <> 'Newark';
CREATE STREAM late AS SELECT id, origin, delay FROM flights WHERE delay > 15;
"""


def put(server: ServerProcess, stream: str, *records: tuple[str, Any]) -> None:
    kinesis = server.client("kinesis")
    for key, value in records:
        kinesis.put_record(StreamName=stream, Data=json.dumps(value), PartitionKey=key)


def read(server: ServerProcess, stream: str) -> list[tuple[str, Any]]:
    """Return the keys and values of a stream's records, sorted."""
    kinesis = server.client("kinesis")
    result: list[tuple[str, Any]] = []
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        at = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for record in kinesis.get_records(ShardIterator=at)["Records"]:
            value = json.loads(record["Data"])
            (value or {}).pop("_event_id", None)
            result.append((record["PartitionKey"], value))
    return sorted(result, key=str)


def command(server: ServerProcess, *arguments: str, typed: str = "", exit_code: int = 0) -> str:
    where = ["--endpoint-url", server.endpoint_url, "--region", REGION]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), "sql", *arguments, *where],
        input=typed, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stderr if exit_code else done.stdout


def test_queries_run_as_a_step_and_go_on_from_their_checkpoint(tmp_path: Path) -> None:
    queries = tmp_path / "q.sql"
    queries.write_text(QUERIES)
    with ServerProcess(tmp_path / "data") as server:
        for stream in ("flights", "airports"):
            server.client("kinesis").create_stream(StreamName=stream, ShardCount=1)
            server.client("kinesis").get_waiter("stream_exists").wait(
                StreamName=stream, WaiterConfig={"Delay": 1}
            )
        put(server, "flights", ("a", {"origin": "EWR", "delay": 20}), ("b", {"delay": 1}))
        put(server, "airports", ("JFK", {"name": "Kennedy"}), ("EWR", {"name": "Newark"}))
        command(server, "run", str(queries), "--once")
        assert read(server, "late") == [("a", {"id": "a", "origin": "EWR", "delay": 20})]
        assert read(server, "named") == [("JFK", {"origin": "JFK", "name": "KENNEDY"})]

        select = "SELECT * FROM named WHERE origin IN ('JFK', 'EWR');"
        shown = command(server, "query", str(queries), select)
        assert json.loads(shown) == {"origin": "JFK", "name": "KENNEDY"}

        put(server, "flights", ("c", {"origin": "JFK", "delay": 90}))
        put(server, "airports", ("JFK", None))
        command(server, "run", str(queries), "--once")
        assert [key for key, _ in read(server, "late")] == ["a", "c"]
        assert ("JFK", None) in read(server, "named")
        assert len(read(server, "named")) == 2
        assert command(server, "query", str(queries), select) == ""

        queries.write_text(QUERIES.replace("AS name FROM", "AS title FROM"))
        refusal = command(server, "run", str(queries), "--once", exit_code=1)
        assert "columns was origin STRING KEY, name STRING, is origin STRING KEY, title" in refusal


def test_the_prompt_shows_the_rows_that_are_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.client("kinesis").create_stream(StreamName="flights", ShardCount=2)
        server.client("kinesis").get_waiter("stream_exists").wait(
            StreamName="flights", WaiterConfig={"Delay": 1}
        )
        put(server, "flights", ("a", {"origin": "EWR", "delay": 20}), ("b", {"delay": 1}))
        typed = (
            QUERIES.partition("CREATE TABLE")[0]
            + "SELECT id, delay FROM flights\n WHERE delay > 5;\n\\q\n"
        )
        assert command(server, typed=typed).splitlines() == ["ok", '{"id": "a", "delay": 20}']
