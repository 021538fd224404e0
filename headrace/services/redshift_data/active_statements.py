"""The Data API's active statements: limits their number, and decides which of them run.

AWS accepts 500 active statements for a cluster or a workgroup and schedules them itself. Here a few run at a time, each
on a connection to PostgreSQL; the others wait as SUBMITTED and run in order.
"""

from __future__ import annotations

import threading
from collections import deque

from headrace.core.workers import Supervisor
from headrace.services.redshift_data.errors import too_many_statements
from headrace.services.redshift_data.execution import StatementRun
from headrace.services.redshift_data.limits import ACTIVE_STATEMENTS, RUNNING_STATEMENTS
from headrace.services.redshift_data.state import Statement

# The cluster or workgroup whose quota a statement counts against.
Where = tuple[str, ...]


class Active:
    """All active statements. Thread-safe."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._runs: dict[str, tuple[StatementRun, threading.Event]] = {}
        self._running: dict[Where, set[str]] = {}
        self._waiting: dict[Where, deque[StatementRun]] = {}

    def reserve(self, run: StatementRun) -> None:
        """Count a statement as active; call `start` or `drop` next. Raises AwsError when too many are active."""
        where = _where(run.statement)
        with self._lock:
            count = sum(_where(other.statement) == where for other, _ in self._runs.values())
            if count >= ACTIVE_STATEMENTS:
                raise too_many_statements(ACTIVE_STATEMENTS)
            self._runs[run.statement.id] = run, threading.Event()

    def start(self, run: StatementRun) -> None:
        """Run a statement, or queue it."""
        where = _where(run.statement)
        with self._lock:
            if len(self._running.get(where, ())) >= RUNNING_STATEMENTS:
                self._waiting.setdefault(where, deque()).append(run)
                return
            self._running.setdefault(where, set()).add(run.statement.id)
        self._supervisor.start(run)

    def drop(self, statement: Statement) -> None:
        """Note that a statement has ended: wake the callers of `wait`, and start the next statement."""
        where = _where(statement)
        with self._lock:
            _, event = self._runs.pop(statement.id)
            running, following = self._running.get(where, set()), None
            if statement.id in running:
                running.remove(statement.id)
                if self._waiting.get(where):
                    following = self._waiting[where].popleft()
                    running.add(following.statement.id)
        event.set()
        if following is not None:
            self._supervisor.start(following)

    def cancel(self, statement: Statement) -> bool:
        """Stop a statement; a queued one ends at once. Return whether it was active."""
        where = _where(statement)
        with self._lock:
            run = self._runs.get(statement.id)
            waiting = self._waiting.get(where, deque())
            is_waiting = run is not None and run[0] in waiting
            if is_waiting and run is not None:
                waiting.remove(run[0])
        if run is None:
            return False
        run[0].cancel()
        if is_waiting:
            self._supervisor.start(run[0])
        return True

    def wait(self, statement: Statement, seconds: int) -> None:
        """Wait at most so many seconds until a statement has ended."""
        with self._lock:
            run = self._runs.get(statement.id)
        if run is not None:
            run[1].wait(seconds)

    def stop(self) -> None:
        """Interrupt the running statements, and start no others."""
        with self._lock:
            self._waiting.clear()
            runs = [run for run, _ in self._runs.values()]
        for run in runs:
            run.cancel()


def _where(statement: Statement) -> Where:
    return statement.account, statement.region, statement.target, statement.target_name
