"""Runs statements of the Data API: which of the active ones, on which connection or session, part by part.

The Data API's active statements: limits their number, and decides which of them run.

AWS accepts 500 active statements for a cluster or a workgroup and schedules them itself. Here a few run at a time, each
on a connection to PostgreSQL; the others wait as SUBMITTED and run in order.

Sessions of the Data API: a connection that stays open between statements, with its temporary tables.

Sessions live in this process: a restart of headrace ends them all, as a cluster's reboot does on AWS.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports.warehouses import (
    Login,
    MayRead,
    Session,
    WarehouseError,
    WarehouseNotFound,
    Warehouses,
    WarehouseUnavailable,
)
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.redshift_data.errors import (
    ACTIVE_SESSIONS,
    ACTIVE_STATEMENTS,
    RESULT_BYTES,
    RUNNING_STATEMENTS,
    invalid,
    too_many_sessions,
    too_many_statements,
)
from headrace.services.redshift_data.state import (
    ENDED,
    Part,
    Statement,
    Statements,
    size_of,
    to_stored,
)

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


log = logging.getLogger(__name__)


class StatementRun:
    """The `Worker` that runs `statement`. Any thread may call `cancel`."""

    def __init__(
        self,
        statement: Statement,
        *,
        clock: Clock,
        store: Statements,
        warehouses: Warehouses,
        login: Callable[[Statement], Login],
        may_read: MayRead,
        ended: Callable[[Statement], None],
        sessions: Sessions,
    ) -> None:
        self.name = f"redshift-data {statement.id}"
        self.statement = statement
        self._clock = clock
        self._store = store
        self._warehouses = warehouses
        self._login = login
        self._may_read = may_read
        self._ended = ended
        self._sessions = sessions
        self._session: Session | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Interrupt the statement; it is rolled back."""
        self._is_cancelled = True
        session = self._session
        if session is not None:
            session.cancel()

    def step(self) -> float:
        """Run the statement; see `Worker.step`."""
        statement = self.statement
        try:
            if self._is_cancelled:
                self._give_up()
                raise WorkerDone
            self._note("PICKED")
            session = self._session = self._connect()
            try:
                statement.pid = session.pid
                self._note("STARTED")
                self._run(session)
            finally:
                self._session = None
                self._leave(session)
        except (WarehouseError, WarehouseNotFound, WarehouseUnavailable, LookupError) as error:
            self._fail(str(error))
        except WorkerDone:
            raise
        except Exception as error:
            log.exception("redshift-data %s", statement.id)
            self._fail(f"ERROR: {error}")
        finally:
            self._ended(statement)
        raise WorkerDone

    def _give_up(self) -> None:
        """End a statement that was cancelled before it ran; its session, if any, stays open."""
        session_id = self.statement.session_id
        if session_id:
            self._sessions.give_back(session_id, self._sessions.connection(session_id))
        self._end("ABORTED", "")

    def _leave(self, session: Session) -> None:
        if self.statement.session_id:
            self._sessions.give_back(self.statement.session_id, session)
        else:
            session.close()

    def _connect(self) -> Session:
        statement = self.statement
        try:
            kept = self._sessions.connection(statement.session_id) if statement.session_id else None
            return kept or self._connect_anew()
        except BaseException:
            if statement.session_id:
                self._sessions.give_back(statement.session_id, None)
            raise

    def _connect_anew(self) -> Session:
        statement = self.statement
        spec = self._warehouses.spec_of(
            statement.target,
            statement.target_name,
            account=statement.account,
            region=statement.region,
        )
        login = self._login(statement)
        return self._warehouses.open(spec, statement.database, login, may_read=self._may_read)

    def _run(self, session: Session) -> None:
        statement = self.statement
        for number, part in enumerate(statement.parts):
            if self._is_cancelled:
                break
            began_ns = time.perf_counter_ns()
            part.status, part.updated_ms = "STARTED", self._clock.now_ms()
            try:
                self._run_part(session, number, part)
                if statement.mode == "AUTO_COMMIT":
                    session.commit()
                part.status = "FINISHED"
            except WarehouseError as error:
                session.rollback()
                part.status, part.error = "FAILED", str(error)
            part.duration_ns = time.perf_counter_ns() - began_ns
            part.updated_ms = self._clock.now_ms()
            if part.status == "FAILED":
                break
        failed = next((part for part in statement.parts if part.status == "FAILED"), None)
        if failed is None and not self._is_cancelled:
            session.commit()
            self._note("FINISHED")
            return
        session.rollback()
        if self._is_cancelled:
            self._end("ABORTED", "")
        else:
            self._fail(failed.error if failed is not None else "")

    def _run_part(self, session: Session, number: int, part: Part) -> None:
        pairs = [(name, value) for name, value in self.statement.parameters]
        result = session.run(part.sql, pairs)
        kept = to_stored(result)
        part.rows = result.count
        if kept is None:
            return
        part.size_bytes = size_of(kept)
        if part.size_bytes > RESULT_BYTES:
            raise WarehouseError(
                "StatementFailed", "ERROR: the result is larger than headrace keeps, 100 MiB"
            )
        self._store.put_result(self.statement.part_id(number), kept)
        part.has_result = True

    def _fail(self, sentence: str) -> None:
        self._end("ABORTED" if self._is_cancelled else "FAILED", sentence)

    def _end(self, status: str, sentence: str) -> None:
        undone = self.statement.mode == "TRANSACTION" or not self.statement.is_batch
        for part in self.statement.parts:
            if part.status not in ENDED:
                part.status = "ABORTED" if self.statement.is_batch else status
            elif part.status == "FINISHED" and undone:
                part.has_result = False
        self.statement.error = sentence
        self._note(status)

    def _note(self, status: str) -> None:
        self.statement.status, self.statement.updated_ms = status, self._clock.now_ms()
        self._store.put(self.statement)


_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class OpenSession:
    """A session. `statement_id` is the running statement, or empty; `connection` is None before the first one."""

    id: str
    opened_by: Statement
    keep_s: int
    created_ms: int
    updated_ms: int
    statement_id: str = ""
    connection: Session | None = None

    @property
    def ends_ms(self) -> int:
        """When it is closed, if no statement runs in it."""
        return self.updated_ms + self.keep_s * 1000


class Sessions:
    """The open sessions, and the `Worker` that closes idle ones after their keep-alive time. Thread-safe."""

    def __init__(self, clock: Clock, ids: Ids, supervisor: Supervisor) -> None:
        self.name = "redshift-data sessions"
        self._clock = clock
        self._ids = ids
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._held: dict[str, OpenSession] = {}
        self._is_watched = False

    def begin(self, statement: Statement, keep_s: int) -> str:
        """Open a session for a statement; return the session's id. Raises AwsError when too many are open."""
        now_ms = self._clock.now_ms()
        held = OpenSession(self._ids.uuid(), statement, keep_s, now_ms, now_ms, statement.id)
        with self._lock:
            here = statement.account, statement.region
            open_ = sum(
                (h.opened_by.account, h.opened_by.region) == here for h in self._held.values()
            )
            if open_ >= ACTIVE_SESSIONS:
                raise too_many_sessions(ACTIVE_SESSIONS)
            self._held[held.id] = held
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            self._supervisor.start(self)
        return held.id

    def opened_by(self, account: str, region: str, session_id: str) -> Statement:
        """Return the statement that opened a session. Raises AwsError when there is no such session."""
        with self._lock:
            held = self._held.get(session_id)
        opened = None if held is None else held.opened_by
        if opened is None or (opened.account, opened.region) != (account, region):
            raise invalid("Session does not exist or is closed.")  # assumed
        return opened

    def take(self, session_id: str, statement: Statement, keep_s: int | None) -> None:
        """Reserve a session for a statement. Raises AwsError when another statement runs in it."""
        with self._lock:
            held = self._held.get(session_id)
            if held is None:
                raise invalid("Session does not exist or is closed.")  # assumed
            if held.statement_id:
                raise invalid("Session is busy with another statement.")  # assumed
            held.statement_id = statement.id
            held.keep_s = held.keep_s if keep_s is None else keep_s

    def connection(self, session_id: str) -> Session | None:
        """Return a session's connection; None before its first statement has connected."""
        with self._lock:
            held = self._held.get(session_id)
        return None if held is None else held.connection

    def give_back(self, session_id: str, connection: Session | None) -> None:
        """Note that a session's statement has ended; without a connection the session ends too."""
        with self._lock:
            held = self._held.get(session_id)
            if held is not None and connection is not None:
                held.connection, held.statement_id = connection, ""
                held.updated_ms = self._clock.now_ms()
                return
            self._held.pop(session_id, None)
        if connection is not None:
            connection.close()

    def all(self, account: str, region: str) -> Sequence[OpenSession]:
        """Return the open sessions of an account, newest first."""
        with self._lock:
            sessions = list(self._held.values())
        of = [h for h in sessions if (h.opened_by.account, h.opened_by.region) == (account, region)]
        return sorted(of, key=lambda held: (held.created_ms, held.id), reverse=True)

    def step(self) -> float:
        """Close the sessions whose keep-alive time is over; see `Worker.step`."""
        now_ms = self._clock.now_ms()
        with self._lock:
            over = [h for h in self._held.values() if not h.statement_id and h.ends_ms <= now_ms]
            for held in over:
                del self._held[held.id]
        for held in over:
            if held.connection is not None:
                held.connection.close()
        return _LOOK_EVERY_S

    def close(self) -> None:
        """Forget all sessions, and close the connections on which nothing runs."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
        for session in held:
            if session.connection is not None and not session.statement_id:
                session.connection.close()
