"""Statements of the Data API and their results: records, storage, and the forms in which results are answered."""

from __future__ import annotations

import base64
import csv
import io
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headrace.aws.shapes.redshift_data import ColumnMetadata, Field
from headrace.core.ports.warehouses import Column, Login, Result
from headrace.services.redshift_data.errors import KEPT_MS
from headrace.store.database import Database

_SIGNED = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})
_TEXTS = frozenset({"varchar", "bpchar", "super"})
# Bytes are stored as a JSON object with this key and the bytes in base64.
_BYTES = "\x00b:"


def to_stored(result: Result) -> StoredResult | None:
    """Return a result in the form in which it is stored; None when it has no columns."""
    if result.columns is None:
        return None
    rows: list[Sequence[Any]] = [[_plain(value) for value in row] for row in result.rows]
    return StoredResult([column_of(column) for column in result.columns], rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return _BYTES + base64.b64encode(value).decode()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def column_of(column: Column) -> ColumnMetadata:
    """Return a column's ColumnMetadata."""
    return {
        "isCaseSensitive": column.type_name in _TEXTS,
        "isCurrency": False,
        "isSigned": column.type_name in _SIGNED,
        "label": column.name,
        "name": column.name,
        "nullable": int(column.nullable),
        "precision": column.precision or (column.length if column.type_name in _TEXTS else 0),
        "scale": column.scale,
        "schemaName": column.schema,
        "tableName": column.table,
        "typeName": column.type_name,
        "length": column.length,
    }


def size_of(kept: StoredResult) -> int:
    """Return the approximate size of a result in bytes."""
    return sum(len(value) if isinstance(value, str) else 8 for row in kept.rows for value in row)


def fields_of(row: Sequence[Any]) -> list[Field]:
    """Return a row as typed fields."""
    return [_field(value) for value in row]


def _field(value: Any) -> Field:
    match value:
        case None:
            return {"isNull": True}
        case bool():
            return {"booleanValue": value}
        case int():
            return {"longValue": value}
        case float():
            return {"doubleValue": value}
        case str() if value.startswith(_BYTES):
            return {"blobValue": base64.b64decode(value[len(_BYTES) :])}
        case _:
            return {"stringValue": str(value)}


def csv_of(kept: StoredResult, rows: Sequence[Sequence[Any]], *, first: bool) -> str:
    """Return rows as CSV; the first page begins with the column names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if first:
        writer.writerow([column.get("name", "") for column in kept.columns])
    for row in rows:
        writer.writerow([_to_json(value) for value in row])
    return text.getvalue()


def _to_json(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_BYTES):
        return base64.b64decode(value[len(_BYTES) :]).hex()
    return "" if value is None else value


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


ENDED = ("FINISHED", "FAILED", "ABORTED")


@dataclass(slots=True)
class Part:
    """One SQL statement of a call, and its outcome. `rows` and `size_bytes` are -1 without a result."""

    sql: str
    status: str = "SUBMITTED"
    created_ms: int = 0
    updated_ms: int = 0
    duration_ns: int = 0
    error: str = ""
    has_result: bool = False
    rows: int = 0
    size_bytes: int = 0
    query_id: int = 0


@dataclass(slots=True)
class Statement:
    """A call of ExecuteStatement or BatchExecuteStatement.

    Attributes:
        target: `cluster` or `workgroup`.
        login_user: the database user that runs it; a secret's password is read when it runs.
        login_is_made: whether that user is created if it does not exist.
    """

    id: str
    account: str
    region: str
    parts: list[Part]
    is_batch: bool
    target: Literal["cluster", "workgroup"]
    target_name: str
    database: str
    created_ms: int
    updated_ms: int
    login_user: str = ""
    login_is_made: bool = False
    secret_arn: str = ""
    db_user: str = ""
    name: str = ""
    parameters: list[list[str]] = field(default_factory=list[list[str]])
    result_format: str = "JSON"
    mode: str = "TRANSACTION"
    client_token: str = ""
    asked: str = ""
    status: str = "SUBMITTED"
    error: str = ""
    pid: int = 0
    session_id: str = ""
    with_event: bool = False
    is_announced: bool = False
    # The caller, for the EventBridge event.
    principal: str = ""

    @property
    def has_result(self) -> bool:
        """Whether any part has a result."""
        return any(part.has_result for part in self.parts)

    @property
    def duration_ns(self) -> int:
        """How long its parts took together."""
        return sum(part.duration_ns for part in self.parts)

    def part_id(self, number: int) -> str:
        """Return the id of a part, 0 for the first."""
        return f"{self.id}:{number + 1}" if self.is_batch else self.id


@dataclass(slots=True)
class StoredResult:
    """A result as it is stored: columns as ColumnMetadata, rows as plain JSON."""

    columns: list[ColumnMetadata]
    rows: list[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster or workgroup of a call, and its login."""

    kind: Literal["cluster", "workgroup"]
    name: str
    login: Login
