"""`headrace cdc` on a real cloud and a real PostgreSQL, killed at any moment: no change is lost."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.reading import records_of
from tests.support.logical_postgres import LogicalPostgres
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash

ROUNDS, ROWS = 6, 400


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
    server: ServerProcess, postgres: LogicalPostgres, tmp_path: Path
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
    chance = random.Random(36)
    for version in range(1, ROUNDS):
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
    for version in range(since + 1, ROUNDS):
        assert {i for i, v in changes if v == version} == set(range(1, ROWS + 1))
    by_id: dict[str, Any] = {}
    for event in events:
        if event["op"] == "u":
            assert by_id.setdefault(event["id"], event["after"]) == event["after"]
