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

from headrace.testing.waiting import records_of
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


@pytest.mark.slow  # The property test of channels kills at any step, in a second.
def test_no_event_of_a_file_channel_is_lost_over_kills(tmp_path: Path) -> None:
    """Flume's TAILDIR into a file channel into Kinesis; the agent is killed, and the log is rotated."""
    logs, log = tmp_path / "logs", tmp_path / "logs" / "app.log"
    logs.mkdir()
    configuration, chance = tmp_path / "flume.conf", random.Random(37)
    configuration.write_text(
        "a.sources = s\na.channels = c\na.sinks = k\na.channels.c.type = file\n"
        f"a.channels.c.dataDirs = {tmp_path}/data\na.channels.c.minimumRequiredSpace = 0\n"
        "a.sources.s.type = TAILDIR\na.sources.s.channels = c\na.sources.s.filegroups = f\n"
        f"a.sources.s.filegroups.f = {log}\na.sources.s.positionFile = {tmp_path}/positions.json\n"
        "a.sinks.k.type = com.amazonaws.services.kinesis.flume.KinesisSink\na.sinks.k.channel = c\n"
        "a.sinks.k.streamName = logs\na.sinks.k.batchSize = 500\n"
    )
    with ServerProcess(tmp_path / "cloud") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName="logs", ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName="logs")
        command = [sys.executable, "-m", "headrace.cli.main", "agent", str(configuration),
                   "--endpoint-url", server.endpoint_url]  # fmt: skip
        written = 0
        for kill in range(2):
            with log.open("ab") as file:
                for _ in range(5000 + chance.randrange(5000)):
                    file.write(b"%d\n" % written)
                    written += 1
            sent = len(records_of(server, "logs"))
            agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            wait_until(
                lambda sent=sent: len(records_of(server, "logs")) > sent,
                what="the agent sends", within_s=60,
            )  # fmt: skip
            os.kill(agent.pid, signal.SIGKILL)
            agent.wait()
            log.rename(logs / f"app.log.{kill + 1}")
        log.touch()
        subprocess.run([*command, "--once"], check=True, stderr=subprocess.DEVNULL, timeout=120)
        numbers = [int(record.data) for record in records_of(server, "logs")]
    assert set(numbers) == set(range(written))
    # What was acknowledged and not noted comes again: a transaction or a read of the source for each kill.
    assert len(numbers) < 2 * written
