"""A connection to a cluster's database that accepts Redshift's SQL. It uses psycopg, from the extra `redshift`."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from headrace.core.ports import ObjectStore
from headrace.core.ports.warehouses import (
    ClusterSpec,
    Column,
    Kind,
    MayRead,
    Result,
    WarehouseError,
)
from headrace.services.redshift.copy_command import (
    Token,
    is_copy,
    join_tokens,
    parse_copy,
    statements_of,
    tokens_of,
)
from headrace.services.redshift.copy_rows import DECODER, plain_json
from headrace.services.redshift.copying import Loader, LoadFailed
from headrace.services.redshift.dialect import translate

if TYPE_CHECKING:
    import psycopg

# By SQLSTATE, or its class: docs of PostgreSQL, appendix A.
_KINDS: dict[str, Kind] = {
    "42P01": "TableNotFound",
    "42703": "ColumnNotFound",
    "42601": "SyntaxError",
    "42501": "InsufficientPrivilege",
    "3D000": "DatabaseNotFound",
    "28P01": "AuthenticationFailed",
    "28000": "AuthenticationFailed",
    "53100": "DiskFull",
    "08": "ConnectionFailed",
    "57P0": "ConnectionFailed",
}
_OTHER: Kind = "StatementFailed"
# Redshift's names for types that PostgreSQL names differently.
_TYPES = {"jsonb": "super", "bytea": "varbyte", "text": "varchar"}
# Types whose values are returned as text, as the Data API does.
_AS_TEXT = (
    "numeric", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "uuid", "inet",
)  # fmt: skip
_UNLIMITED = 65535
_OUTSIDE = [
    [verb, what]
    for verb in ("create", "drop", "CREATE", "DROP")
    for what in ("database", "DATABASE")
]


def connect(**parameters: Any) -> psycopg.Connection[Any]:
    """Return a psycopg connection. Raises WarehouseError."""
    import psycopg
    from psycopg.types.string import TextLoader

    try:
        connection = psycopg.connect(**parameters, connect_timeout=10, application_name="headrace")
    except psycopg.OperationalError as error:
        raise _as_connecting(str(error)) from error
    for name in _AS_TEXT:
        connection.adapters.register_loader(name, TextLoader)

    class SuperLoader(TextLoader):
        """Loads a SUPER as Redshift writes it, without blanks."""

        def load(self, data: Any) -> str:
            return plain_json(DECODER.decode(bytes(data).decode()))

    connection.adapters.register_loader("jsonb", SuperLoader)
    return cast("psycopg.Connection[Any]", connection)


def _as_connecting(text: str) -> WarehouseError:
    """Return the error of a failed connection, for which libpq gives only text."""
    sentence = text.strip().splitlines()[-1] if text.strip() else "no connection"
    kind: Kind = "ConnectionFailed"
    if (
        "password authentication failed" in text
        or "is not permitted to log in" in text
        or ("role " in text and "does not exist" in text)
    ):
        kind = "AuthenticationFailed"
    elif "database " in text and "does not exist" in text:
        kind = "DatabaseNotFound"
    at = sentence.find("FATAL:")
    return WarehouseError(kind, sentence[at:] if at >= 0 else sentence)


def as_warehouse_error(error: psycopg.Error) -> WarehouseError:
    """Return a failed statement's error."""
    state = error.sqlstate or "08"
    kinds: list[Kind] = [k for begin, k in _KINDS.items() if state.startswith(begin)]
    kind = kinds[0] if kinds else _OTHER
    diagnosis = error.diag
    words = f"ERROR: {diagnosis.message_primary or str(error).strip()}"
    if diagnosis.message_detail:
        words += f"\n  Detail: {diagnosis.message_detail}"
    if diagnosis.statement_position:
        words += f"\n  Position: {diagnosis.statement_position}"
    return WarehouseError(kind, words)


class PgSession:
    """See `Session`."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        objects: ObjectStore,
        spec: ClusterSpec,
        may_read: MayRead,
        role: str = "",
    ) -> None:
        """Take over a connection; the session closes it."""
        self.connection = connection
        self.pid = connection.info.backend_pid
        self._objects, self._spec, self._may_read, self._role = objects, spec, may_read, role

    def run(self, sql: str, parameters: Sequence[tuple[str, str]] = ()) -> Result:
        """See `Session.run`."""
        import psycopg

        statements = statements_of(sql)
        if len(statements) > 1:
            raise WarehouseError(
                "SyntaxError", "ERROR: cannot insert multiple commands into a prepared statement"
            )
        if not statements:
            return Result()
        try:
            if is_copy(statements[0]):
                return self._copy(statements[0])
            return self._run(translate(_fill_parameters(statements[0], parameters)))
        except psycopg.Error as error:
            raise as_warehouse_error(error) from error

    def _run(self, sql: str) -> Result:
        if not sql:
            return Result()
        if sql.split(None, 2)[:2] in _OUTSIDE:
            return self._run_outside(sql)
        with self.connection.cursor() as cursor:
            cursor.execute(cast("Any", sql))
            if cursor.description is None:
                return Result(count=cursor.rowcount)
            rows = cast("list[Sequence[Any]]", cursor.fetchall())
            types = self.connection.adapters.types
            columns = [_column(item, types) for item in cursor.description]
            return Result(columns, rows, len(rows))

    def _run_outside(self, sql: str) -> Result:
        """Run a statement that PostgreSQL refuses in a transaction."""
        self.commit()
        self.connection.autocommit = True
        try:
            self.connection.execute(cast("Any", sql))
        finally:
            self.connection.autocommit = False
        return Result()

    def _copy(self, sql: str) -> Result:
        loader = Loader(self.connection, self._objects, self._spec, self._may_read, self._role)
        try:
            count, errors = loader.run(parse_copy(sql))
        except LoadFailed as failed:
            self.rollback()
            self._note(failed.errors)
            self.commit()
            raise WarehouseError("DataLoadFailed", failed.sentence()) from failed
        self._note(errors)
        return Result(count=count)

    def _note(self, errors: Sequence[dict[str, Any]]) -> None:
        if errors:
            self.connection.execute(
                "select headrace.note_load_errors(%s::jsonb)", [json.dumps(errors)]
            )

    def commit(self) -> None:
        """See `Session.commit`."""
        import psycopg

        try:
            self.connection.commit()
        except psycopg.Error as error:
            raise as_warehouse_error(error) from error

    def rollback(self) -> None:
        """See `Session.rollback`."""
        import psycopg

        try:
            self.connection.rollback()
        except psycopg.Error as error:
            raise as_warehouse_error(error) from error

    def cancel(self) -> None:
        """See `Session.cancel`."""
        self.connection.cancel_safe()

    def close(self) -> None:
        """See `Session.close`."""
        self.connection.close()


def _column(item: psycopg.Column, types: Any) -> Column:
    known = types.get(item.type_code)
    kind = str(known.name) if known is not None else "unknown"
    length = item.display_size or item.internal_size or 0
    if kind in ("varchar", "text") and not item.display_size:
        length = _UNLIMITED
    return Column(
        name=item.name,
        type_name=_TYPES.get(kind, kind),
        length=length,
        precision=item.precision or 0,
        scale=item.scale or 0,
    )


def _fill_parameters(sql: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return a statement with the values of `:name` as untyped text literals. Raises WarehouseError."""
    if not parameters:
        return sql
    values = dict(parameters)
    tokens, filled, used = tokens_of(sql), list[Token](), set[str]()
    at = 0
    while at < len(tokens):
        token = tokens[at]
        follows = tokens[at + 1] if at + 1 < len(tokens) else None
        is_name = (
            token.raw == ":"
            and follows is not None
            and follows.kind == "word"
            and (not filled or filled[-1].raw != ":")
        )
        if not is_name or follows is None:
            filled.append(token)
            at += 1
            continue
        if follows.raw not in values:
            raise WarehouseError("SyntaxError", f"ERROR: no value for the parameter {follows.raw}")
        used.add(follows.raw)
        text = "'" + values[follows.raw].replace("'", "''") + "'"
        filled.append(Token("text", text, values[follows.raw]))
        at += 2
    return join_tokens(filled)
