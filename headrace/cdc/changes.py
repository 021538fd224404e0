"""What a database's changes are made of: tables, columns, rows, and log positions (LSN)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from headrace.cdc.events import format_lsn


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
