"""Runs an agent that was built: a thread for each source, and for each sink or group of sinks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.agent.flume.building import FlumeAgent
from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import SinkFailed, Stopped
from headrace.agent.flume.groups import Group
from headrace.agent.flume.sinks.base import Sink
from headrace.agent.flume.sources.base import Source
from headrace.core.clock import Clock

_WAIT_S = 0.2
_LONGEST_PAUSE_S = 5.0
# What is in memory when the agent is stopped is delivered within this time, or lost; a file channel keeps it.
_DRAIN_S = 10.0
_LOG = logging.getLogger("headrace.agent")


class RunError(Exception):
    """The agent cannot run so. The message is one sentence."""


class FlumeRun:
    """One run of an agent."""

    def __init__(self, agent: FlumeAgent, clock: Clock, stop: threading.Event) -> None:
        """Take the agent; `stop` ends its sources, and then its sinks."""
        self.agent, self._clock, self._stop = agent, clock, stop
        # Set once no event comes any more.
        self._drains, self._ends = threading.Event(), threading.Event()
        self._failure: BaseException | None = None

    def run(self, *, once: bool = False) -> None:
        """Run until `stop`, or, `once`, until every source is at its end and every channel empty.

        Raises RunError, and what ended a thread.
        """
        endless = [name for name, source in self.agent.sources.items() if not source.ends]
        if once and endless:
            raise RunError(f"--once: source {endless[0]} never ends")
        sources = [
            self._start(f"source-{n}", self._source(s, once)) for n, s in self.agent.sources.items()
        ]
        sinks = [self._start(f"sink-{n}", self._sink(n, s)) for n, s in self.agent.runners.items()]
        try:
            while not self._stop.is_set() and (
                not once or any(thread.is_alive() for thread in sources)
            ):
                self._clock.wait(self._stop, _WAIT_S)
            for thread in sources:
                thread.join()
            self._drain(sinks, waits=once and not self._stop.is_set())
        finally:
            self._stop.set()
            self._ends.set()
            for thread in (*sources, *sinks):
                thread.join()
            for channel in self.agent.channels.values():
                channel.close()
        if self._failure is not None:
            raise self._failure

    def _start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - `run` raises it
                self._failure = self._failure or error
                self._stop.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _source(self, source: Source, once: bool) -> Callable[[], None]:
        return lambda: source.run(once=once)

    def _drain(self, sinks: list[threading.Thread], *, waits: bool) -> None:
        """Let sinks take what is in the channels: all of it, or what memory would lose, for a while."""
        self._drains.set()
        end_s = self._clock.monotonic_s() + _DRAIN_S
        while any(thread.is_alive() for thread in sinks):
            if waits:
                if self._stop.is_set():
                    return
            elif self._clock.monotonic_s() >= end_s or not self._holds_in_memory():
                return
            threading.Event().wait(0.01)

    def _holds_in_memory(self) -> bool:
        return any(c.used and not c.is_durable for c in self.agent.channels.values())

    def _sink(self, name: str, sink: Sink | Group) -> Callable[[], None]:
        channels = sink.channels if isinstance(sink, Group) else [sink.channel]

        def run() -> None:
            failures = 0
            while not self._ends.is_set():
                try:
                    is_busy = sink.process(0.0 if self._drains.is_set() else _WAIT_S)
                    if not is_busy and self._drains.is_set():
                        # What is held back for larger objects is written now.
                        sink.close()
                        if _are_empty(channels):
                            return
                        self._clock.wait(self._ends, 0.01)
                except SinkFailed as error:
                    failures += 1
                    _LOG.error("sink %s: %s; it is tried again", name, error)
                    self._clock.wait(self._ends, min(float(failures), _LONGEST_PAUSE_S))
                else:
                    failures = 0
            try:
                sink.close()
            except SinkFailed as error:
                _LOG.error("sink %s: %s", name, error)

        return run


def _are_empty(channels: list[MemoryChannel]) -> bool:
    return not any(channel.used for channel in channels)
