"""The captured PostgreSQL: its settings, publication and slot, the snapshot, and the stream of changes."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from headrace.cdc.changes import EPOCH_US, Column, Row, Table
from headrace.cdc.events import CaptureError, format_lsn, parse_lsn

# Texts that do not depend on the server's settings.
_OPTIONS = "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex -c extra_float_digits=3"
_WAL_DATA, _KEEPALIVE = struct.Struct(">cQQq"), struct.Struct(">cQqB")
_ENDS_WITHIN_S, _LOOK_S = 2.0, 0.05
_STATUS = struct.Struct(">cQQQqB")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server this is: a promotion changes its timeline, another data directory its system id."""

    system_id: str
    timeline: int
    lsn: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot; `kept_bytes`: of log that the server keeps for it."""

    confirmed_lsn: int
    kept_bytes: int
    wal_status: str
    plugin: str
    database: str
    is_active: bool


def sentence_of(error: psycopg.Error) -> str:
    """Return what PostgreSQL says, without the statement and without its last stop."""
    said = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    parts = [part.rstrip(".") for part in said if part]
    return "; ".join(parts) or " ".join(str(error).split()).rstrip(".?") or type(error).__name__


def _connect(url: str, **parameters: str) -> psycopg.Connection[Any]:
    # The server ends a replication whose client is gone; the client must find out itself that the server is.
    conninfo = make_conninfo(
        url, options=_OPTIONS, client_encoding="utf8", connect_timeout=10, keepalives=1, keepalives_idle=10,
        keepalives_interval=5, keepalives_count=3, **parameters,
    )  # fmt: skip
    return psycopg.connect(conninfo, autocommit=True)


class Server:
    """Statements on one database. One thread. Raises psycopg's errors; CaptureError for what a person must change."""

    def __init__(self, url: str) -> None:
        """Connect. Raises psycopg.OperationalError."""
        self.url = url
        self.connection = _connect(url)
        self.version = self.connection.info.server_version
        self.database = self.connection.info.dbname

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement.encode(), values or None).fetchall()

    def identity(self) -> Identity:
        """Return which server answers."""
        ((system_id, timeline, lsn),) = self._rows(
            # By the current file's name: the last checkpoint's timeline may be that before a promotion.
            "select system_identifier::text, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int,"
            " pg_current_wal_lsn()::text from pg_control_system()"
        )
        return Identity(system_id, timeline, parse_lsn(lsn))

    def check(self) -> list[str]:
        """Return warnings. Raises CaptureError when logical replication is not possible."""
        if self._rows("select pg_is_in_recovery()")[0][0]:
            raise CaptureError("This server is a standby: give the URL of the primary.")
        ((level,),) = self._rows("show wal_level")
        if level != "logical":
            raise CaptureError(
                f"The server's wal_level is {level}: set it to logical and restart it (on RDS:"
                " rds.logical_replication = 1)."
            )
        # RDS grants the right by a role instead.
        ((may,),) = self._rows(
            "select rolreplication or rolsuper or exists (select from pg_roles r where r.rolname = 'rds_replication'"
            " and pg_has_role(current_user, r.oid, 'member')) from pg_roles where rolname = current_user"
        )
        if not may:
            user = self.connection.info.user
            raise CaptureError(
                f"The user {user} may not replicate: ALTER ROLE {user} REPLICATION (on RDS: GRANT rds_replication)."
            )
        ((bound,),) = self._rows(
            "select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size'"
        )
        if bound >= 0:
            return []
        return [
            (
                "The server sets no bound of its own on what slots keep (max_slot_wal_keep_size = -1): while no capture"
                " runs, its log grows without end."
            )
        ]

    def make_publication(self, name: str, tables: tuple[str, ...]) -> list[str]:
        """Make the publication unless it is there; return warnings.

        Raises CaptureError for a table that is not there, and for one without a replica identity: its updates would
        fail from then on.
        """
        there = self._list_tables()
        names = [table for table, _, _ in there]
        for table in tables:
            if table not in names:
                raise CaptureError(f"There is no table {table}: name tables as schema.table.")
        exists = bool(self._rows("select from pg_publication where pubname = %s", name))
        if not exists:
            self._refuse_without_identity(tables, there)
            what = sql.SQL(", ").join(sql.Identifier(*table.split(".", 1)) for table in tables)
            statement = sql.SQL("create publication {} for {}").format(
                sql.Identifier(name),
                sql.SQL("table {}").format(what) if tables else sql.SQL("all tables"),
            )
            self.connection.execute(statement)
            return []
        missing = sorted(set(tables) - set(self._list_published_names(name)))
        if missing:
            raise CaptureError(
                f"The publication {name} is there, and does not have {', '.join(missing)}: ALTER PUBLICATION"
                f" {name} ADD TABLE, or give another --publication."
            )
        return []

    def _list_tables(self) -> list[tuple[Any, ...]]:
        """Return name, replica identity and whether there is a primary key of each table that can be published."""
        return self._rows(
            "select n.nspname || '.' || c.relname, c.relreplident::text, exists (select from pg_index i where"
            " i.indrelid = c.oid and i.indisprimary) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where c.relkind in ('r', 'p') and c.relpersistence = 'p'"
            " and n.nspname not in ('pg_catalog', 'information_schema')"
        )

    def _refuse_without_identity(
        self, tables: tuple[str, ...], there: list[tuple[Any, ...]]
    ) -> None:
        bare = sorted(
            name
            for name, identity, has_key in there
            if (not tables or name in tables)
            and (identity == "n" or (identity == "d" and not has_key))
        )
        if bare:
            raise CaptureError(
                f"{', '.join(bare)}: without a primary key, updates and deletions of a published table fail;"
                " ALTER TABLE .. REPLICA IDENTITY FULL first, or name other tables by --table."
            )

    def _list_published_tables(self, publication: str) -> list[tuple[Any, ...]]:
        """Return schema, table, columns and filter; PostgreSQL before 15 has neither of the last two."""
        more = "attnames, rowfilter" if self.version >= 150000 else "null, null"
        return self._rows(
            f"select schemaname, tablename, {more} from pg_publication_tables where pubname = %s order by 1, 2",
            publication,
        )

    def _list_published_names(self, publication: str) -> list[str]:
        rows = self._list_published_tables(publication)
        return [f"{schema}.{table}" for schema, table, _, _ in rows]

    def warn_of_unpublished(self, publication: str, keyed: tuple[str, ...]) -> list[str]:
        """Return a warning for each table that has a partition key of its own, and is not in the publication."""
        published = self._list_published_names(publication)
        return [
            f"--partition-by has no effect for {table}, which is not in the publication {publication}"
            for table in keyed
            if table not in published
        ]

    def warn_of_large_values(self, publication: str) -> list[str]:
        """Return a warning for each table that has large values (TOAST), and no identity with which they are sent."""
        rows = self._rows(
            "select distinct p.schemaname || '.' || p.tablename from pg_publication_tables p join pg_namespace n on"
            " n.nspname = p.schemaname join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename"
            " where p.pubname = %s and c.relreplident <> 'f' and c.reltoastrelid <> 0"
            " and pg_relation_size(c.reltoastrelid) > 0 order by 1",
            publication,
        )
        return [
            (
                f"{table} has large values: an event lacks those that its update left alone, and names them; of a row"
                f" whose key changes, nobody has them then; ALTER TABLE {table} REPLICA IDENTITY FULL sends them whole"
            )
            for (table,) in rows
        ]

    def slot(self, name: str) -> Slot | None:
        """Return a slot, or None."""
        rows = self._rows(
            "select coalesce(confirmed_flush_lsn, '0/0')::text,"
            " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, coalesce(wal_status, ''),"
            " plugin, database, active from pg_replication_slots where slot_name = %s",
            name,
        )
        return Slot(parse_lsn(rows[0][0]), *rows[0][1:]) if rows else None

    def drop_slot(self, name: str) -> None:
        """Drop a slot, if it is there, so that the server lets go of its log. Raises ObjectInUse while it is read."""
        self._rows(
            "select pg_drop_replication_slot(slot_name)::text from pg_replication_slots where slot_name = %s",
            name,
        )

    def keep_slot(self, temporary: str, name: str) -> None:
        """Make the slot `name` at the place of a temporary one: one step, before which there is no snapshot.

        Raises psycopg.OperationalError when the temporary one is gone: it ends with its connection.
        """
        try:
            self._rows(
                "select lsn::text from pg_copy_logical_replication_slot(%s, %s, false)",
                temporary,
                name,
            )
        except psycopg.errors.UndefinedObject as error:
            raise psycopg.OperationalError(
                f"The connection of the slot {temporary} is lost."
            ) from error

    def fails_over(self, name: str) -> bool:
        """Whether standbys that synchronize slots keep this one; a server before 17 has no such slots."""
        if self.version < 170000:
            return True
        return bool(
            self._rows("select from pg_replication_slots where slot_name = %s and failover", name)
        )

    def tables(self, publication: str) -> list[tuple[Table, str | None]]:
        """Return the published tables with their published columns and row filters."""
        tables: list[tuple[Table, str | None]] = []
        for schema, name, columns, row_filter in self._list_published_tables(publication):
            rows = self._rows(
                "select a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod, c.relreplident::text,"
                " coalesce(a.attnum = any(i.indkey), false) from pg_attribute a join pg_class c on c.oid = a.attrelid"
                " join pg_namespace n on n.oid = c.relnamespace left join pg_index i on i.indrelid = c.oid and"
                " case when c.relreplident = 'i' then i.indisreplident else i.indisprimary end"
                " where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped"
                " and a.attgenerated = '' order by a.attnum",
                schema, name,
            )  # fmt: skip
            chosen_rows = [row for row in rows if columns is None or row[1] in columns]
            if chosen_rows:
                parts = tuple(Column(row[1], row[2], row[3], row[5]) for row in chosen_rows)
                tables.append(
                    (Table(chosen_rows[0][0], schema, name, chosen_rows[0][4], parts), row_filter)
                )
        return tables

    def with_primary_key(self, table: Table) -> Table:
        """Return a table whose replica identity is the whole row, with its primary key marked."""
        rows = self._rows(
            "select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum ="
            " any(i.indkey) where i.indrelid = %s and i.indisprimary",
            table.oid,
        )
        names = {name for (name,) in rows}
        columns = tuple(replace(column, is_key=column.name in names) for column in table.columns)
        return replace(table, columns=columns)

    def defaults(self, table: Table) -> dict[str, str | None]:
        """Return what rows have in a column that was added after them, by column; None where each has its own.

        Rows do not come as changes when a column is added, whatever its default is.
        """
        return dict(
            self._rows(
                "select attname, case when atthasmissing then (attmissingval::text::text[])[1] end from pg_attribute"
                " where attrelid = %s and attnum > 0 and not attisdropped and attgenerated = ''"
                " and (atthasmissing or atthasdef or attidentity <> '')",
                table.oid,
            )
        )

    def rows(self, snapshot: str, table: Table, row_filter: str | None) -> Iterator[Row]:
        """Read a table as of an exported snapshot.

        Raises psycopg.OperationalError when the snapshot is gone: it ends with the connection that exported it.
        """
        with _connect(self.url) as connection, connection.cursor() as cursor:
            connection.execute("begin isolation level repeatable read read only")
            try:
                connection.execute(
                    sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot))
                )
            # Servers before 16 say that it is no snapshot, later ones that it does not exist.
            except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
                raise psycopg.OperationalError(
                    f"The connection of the snapshot {snapshot} is lost."
                ) from error
            columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
            query = sql.SQL("copy (select {} from {}{}) to stdout").format(
                columns,
                sql.Identifier(table.schema, table.name),
                sql.SQL(f" where {row_filter}" if row_filter else ""),  # pyright: ignore[reportArgumentType]
            )
            with cursor.copy(query) as copy:
                for row in copy.rows():
                    yield [None if value is None else str(value).encode() for value in row]


class Replication:
    """A connection that streams one slot's changes. One thread. Raises psycopg's errors."""

    def __init__(self, url: str) -> None:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = _connect(url, replication="database")
        self._link = self._connection.pgconn
        self._is_streaming = False

    def close(self) -> None:
        """End the stream, so that the next reader finds the slot free, and close the connection; the slot stays."""
        if self._is_streaming:
            self._is_streaming = False
            # `read` raises at the end; a server that is away, or still busy, is not waited for.
            with contextlib.suppress(psycopg.Error):
                self._link.put_copy_end()
                self._link.flush()
                end_s = time.monotonic() + _ENDS_WITHIN_S
                while time.monotonic() < end_s:
                    if self.read() is None:
                        self.wait(_LOOK_S)
        self._connection.close()

    def export_snapshot(self, slot: str) -> tuple[int, str]:
        """Make a temporary slot, which goes with this connection; return its LSN and the name of its snapshot."""
        result = self._run(
            f'CREATE_REPLICATION_SLOT "{slot}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
        )
        lsn, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert lsn is not None
        assert snapshot is not None
        return parse_lsn(lsn.decode()), snapshot.decode()

    def end_of_timeline(self, earlier: int, current: int) -> int | None:
        """Return the LSN at which the history of `current` left an earlier timeline; None when it never was on it."""
        history = self._run(f"TIMELINE_HISTORY {current}").get_value(0, 1) or b""
        for line in history.decode(errors="replace").splitlines():
            number, _, rest = line.strip().partition("\t")
            if number == str(earlier):
                return parse_lsn(rest.split()[0])
        return None

    def let_fail_over(self, slot: str) -> None:
        """Let standbys with sync_replication_slots keep the slot, so that a promoted one has it."""
        self._run(f'ALTER_REPLICATION_SLOT "{slot}" (FAILOVER true)')

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Begin to stream after `lsn`, or where the slot is, if that is later."""
        name = publication.replace('"', '""').replace("'", "''")
        self._run(
            f'START_REPLICATION SLOT "{slot}" LOGICAL {format_lsn(lsn)}'
            f" (proto_version '1', publication_names '\"{name}\"')"
        )
        self._is_streaming = True

    def _run(self, command: str) -> pq.abc.PGresult:
        result = self._link.exec_(command.encode())
        good = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COPY_BOTH)
        if result.status not in good:
            raise psycopg.errors.lookup(_state(result))(pq.error_message(result))
        return result

    def read(self) -> tuple[int, bytes] | int | None:
        """Return a change's LSN and message, the server's LSN when it says where it is, or None when nothing waits."""
        count, data = self._link.get_copy_data(1)
        if count == 0:
            self._link.consume_input()
            count, data = self._link.get_copy_data(1)
            if count == 0:
                return None
        if count < 0:
            result = self._link.get_result()
            sentence = (
                pq.error_message(result)
                if result is not None
                else "the server ended the replication"
            )
            state = _state(result) if result is not None else "08006"
            raise psycopg.errors.lookup(state)(sentence)
        message = bytes(data)
        if message[0] == 0x77:  # w
            return int(_WAL_DATA.unpack_from(message)[1]), message[_WAL_DATA.size :]
        return int(_KEEPALIVE.unpack_from(message)[1])

    def wait(self, timeout_s: float) -> None:
        """Wait until something can be read."""
        import select

        select.select([self._link.socket], [], [], timeout_s)

    def confirm(self, lsn: int) -> None:
        """Tell the server that everything up to `lsn` is safe. Also keeps the connection alive."""
        now_us = time.time_ns() // 1000 - EPOCH_US
        self._link.put_copy_data(_STATUS.pack(b"r", lsn, lsn, lsn, now_us, 0))
        self._link.flush()


def _state(result: pq.abc.PGresult) -> str:
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    return state.decode() if state else "08006"
