"""Run the tests on several processes, which are forked once the tests are collected: `--processes 4`.

A worker of pytest-xdist imports and collects all tests by itself, which takes eight seconds of a processor and 0.6 GB.
Of the libraries that fork, pytest-parallex is nearest, but it makes every session's fixture first: Spark, PostgreSQL.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import shutil
import tempfile
import warnings
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
from xdist.remote import serialize_warning_message
from xdist.workermanage import unserialize_warning_message

from tests.support import schedule

_FORK = multiprocessing.get_context("fork")


def add_option(parser: pytest.Parser) -> None:
    """Add `--processes`."""
    parser.addoption(
        "--processes", type=int, default=0, help="fork so many, and run the tests there"
    )


class Forks:
    """Hands out the tests to processes, and gives what they report to pytest."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._workers: dict[Connection, _Worker] = {}
        self._units: list[list[int]] = []
        self._started = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop knows what to do
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.showfspath = False
        session.config._tmp_path_factory.getbasetemp()  # made once, before the processes' own
        self._units = schedule.units_of([item.nodeid for item in session.items])
        for _ in range(min(self._processes, len(self._units))):
            self._start(session, self._units.pop(0))
        while self._workers:
            for connection in wait(list(self._workers)):
                self._hear(session, self._workers[connection])
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _start(self, session: pytest.Session, unit: list[int]) -> None:
        self._started += 1
        worker = _Worker(session, self._started)
        self._workers[worker.connection] = worker
        worker.give(unit)

    def _hear(self, session: pytest.Session, worker: _Worker) -> None:
        """Take what a worker has sent, or its end."""
        try:
            told = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            told = None
        if told is None:
            self._bury(
                session, worker
            )  # not above: a process that starts there would show that exception
            return
        index, events = told
        worker.left.remove(index)
        item = session.items[index]
        session.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for event in events:
            _replay(session.config, event)
        session.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if session.shouldfail:
            self._units.clear()
            for other in self._workers.values():
                other.give([])
        elif not worker.left:
            worker.give(self._units.pop(0) if self._units else [])

    def _bury(self, session: pytest.Session, worker: _Worker) -> None:
        """Report what a worker that has died was doing; another one does the rest."""
        worker.process.join()
        del self._workers[worker.connection]
        if worker.process.exitcode == 0:
            return
        current = session.items[worker.left[0]].nodeid if worker.left else "the end of a process"
        died = f"The process ended with {worker.process.exitcode} while running {current}"
        report = pytest.TestReport(current, (current, None, current), {}, "failed", died, "call")
        session.ihook.pytest_runtest_logreport(report=report)
        if worker.left[1:] and not session.shouldfail:
            self._start(session, worker.left[1:])


class _Worker:
    """A process and the numbers of the tests that it has not yet reported."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self.left: list[int] = []
        self.connection, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_work, args=(session, theirs, number))
        with warnings.catch_warnings():
            # Python 3.12 and later: jemalloc's thread, which pyarrow starts, survives a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()

    def give(self, unit: list[int]) -> None:
        """Give it tests that stay together; none: it ends."""
        self.left = unit
        with contextlib.suppress(BrokenPipeError):  # it has died, which the next `recv` tells
            self.connection.send(unit)


class _Events:
    """What a process tells of its tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._events: list[tuple[Any, ...]] = []

    def take(self) -> list[tuple[Any, ...]]:
        """Return what has come since the last call."""
        events, self._events = self._events, []
        return events

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        self._events.append((hook(config=self._config, report=report),))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        self._events.append((serialize_warning_message(warning_message), when, nodeid, location))


def _replay(config: pytest.Config, event: tuple[Any, ...]) -> None:
    data, *of_warning = event
    if not of_warning:
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)
        return
    when, nodeid, location = of_warning
    kwargs = {"when": when, "nodeid": nodeid, "location": location}
    kwargs["warning_message"] = unserialize_warning_message(data)
    config.hook.pytest_warning_recorded.call_historic(kwargs=kwargs)


def _work(session: pytest.Session, connection: Connection, number: int) -> None:
    """Run what comes from the connection, in a process of its own."""
    events = _settle(session.config, number)
    setup_state: Any = session._setupstate
    try:
        while unit := connection.recv():
            # What the last unit's folder shares, and this one's does not.
            setup_state.teardown_exact(session.items[unit[0]])
            for place, index in enumerate(unit, 1):
                if session.shouldfail or connection.poll():
                    break
                item = session.items[index]
                # After the last one the file's fixtures end, and not its folder's.
                file: Any = item.getparent(pytest.File)
                after = session.items[unit[place]] if place < len(unit) else file.parent
                session.ihook.pytest_runtest_protocol(item=item, nextitem=after)
                connection.send((index, events.take()))
    except KeyboardInterrupt:
        pass  # the parent says so
    finally:
        setup_state.teardown_exact(None)
        atexit._run_exitfuncs()


def _settle(config: pytest.Config, number: int) -> _Events:
    """Give a process an output, a folder and an end of its own."""
    # What was to happen at the parent's end does not happen at this one's.
    atexit._clear()
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    capture: Any = plugins.get_plugin("capturemanager")
    if capture.is_globally_capturing():
        capture.read_global_capture()
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"process-{number}"
    factory._basetemp.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="p")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    events = _Events(config)
    plugins.register(events)
    events.take()  # pytest tells it the collection's warnings, too, which the parent knows
    return events
