"""`headrace cdc` on a real cloud and a real PostgreSQL, killed at any moment: no change is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cdc.events import Compaction
from headrace.testing.waiting import records_of
from tests.support.logical_postgres import LogicalPostgres
from tests.support.server import ServerProcess, wait_until
from tests.unit.cdc.test_compaction import plain_event

pytestmark = pytest.mark.crash

ROUNDS, NIGHTLY_ROUNDS, ROWS = 4, 6, 400


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[LogicalPostgres]:
    server = LogicalPostgres()
    yield server
    server.stop()


def _events(server: ServerProcess) -> list[dict[str, Any]]:
    return [record.json for record in records_of(server, "changes")]


def test_no_change_is_lost_by_kills_of_either_side(
    server: ServerProcess, postgres: LogicalPostgres, tmp_path: Path, nightly: bool
):
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName="changes", ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName="changes")
    postgres.run("create table orders (id int primary key, version int)",
                 f"insert into orders select g, 0 from generate_series(1, {ROWS}) g")  # fmt: skip
    command = [
        sys.executable, "-m", "headrace.cli.main", "cdc", postgres.url, "--stream", "changes", "--format", "plain",
        "--state", str(tmp_path / "state"), "--endpoint-url", server.endpoint_url, "--region", "us-east-1",
    ]  # fmt: skip
    chance, rounds = random.Random(36), NIGHTLY_ROUNDS if nightly else ROUNDS
    for version in range(1, rounds):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path)
        postgres.run(f"update orders set version = {version}")
        wanted = chance.randrange(ROWS * version)
        wait_until(lambda wanted=wanted: len(_events(server)) >= wanted)
        process.kill()
        process.communicate()
        if version % 2:
            postgres.kill()
            postgres.start()
    subprocess.run([*command, "--once"], check=True, timeout=120, cwd=tmp_path, capture_output=True)
    events = [e for e in _events(server) if e["op"] != "schema"]
    changes = {(e["after"]["id"], e["after"]["version"]): e["id"] for e in events if e["op"] == "u"}
    rows = {e["after"]["id"]: e["after"]["version"] for e in events if e["op"] == "r"}
    assert set(rows) == set(range(1, ROWS + 1))
    # Every change after the (last) snapshot came, and the same change always with the same id.
    since = max(e["after"]["version"] for e in events if e["op"] == "r")
    for version in range(since + 1, rounds):
        assert {i for i, v in changes if v == version} == set(range(1, ROWS + 1))
    by_id: dict[str, Any] = {}
    for event in events:
        if event["op"] == "u":
            assert by_id.setdefault(event["id"], event["after"]) == event["after"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["s3://lake/latest/", "iceberg://lake/latest"])
def test_the_latest_rows_are_the_integral_of_the_stream_after_kills(
    server: ServerProcess, folder: str, tmp_path: Path
):
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName="changes", ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName="changes")
    server.client("s3").create_bucket(Bucket="lake")
    server.client("glue").create_database(
        DatabaseInput={"Name": "lake", "LocationUri": "s3://lake/tables"}
    )
    command = [sys.executable, "-m", "headrace.cli.main", "compact", "changes", folder,
               "--endpoint-url", server.endpoint_url, "--region", "us-east-1"]  # fmt: skip
    chance, whole, lsn, kills = random.Random(36), Compaction(), 16, 0
    for _ in range(8):
        for _ in range(chance.randrange(5, 40)):
            id_ = chance.randrange(30)
            data = plain_event(id_, lsn, chance.choice("uuud"))
            lsn += 8
            kinesis.put_record(StreamName="changes", PartitionKey=str(id_), Data=data)
            whole.take(data, str(id_), 0)
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        try:
            # Whichever comes first, its end or a moment of its work.
            process.wait(chance.uniform(0.5, 3.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    again = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert again.stdout.startswith("0 records were folded")
    rebuilt = subprocess.run(
        [*command, "--rebuild", "public.t"], check=True, cwd=tmp_path, capture_output=True, text=True
    )  # fmt: skip
    assert [json.loads(line) for line in rebuilt.stdout.splitlines()] == whole.rows("public.t")
    assert kills
