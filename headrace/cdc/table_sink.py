"""Writes changes into the tables of another PostgreSQL: exactly once, since the LSN is kept in the same transaction.

A table is made when it is not there, in the schema of the same name. A row of `headrace_cdc` holds the LSN of each
capture; a change whose transaction is not after it is passed over. `headrace_cdc_tables` holds each table's columns as
they were last told: new and dropped ones are followed, and what no change tells of ends the capture.

What a capture remembers of its server, to notice a lost slot, another server, or another reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from headrace.cdc.changes import Change, Row, Table, Unchanged
from headrace.cdc.events import CaptureError, format_lsn, parse_lsn
from headrace.cdc.server import Identity, Slot, sentence_of

# How many changes a transaction of the target takes at least before it is committed.
_BATCH = 2_000


class TableSink:
    """A sink to one database. One thread. Durability: as the database's own commits."""

    def __init__(self, url: str, name: str) -> None:
        """Connect; `name` is the capture's, such as its slot. Raises psycopg's errors."""
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, client_encoding="utf8")
        self._name = name
        self._safe_lsn = self._skip_lsn = self._last_lsn = self._count = 0
        self._is_within = False
        # The change that deleted last, and the row that it deleted.
        self._deleted: tuple[Change, Row] | None = None
        self.count = 0
        for statement in (
            "headrace_cdc (capture text primary key, lsn pg_lsn not null)",
            "headrace_cdc_tables (capture text, name text, columns jsonb not null, primary key (capture, name))",
        ):
            self._connection.execute(f"create table if not exists {statement}".encode())
        query = "select system_identifier::text, current_database()::text from pg_control_system()"
        self.home: tuple[str, str] | None = self._connection.execute(query).fetchone()
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
        self._skip_lsn = self._last_lsn = 0

    def take(self, change: Change) -> None:
        """See Sink."""
        # An end of a transaction lies after its commit's LSN.
        if change.commit_lsn < self._skip_lsn:
            return
        table, op = change.table, change.op
        try:
            if op == "schema":
                self._make(table, change.defaults or {}, is_snapshot=not change.xid)
            elif op == "t":
                self._connection.execute(sql.SQL("delete from {}").format(_name_of(table)))
            elif op == "d":
                self._deleted = change, self._delete(table, change.before or [])
            elif op == "u" and any(isinstance(value, Unchanged) for value in change.after or ()):
                self._update(table, change.after or [])
            else:
                self._upsert(table, self._whole_row(change))
        except psycopg.Error as error:
            raise CaptureError(
                f"The target refuses a change of {table.full_name}: {sentence_of(error)}."
            ) from error
        self._is_within = True
        self._count += 1
        self.count += op != "schema"

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

    def _make(self, table: Table, defaults: Mapping[str, str | None], *, is_snapshot: bool) -> None:
        if not table.key_places():
            raise CaptureError(
                f"{table.full_name} has no primary key, by which its rows could be found in the target: leave it out"
                " by --table."
            )
        run, name = self._connection.execute, _name_of(table)
        columns = [[c.name, c.type_oid, c.is_key] for c in table.columns]
        row = run(
            "select columns from headrace_cdc_tables where capture = %s and name = %s",
            (self._name, table.full_name),
        ).fetchone()
        known: list[list[Any]] | None = row[0] if row else None
        if known is not None and known != columns:
            if is_snapshot:
                run(sql.SQL("drop table if exists {}").format(name))
            else:
                self._follow(table, known, defaults)
        self._create(table)
        if is_snapshot:
            run(sql.SQL("delete from {}").format(name))
        run(
            "insert into headrace_cdc_tables values (%s, %s, %s) on conflict (capture, name) do update set"
            " columns = excluded.columns",
            (self._name, table.full_name, json.dumps(columns)),
        )

    def _create(self, table: Table) -> None:
        """Make the table, or the columns that it lacks."""
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

    def _follow(
        self, table: Table, known: list[list[Any]], defaults: Mapping[str, str | None]
    ) -> None:
        """Add and drop columns; raise CaptureError when rows have changed in a way that no change tells."""
        old = {name: (type_oid, is_key) for name, type_oid, is_key in known}
        new = {c.name: (c.type_oid, c.is_key) for c in table.columns}
        gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
        changed = sorted(name for name in set(old) & set(new) if old[name] != new[name])
        own = [name for name in added if name in defaults and defaults[name] is None]
        reason = ""
        if changed:
            reason = f"{', '.join(changed)} has another type, or is in the key or no more"
        elif gone and added:
            reason = (
                f"{', '.join(gone)} is gone and {', '.join(added)} is new, perhaps by a new name"
            )
        elif own:
            reason = f"each row may have a value of its own in the new {', '.join(own)}"
        if reason:
            raise CaptureError(
                f"{table.full_name} was altered: {reason}, and no change tells what its rows have now; start once with"
                " --snapshot to read all rows again."
            )
        run, target = self._connection.execute, _name_of(table)
        for name in gone:
            run(
                sql.SQL("alter table {} drop column if exists {}").format(
                    target, sql.Identifier(name)
                )
            )
        self._create(table)
        for c in table.columns:
            if c.name in added and defaults.get(c.name) is not None:
                run(
                    sql.SQL("update {} set {} = %s::text::{}").format(
                        target, sql.Identifier(c.name), _type_of(c.type_oid)
                    ),
                    (defaults[c.name],),
                )

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

    def _delete(self, table: Table, row: Row) -> Row:
        """Return the row that is deleted."""
        where, values = _where(table, row)
        columns = sql.SQL(", ").join(
            sql.SQL("{}::text").format(sql.Identifier(c.name)) for c in table.columns
        )
        statement = sql.SQL("delete from {} where {} returning {}")
        deleted = self._connection.execute(
            statement.format(_name_of(table), where, columns), values
        ).fetchone()
        return [None if value is None else value.encode() for value in deleted or ()]

    def _whole_row(self, change: Change) -> Row:
        """Return a new row. When its key has changed, it has what the change left alone from the row of the old key."""
        row = change.after or []
        if not any(isinstance(value, Unchanged) for value in row):
            return row
        deletion, old = self._deleted or (None, [])
        if (
            deletion is None
            or (deletion.commit_lsn, deletion.place + 1) != (change.commit_lsn, change.place)
            or len(old) != len(row)
        ):
            raise CaptureError(
                f"A row of {change.table.full_name} has a new key, and the target has no row of the old one: start once"
                " with --snapshot to read all rows again."
            )
        return [
            before if isinstance(value, Unchanged) else value
            for value, before in zip(row, old, strict=True)
        ]


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


@dataclass(frozen=True, slots=True)
class Progress:
    """The server, and the LSN up to which changes are safe."""

    system_id: str
    timeline: int
    lsn: int


class ProgressFile:
    """A file with one capture's progress, replaced as a whole. A kill leaves the old or the new one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Progress | None:
        """Return the progress, or None. Raises CaptureError for a file that is something else."""
        try:
            content: Any = json.loads(self.path.read_text())
            return Progress(
                str(content["system_id"]), int(content["timeline"]), int(content["lsn"])
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CaptureError(f"{self.path} is no progress of a capture: {error}.") from error

    def write(self, progress: Progress) -> None:
        """Replace the file. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(progress)))
        partial.replace(self.path)

    def remove(self) -> None:
        """Forget: the next capture begins with a snapshot."""
        self.path.unlink(missing_ok=True)


def check(
    progress: Progress | None,
    identity: Identity,
    slot: Slot | None,
    name: str,
    left_lsn: int | None = None,
) -> str | None:
    """Return a warning or None. Raises CaptureError when changes are lost between the last capture and now.

    `left_lsn`: of a promoted server, where its log left that of the server before, if it did.
    """
    again = "start once with --snapshot to read all rows again"
    if slot is not None and slot.wal_status == "lost":
        raise CaptureError(
            f"The server has removed log that the slot {name} needed (max_slot_wal_keep_size): changes are lost;"
            f" {again}."
        )
    if progress is None:
        return None
    if identity.system_id != progress.system_id:
        raise CaptureError(
            f"This is another server than before (system identifier {identity.system_id}, not {progress.system_id}):"
            f" {again}."
        )
    is_promoted = identity.timeline != progress.timeline
    if is_promoted and (left_lsn is None or left_lsn < progress.lsn):
        raise CaptureError(
            f"The server was promoted without everything that was captured: it is at timeline {identity.timeline}, and"
            f" left timeline {progress.timeline} {'never' if left_lsn is None else f'at {format_lsn(left_lsn)}'}, while"
            f" {format_lsn(progress.lsn)} was captured; {again}."
        )
    if is_promoted and slot is None:
        raise CaptureError(
            f"The server was promoted, and does not have the slot {name}, which only a standby with"
            f" sync_replication_slots keeps: changes after {format_lsn(progress.lsn)} are lost; {again}."
        )
    if slot is None:
        raise CaptureError(
            f"Somebody has dropped the slot {name}: changes after {format_lsn(progress.lsn)} are lost; {again}."
        )
    if identity.lsn < progress.lsn:
        raise CaptureError(
            f"The server is at {format_lsn(identity.lsn)}, before {format_lsn(progress.lsn)}, which was captured:"
            f" it was restored to an earlier moment; {again}."
        )
    if slot.confirmed_lsn > progress.lsn:
        raise CaptureError(
            f"Somebody else has read the slot {name} up to {format_lsn(slot.confirmed_lsn)}; this capture is at"
            f" {format_lsn(progress.lsn)}: changes are lost; {again}."
        )
    if is_promoted:
        return (
            f"The server was promoted (timeline {identity.timeline}, before {progress.timeline}); its slot has"
            " everything."
        )
    return None
