"""What a database's changes are made of: tables, columns, rows, and log positions (LSN).

Decodes pgoutput, the messages of PostgreSQL's own logical replication plug-in (protocol version 1).

Documented: postgresql.org/docs/current/protocol-logicalrep-message-formats.html.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from headrace.cdc.events import CaptureError, format_lsn


class Unchanged:
    """In a row's place for a large value (TOAST) that an update left alone, which the server does not send."""


UNCHANGED: Final = Unchanged()
# A value is the text that PostgreSQL's output function makes.
Row = list["bytes | Unchanged | None"]
# Read in the snapshot, created, updated, deleted, truncated; and the columns of a table.
Op = Literal["r", "c", "u", "d", "t", "schema"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `is_key`: part of the replica identity, or, where that is the whole row, of the primary key."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was at one moment.

    Attributes:
        identity: `d` for the primary key, `i` for an index, `f` for the whole row, `n` for none.
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[Column, ...]

    @property
    def full_name(self) -> str:
        """`schema.name`."""
        return f"{self.schema}.{self.name}"

    def key_places(self) -> list[int]:
        """Return the places of the key's columns; none when the table has no key."""
        return [i for i, column in enumerate(self.columns) if column.is_key]


@dataclass(slots=True)
class Change:
    """One row's change.

    Attributes:
        before: the old row: whole with REPLICA IDENTITY FULL, else of the key alone, or None.
        lsn, commit_lsn: of this change, and of its transaction.
        place: its place in the transaction, from 0; `is_last` says whether it is the last.
        time_us: when the transaction was committed, in microseconds since 1970.
        defaults: of a table's new columns, what rows that were there before them have: a text, or None when it is not
            known, since each row has a value of its own.
    """

    op: Op
    table: Table
    before: Row | None
    after: Row | None
    lsn: int
    commit_lsn: int
    xid: int
    time_us: int
    place: int
    is_last: bool = False
    defaults: Mapping[str, str | None] | None = None

    @property
    def id(self) -> str:
        """The same whenever the change is read again: its commit's LSN and its place there.

        A row of the snapshot, which is read once, and the columns of a table have words of their own.
        """
        if self.op == "r":
            return f"{format_lsn(self.commit_lsn)}/snapshot/{self.place}"
        if self.op == "schema":
            return f"{format_lsn(self.commit_lsn)}/{self.place}/schema/{self.table.full_name}"
        return f"{format_lsn(self.commit_lsn)}/{self.place}"


_BEGIN = struct.Struct(">qqi")  # commit's LSN, its time, xid
_COMMIT = struct.Struct(">Bqqq")  # flags, LSN, end of the transaction, time
_U16, _I32, _U32 = struct.Struct(">H"), struct.Struct(">i"), struct.Struct(">I")
_COLUMN_END = struct.Struct(">Ii")
# From 1 January 2000, PostgreSQL's epoch, to 1970.
EPOCH_US = 946_684_800_000_000


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction; `end_lsn` is what to confirm once its changes are safe."""

    end_lsn: int


class Decoder:
    """Decodes one connection's messages in order; it keeps the tables that the server has described. One thread."""

    def __init__(self) -> None:
        self._tables: dict[int, Table] = {}
        self._commit_lsn = self._xid = self._time_us = self._place = 0
        self.is_in_transaction = False

    def decode(self, message: bytes, lsn: int) -> list[Change] | Commit | Table | None:
        """Return what a message says: changes, a table's new description, a commit, or None for what is not needed.

        An update that changes a row's key is a deletion and a creation, so that both keys' readers see it.
        """
        kind = message[0]
        if kind == 0x49:  # I
            table = self._table(message, 1)
            row, _ = _read_row(message, 6)
            return [self._change("c", table, None, row, lsn)]
        if kind == 0x55:  # U
            return self._update(message, lsn)
        if kind == 0x44:  # D
            table = self._table(message, 1)
            row, _ = _read_row(message, 6)
            return [self._change("d", table, row, None, lsn)]
        if kind == 0x42:  # B
            self._commit_lsn, time_us, self._xid = _BEGIN.unpack_from(message, 1)
            self._time_us, self._place = time_us + EPOCH_US, 0
            self.is_in_transaction = True
            return None
        if kind == 0x43:  # C
            self.is_in_transaction = False
            return Commit(int(_COMMIT.unpack_from(message, 1)[2]))
        if kind == 0x52:  # R
            table = _read_table(message)
            self._tables[table.oid] = table
            return table
        if kind == 0x54:  # T
            (count,) = _I32.unpack_from(message, 1)
            tables = [self._table(message, 6 + 4 * i) for i in range(count)]
            return [self._change("t", table, None, None, lsn) for table in tables]
        if kind in b"YOM":  # a type, an origin, a message of pg_logical_emit_message
            return None
        raise CaptureError(f"The server sent a pgoutput message of the unknown kind {chr(kind)!r}.")

    def schema_change(self, table: Table, lsn: int) -> Change:
        """Return the change that tells a table's columns. It takes no place: a later reader may not need it."""
        return Change(
            "schema", table, None, None, lsn, self._commit_lsn, self._xid, self._time_us, self._place
        )  # fmt: skip

    def replace(self, table: Table) -> Table:
        """Use another description of a table from now on; return it."""
        self._tables[table.oid] = table
        return table

    def _change(
        self, op: Op, table: Table, before: Row | None, after: Row | None, lsn: int
    ) -> Change:
        index, self._place = self._place, self._place + 1
        return Change(
            op, table, before, after, lsn, self._commit_lsn, self._xid, self._time_us, index
        )

    def _table(self, message: bytes, at: int) -> Table:
        return self._tables[_U32.unpack_from(message, at)[0]]

    def _update(self, message: bytes, lsn: int) -> list[Change]:
        table = self._table(message, 1)
        if message[5] == 0x4E:  # N: the key is the same
            row, _ = _read_row(message, 6)
            return [self._change("u", table, None, row, lsn)]
        before, at = _read_row(message, 6)
        after, _ = _read_row(message, at + 1)
        for i, value in enumerate(after):
            if value is UNCHANGED and before[i] is not None:
                after[i] = before[i]
        keys = table.key_places()
        if any(before[i] != after[i] for i in keys):
            return [
                self._change("d", table, before, None, lsn),
                self._change("c", table, None, after, lsn),
            ]
        return [self._change("u", table, before, after, lsn)]


def _read_row(message: bytes, at: int) -> tuple[Row, int]:
    (count,) = _U16.unpack_from(message, at)
    at += 2
    row: Row = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind == 0x74:  # t: text
            end = at + 4 + _I32.unpack_from(message, at)[0]
            row.append(message[at + 4 : end])
            at = end
        else:
            row.append(UNCHANGED if kind == 0x75 else None)
    return row, at


def _read_text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _read_table(message: bytes) -> Table:
    (oid,) = _U32.unpack_from(message, 1)
    schema, at = _read_text(message, 5)
    name, at = _read_text(message, at)
    identity = chr(message[at])
    (count,) = _U16.unpack_from(message, at + 1)
    at += 3
    columns: list[Column] = []
    for _ in range(count):
        # With a whole row every column is marked; `Server.with_primary_key` marks the key's.
        is_key = bool(message[at] & 1) and identity != "f"
        column, at = _read_text(message, at + 1)
        type_oid, modifier = _COLUMN_END.unpack_from(message, at)
        at += _COLUMN_END.size
        columns.append(Column(column, type_oid, modifier, is_key))
    return Table(oid, schema or "pg_catalog", name, identity, tuple(columns))
