"""Writes changes into the tables of another PostgreSQL: exactly once, since the LSN is kept in the same transaction.

A table is made when it is not there, in the schema of the same name. A row of `headrace_cdc` holds the LSN of each
capture; a change whose transaction is not after it is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from headrace.cdc.changes import Change, Row, Table, Unchanged
from headrace.cdc.events import CaptureError, parse_lsn

# How many changes a transaction of the target takes at least before it is committed.
_BATCH = 2_000


class TableSink:
    """A sink to one database. One thread. Durability: as the database's own commits."""

    def __init__(self, url: str, name: str) -> None:
        """Connect; `name` is the capture's, such as its slot. Raises psycopg's errors."""
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, client_encoding="utf8")
        self._name = name
        self._tables: dict[str, Table] = {}
        self._safe_lsn = self._skip_lsn = self._last_lsn = self._count = 0
        self._is_within = False
        self.count = 0
        self._connection.execute(
            "create table if not exists headrace_cdc (capture text primary key, lsn pg_lsn not null)"
        )
        self._connection.commit()

    def resume(self) -> int:
        """See Sink."""
        self._connection.rollback()
        self._count, self._is_within = 0, False
        row = self._connection.execute(
            "select lsn::text from headrace_cdc where capture = %s", (self._name,)
        ).fetchone()
        self._connection.commit()
        self._safe_lsn = self._skip_lsn = self._last_lsn = parse_lsn(row[0]) if row else 0
        return self._safe_lsn

    def begin_snapshot(self) -> None:
        """See Sink: the whole snapshot is one transaction, which begins by emptying the tables."""
        self._connection.rollback()
        self._tables.clear()
        self._skip_lsn = self._last_lsn = 0

    def take(self, change: Change) -> None:
        """See Sink."""
        # An end of a transaction lies after its commit's LSN.
        if change.commit_lsn < self._skip_lsn and change.op != "schema":
            return
        table, op = change.table, change.op
        try:
            if op == "schema":
                self._make(table, is_snapshot=not change.xid)
            elif op == "t":
                self._connection.execute(sql.SQL("delete from {}").format(_name_of(table)))
            elif op == "d":
                self._delete(table, change.before or [])
            elif op == "u" and any(isinstance(value, Unchanged) for value in change.after or ()):
                self._update(table, change.after or [])
            else:
                self._upsert(table, change.after or [])
        except psycopg.Error as error:
            raise CaptureError(
                f"The target refuses a change of {table.full_name}: {' '.join(str(error).split())}."
            ) from error
        self._is_within = True
        self._count += 1
        self.count += 1

    def commit(self, end_lsn: int) -> None:
        """See Sink."""
        self._last_lsn, self._is_within = max(self._last_lsn, end_lsn), False
        if self._count >= _BATCH:
            self.flush()

    def safe_lsn(self) -> int:
        """See Sink. Commits what is complete."""
        self.flush()
        return self._safe_lsn

    def is_full(self) -> bool:
        """See Sink: a change waits in `take` itself."""
        return False

    def is_idle(self) -> bool:
        """See Sink."""
        return self._count == 0

    def flush(self) -> None:
        """See Sink."""
        # A part of the database's transaction is never seen in the target.
        if self._is_within or self._last_lsn <= self._safe_lsn:
            return
        self._connection.execute(
            "insert into headrace_cdc values (%s, %s::pg_lsn) on conflict (capture) do update set lsn = excluded.lsn",
            (self._name, f"{self._last_lsn >> 32:X}/{self._last_lsn & 0xFFFFFFFF:X}"),
        )
        self._connection.commit()
        self._safe_lsn, self._count = self._last_lsn, 0

    def close(self) -> None:
        """See Sink: an unfinished transaction is undone, and comes again."""
        self._connection.close()

    def _make(self, table: Table, *, is_snapshot: bool) -> None:
        if not table.key_places():
            raise CaptureError(
                f"{table.full_name} has no primary key, by which its rows could be found in the target: leave it out"
                " by --table."
            )
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(c.name), _type_of(c.type_oid))
            for c in table.columns
        )
        keys = sql.SQL(", ").join(sql.Identifier(table.columns[i].name) for i in table.key_places())
        run, name = self._connection.execute, _name_of(table)
        run(sql.SQL("create schema if not exists {}").format(sql.Identifier(table.schema)))
        run(
            sql.SQL("create table if not exists {} ({}, primary key ({}))").format(
                name, columns, keys
            )
        )
        for c in table.columns:
            run(
                sql.SQL("alter table {} add column if not exists {} {}").format(
                    name,
                    sql.Identifier(c.name),
                    _type_of(c.type_oid),
                )
            )
        if is_snapshot:
            run(sql.SQL("delete from {}").format(name))
        self._tables[table.full_name] = table

    def _upsert(self, table: Table, row: Row) -> None:
        names = [sql.Identifier(c.name) for c in table.columns]
        keys = {i: names[i] for i in table.key_places()}
        rest = [name for i, name in enumerate(names) if i not in keys]
        action = sql.SQL("update set {}").format(
            sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in rest)
        ) if rest else sql.SQL("nothing")  # fmt: skip
        statement = sql.SQL("insert into {} ({}) values ({}) on conflict ({}) do {}").format(
            _name_of(table),
            sql.SQL(", ").join(names),
            sql.SQL(", ").join(_casts(table, range(len(names)))),
            sql.SQL(", ").join(keys.values()),
            action,
        )
        self._connection.execute(statement, [_text(value) for value in row])

    def _update(self, table: Table, row: Row) -> None:
        places = [i for i, value in enumerate(row) if not isinstance(value, Unchanged)]
        casts = _casts(table, places)
        sets = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(table.columns[i].name), cast)
            for i, cast in zip(places, casts, strict=True)
        )
        where, values = _where(table, row)
        statement = sql.SQL("update {} set {} where {}").format(_name_of(table), sets, where)
        self._connection.execute(statement, [*(_text(row[i]) for i in places), *values])

    def _delete(self, table: Table, row: Row) -> None:
        where, values = _where(table, row)
        self._connection.execute(
            sql.SQL("delete from {} where {}").format(_name_of(table), where), values
        )


# Types whose numbers are the same on every server; the others are texts in the target.
_TYPES: dict[int, LiteralString] = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid", 114: "json",
    700: "real", 701: "double precision", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz",
    1186: "interval", 1266: "timetz", 1700: "numeric", 2950: "uuid", 3802: "jsonb", 869: "inet", 650: "cidr",
    1000: "boolean[]", 1005: "smallint[]", 1007: "integer[]", 1009: "text[]", 1015: "text[]", 1016: "bigint[]",
    1022: "double precision[]", 1231: "numeric[]", 2951: "uuid[]",
}  # fmt: skip


def _type_of(oid: int) -> sql.SQL:
    return sql.SQL(_TYPES.get(oid, "text"))


def _name_of(table: Table) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _casts(table: Table, places: Iterable[int]) -> list[sql.Composed]:
    return [sql.SQL("%s::text::{}").format(_type_of(table.columns[i].type_oid)) for i in places]


def _where(table: Table, row: Row) -> tuple[sql.Composed, list[str | None]]:
    places = table.key_places()
    parts = [
        sql.SQL("{} = {}").format(sql.Identifier(table.columns[i].name), cast)
        for i, cast in zip(places, _casts(table, places), strict=True)
    ]
    return sql.SQL(" and ").join(parts), [_text(row[i]) for i in places]


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else None
