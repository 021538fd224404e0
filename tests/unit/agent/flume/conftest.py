"""Agents of Flume's files, with a cloud that is lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.agent.flume.building import FlumeAgent, FlumeRun, build
from headrace.core.clock import SystemClock


class FakeReach:
    """Refuses every call."""

    def producer(self, stream: str, options: Any) -> Any:
        raise OSError(f"{stream} is not there")

    def client(self, service: str, options: Any) -> Any:
        raise OSError(f"{service} is not there")


class Flume:
    """A file's agent, which a test runs."""

    def __init__(self, folder: Path) -> None:
        self.path, self.stop, self.clock = folder / "flume.conf", threading.Event(), SystemClock()

    def build(self, text: str, *, reach: Any = None, hdfs: str = "") -> FlumeAgent:
        self.path.write_text(text)
        return build(self.path, "a", reach or FakeReach(), self.clock, self.stop, hdfs=hdfs)

    def run(self, text: str, **options: Any) -> FlumeAgent:
        agent = self.build(text, **options)
        FlumeRun(agent, self.clock, self.stop).run(once=True)
        return agent

    def serve(self, agent: FlumeAgent) -> Callable[[], None]:
        """Run it beside the test; the result ends it."""
        thread = threading.Thread(target=FlumeRun(agent, self.clock, self.stop).run)
        thread.start()

        def end() -> None:
            self.stop.set()
            thread.join()

        return end


@pytest.fixture
def flume(tmp_path: Path) -> Flume:
    return Flume(tmp_path)
