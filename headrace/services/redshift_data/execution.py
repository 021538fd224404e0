"""Runs a statement of the Data API: connects, runs its parts in order, and stores their results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from headrace.core.clock import Clock
from headrace.core.ports.warehouses import (
    Login,
    MayRead,
    Session,
    WarehouseError,
    WarehouseNotFound,
    Warehouses,
    WarehouseUnavailable,
)
from headrace.core.workers import WorkerDone
from headrace.services.redshift_data.limits import RESULT_BYTES
from headrace.services.redshift_data.results import size_of, to_stored
from headrace.services.redshift_data.sessions import Sessions
from headrace.services.redshift_data.state import ENDED, Part, Statement
from headrace.services.redshift_data.store import Statements

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
