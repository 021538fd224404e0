"""`headrace agent` is killed while it sends: no line is missing, and only what was not yet stored comes twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.reading import records_of
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash
LINES, KILLS = 60_000, 4


def test_no_line_is_lost_over_kills_and_rotations(tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "state.json"
    logs.mkdir()
    log, chance = logs / "app.log", random.Random(36)
    configuration = tmp_path / "agent.json"
    flow = {"filePattern": str(log), "kinesisStream": "logs", "initialPosition": "START_OF_FILE"}
    configuration.write_text(json.dumps({"flows": [flow]}))
    log.touch()
    with ServerProcess(tmp_path / "cloud") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName="logs", ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName="logs")
        command = [sys.executable, "-m", "headrace.cli.main", "agent", str(configuration), "--state", str(state),
                   "--endpoint-url", server.endpoint_url]  # fmt: skip
        written = 0
        for kill in range(KILLS):
            before = state.read_bytes() if state.exists() else b""
            agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            with log.open("ab") as file:
                for _ in range(LINES // KILLS):
                    file.write(b"%d\n" % written)
                    written += 1
            wait_until(
                lambda before=before: state.exists() and state.read_bytes() != before,
                what="the agent stores a position", within_s=60,
            )  # fmt: skip
            with log.open("ab") as file:
                for _ in range(chance.randrange(5000)):
                    file.write(b"%d\n" % written)
                    written += 1
            os.kill(agent.pid, signal.SIGKILL)
            agent.wait()
            log.rename(logs / f"app.log.{kill + 1}")
            log.touch()
        subprocess.run([*command, "--once"], check=True, stderr=subprocess.DEVNULL, timeout=60)
        numbers = [int(record.data) for record in records_of(server, "logs")]
    assert set(numbers) == set(range(written))
