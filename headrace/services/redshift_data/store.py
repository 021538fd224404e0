"""Stores statements and results in the state database before the operation answers."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

from headrace.services.redshift_data.limits import KEPT_MS
from headrace.services.redshift_data.state import ENDED, Part, Statement, StoredResult
from headrace.store.database import Database


class Statements:
    """The statements of the last day. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._statements = database.documents("redshift_data_statements")
        self._results = database.documents("redshift_data_results")
        self._lock = threading.Lock()
        self._by_id: dict[str, Statement] = {}

    def load(self) -> None:
        """Load everything from the database."""
        self._by_id = {key: _statement(value) for key, value in self._statements.items()}

    def put(self, statement: Statement) -> None:
        """Store a statement, and delete those older than a day."""
        with self._lock:
            self._by_id[statement.id] = statement
            self._statements.put(statement.id, asdict(statement))
            oldest_ms = statement.updated_ms - KEPT_MS
            for old in [s for s in self._by_id.values() if s.created_ms < oldest_ms]:
                if old.status in ENDED:
                    self._forget(old)

    def _forget(self, old: Statement) -> None:
        del self._by_id[old.id]
        self._statements.delete(old.id)
        for number in range(len(old.parts)):
            self._results.delete(old.part_id(number))

    def get(self, statement_id: str) -> Statement | None:
        """Return a statement."""
        return self._by_id.get(statement_id)

    def all(self) -> list[Statement]:
        """Return all statements, newest first."""
        with self._lock:
            by_ids = list(self._by_id.values())
        return sorted(by_ids, key=lambda s: (s.created_ms, s.id), reverse=True)

    def put_result(self, part_id: str, kept: StoredResult) -> None:
        """Store a result."""
        self._results.put(part_id, asdict(kept))

    def result(self, part_id: str) -> StoredResult | None:
        """Return a result."""
        stored = self._results.get(part_id)
        return None if stored is None else StoredResult(**stored)


def _statement(value: dict[str, Any]) -> Statement:
    values: dict[str, Any] = {**value, "parts": [Part(**part) for part in value["parts"]]}
    return Statement(**values)
