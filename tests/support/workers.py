"""Runs the collected tests on several processes, which are forked when all is collected.

pytest-xdist's workers each import and collect all tests again, seven seconds of a processor; these have it from their
parent, and share its memory. Each takes a group of tests, as `tests.support.schedule` cuts them, when it has no more.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests.support.schedule import groups_of
from tests.support.warm_server import end_with

Group = list[int]  # numbers of tests, in the order of their collection


def run_tests(session: pytest.Session, count: int) -> None:
    """Run a session's tests on so many processes; in place of pytest's own loop."""
    groups = deque(groups_of([item.nodeid for item in session.items]))
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.showfspath = False  # tests of several files come mixed
    workers: dict[Connection, _Worker] = {}
    try:
        for number in range(min(count, len(groups))):
            _start(session, number, [], workers)
        while workers:
            for connection in wait(list(workers)):
                _take_message(session, workers[connection], groups, workers)
            if session.shouldfail or session.shouldstop:
                groups.clear()
                for worker in workers.values():
                    worker.stop()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    finally:
        for worker in workers.values():
            worker.end()


class _Worker:
    """What the parent knows of a process: the tests that it has not begun, and the one that it runs."""

    def __init__(self, number: int, connection: Connection, pid: int, group: Group) -> None:
        self.number = number
        self.connection = connection
        self.pid = pid
        self.waiting = deque(group)
        self.current: int | None = None
        self._stops = False

    def give(self, group: Group) -> None:
        """Answer its request for tests; an empty group ends it."""
        if self._stops:
            return
        self.waiting.extend(group)
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its pipe says so next
            self.connection.send(group)

    def stop(self) -> None:
        """Let it end after the test that it runs."""
        if not self._stops:
            self.give([])
            self._stops = True

    def end(self) -> None:
        """End it, with what it has started."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def _start(
    session: pytest.Session, number: int, group: Group, workers: dict[Connection, _Worker]
) -> None:
    """Fork a worker; it begins with `group`."""
    ours, its = Pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        end_with(parent)
        for connection in (ours, *workers):
            connection.close()
        _become_worker(session, number, its, group)
    its.close()
    workers[ours] = _Worker(number, ours, pid, group)


def _take_message(
    session: pytest.Session,
    worker: _Worker,
    groups: deque[Group],
    workers: dict[Connection, _Worker],
) -> None:
    hook = session.config.hook
    kind, value = "gone", None
    with contextlib.suppress(EOFError, ConnectionResetError):
        kind, value = worker.connection.recv()
    if kind == "gone":
        _bury(session, worker, workers)
    elif kind == "next":
        worker.give(groups.popleft() if groups else [])
    elif kind == "begins":
        item = session.items[value]
        worker.current = value
        worker.waiting.remove(value)
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    elif kind == "ends":
        for data in value:
            report = hook.pytest_report_from_serializable(config=session.config, data=data)
            name = f"w{worker.number}"  # as pytest asks for it, for the reports of pytest-xdist's
            report.node = SimpleNamespace(
                gateway=SimpleNamespace(id=name), _workerinfocache=f"[{name}]"
            )
            hook.pytest_runtest_logreport(report=report)
        assert worker.current is not None
        item = session.items[worker.current]
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        worker.current = None
    elif kind == "warning":
        hook.pytest_warning_recorded.call_historic(kwargs=value)
    elif kind == "error":
        sys.stderr.write(value)
        session.shouldstop = "a worker has an internal error"


def _bury(session: pytest.Session, worker: _Worker, workers: dict[Connection, _Worker]) -> None:
    """Report the test that ended its process, and let another process run what it has left."""
    del workers[worker.connection]
    worker.connection.close()
    status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
    if worker.current is None and status:
        session.shouldstop = f"a worker ended between two tests, status {status}"
    elif worker.current is not None:
        item = session.items[worker.current]
        text = f"its process ended while it ran, status {status}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
    if worker.waiting and not (session.shouldfail or session.shouldstop):
        _start(session, worker.number, list(worker.waiting), workers)


class _Sender:
    """In a worker: what pytest would print goes to the parent."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._reports: list[Any] = []

    def send(self, kind: str, value: Any = None) -> None:
        self._connection.send((kind, value))

    def end_test(self) -> None:
        self.send("ends", self._reports)
        self._reports = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        # As a text: not every warning can be sent.
        told = warnings.WarningMessage(
            str(warning_message.message), warning_message.category, warning_message.filename, warning_message.lineno
        )  # fmt: skip
        value = {"warning_message": told, "when": when, "nodeid": nodeid, "location": location}
        self.send("warning", value)


def _become_worker(
    session: pytest.Session, number: int, connection: Connection, group: Group
) -> NoReturn:
    """Run what the parent gives, and end this process."""
    code = 1
    sender = _Sender(session.config, connection)
    try:
        folder = _leave_the_parent(session, number)
        session.config.pluginmanager.register(sender)
        for index, following in _pairs(_indexes(sender, connection, group)):
            item = session.items[index]
            sender.send("begins", index)
            next_item = None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            sender.end_test()
            if session.shouldfail or session.shouldstop or connection.poll():
                break
        session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        atexit._run_exitfuncs()
        shutil.rmtree(folder, ignore_errors=True)
        code = 0
    except BaseException:  # noqa: BLE001 - it goes to the parent
        sender.send("error", traceback.format_exc())
    finally:
        os._exit(code)


def _indexes(sender: _Sender, connection: Connection, group: Group) -> Iterator[int]:
    while group or (group := _next_group(sender, connection)):
        yield from group
        group = []


def _next_group(sender: _Sender, connection: Connection) -> Group:
    sender.send("next")
    group: Group = connection.recv()
    return group


def _pairs(indexes: Iterator[int]) -> Iterator[tuple[int, int | None]]:
    """Yield each with the one after it, which pytest must know to end fixtures in time."""
    current = next(indexes, None)
    while current is not None:
        following = next(indexes, None)
        yield current, following
        current = following


def _leave_the_parent(session: pytest.Session, number: int) -> Path:
    """Give this process folders, output and ends of its own; return the folder of its temporary files."""
    config: Any = session.config
    # What the parent does at its end is not this process's to do.
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    factory = config._tmp_path_factory
    base = factory.getbasetemp()
    folder = Path(tempfile.mkdtemp(prefix=f"w{number}-", dir=base))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.option.basetemp = base / f"w{number}"
    factory._exit_stack = ExitStack()
    config._tmp_path_factory = type(factory).from_config(config, _ispytest=True)
    # pytest's own plug-ins leave to the parent what is done once.
    config.workerinput = {"workerid": f"w{number}"}
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    capture = plugins.get_plugin("capturemanager")
    if capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
    return folder
