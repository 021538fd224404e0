"""Sessions of the Data API: a connection that stays open between statements, with its temporary tables.

Sessions live in this process: a restart of headrace ends them all, as a cluster's reboot does on AWS.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports.warehouses import Session
from headrace.core.workers import Supervisor
from headrace.services.redshift_data.errors import invalid, too_many_sessions
from headrace.services.redshift_data.limits import ACTIVE_SESSIONS
from headrace.services.redshift_data.state import Statement

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
