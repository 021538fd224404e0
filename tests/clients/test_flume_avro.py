"""Chained agents against avro-ipc's own Netty classes, which Flume uses: HEADRACE_AVRO_JARS is a folder of its jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.agent.flume.avro import PROTOCOL
from tests.unit.agent.flume.conftest import Flume
from tests.unit.agent.flume.test_agents import conf, lines_in

JARS = os.environ.get("HEADRACE_AVRO_JARS", "")
pytestmark = pytest.mark.skipif(
    not JARS, reason="HEADRACE_AVRO_JARS names no folder of avro-ipc 1.8.2's jars"
)


def java(mode: str, port: int) -> list[str]:
    return [
        "java",
        "-cp",
        f"{JARS}/*",
        str(Path(__file__).with_name("FlumeAvro.java")),
        mode,
        str(port),
        PROTOCOL,
    ]


def test_avro_s_transceiver_sends_to_our_source(tmp_path: Path) -> None:
    flume, out = Flume(tmp_path), tmp_path / "out"
    agent = flume.build(conf("type = avro\nbind = 127.0.0.1\nport = 0", out))
    source: Any = agent.sources["s"]
    end = flume.serve(agent)
    try:
        command = java("client", source.server.ports[0])
        answers = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    finally:
        end()
    assert answers.stdout.split() == ["OK"] * 3
    assert lines_in(out) == [f"event {n}" for _ in range(3) for n in range(100)]


def test_our_sink_sends_to_avro_s_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        java("server", 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        text = (
            "a.sources = s\na.channels = c\na.sinks = k\na.channels.c.type = memory\na.sources.s.channels = c\n"
            "a.sources.s.type = seq\na.sources.s.totalEvents = 250\na.sources.s.interceptors = i\n"
            "a.sources.s.interceptors.i.type = static\na.sinks.k.type = avro\na.sinks.k.channel = c\n"
            f"a.sinks.k.hostname = 127.0.0.1\na.sinks.k.port = {port}\n"
        )
        agent = Flume(tmp_path).run(text)
        server.stdin.close()
        lines = server.stdout.read().splitlines()
    assert agent.sinks["k"].counts.events == 250
    assert lines == [f"{{key=value}} {n}" for n in range(250)]
