"""Keeps a stream compacted in an Iceberg table: the latest of each key, and where in the stream to go on.

A commit has the changed keys' lines and, in its snapshot's summary, each shard's last sequence number. So a kill leaves
the table before it or after it, of two writers one is refused, and a table that is rolled back goes on from there. Keys
are replaced by rewriting the files that hold them (copy on write). Needs the extra `iceberg`.
"""

# pyiceberg's and pyarrow's annotations are partial.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyiceberg.expressions

from headrace.cdc.events import CaptureError, Compaction, Event, Position, read_event
from headrace.cdc.iceberg_table import STATE, RowsTable
from headrace.cdc.snapshots import check_resume, lines_of, records_after, retention_ms, table_of
from headrace.client.clock import Clock

# Their constructors are pydantic's, which pyright does not know.
_expressions: Any = pyiceberg.expressions
And, EqualTo, In = _expressions.And, _expressions.EqualTo, _expressions.In
LessThan, Not, Or = _expressions.LessThan, _expressions.Not, _expressions.Or

# With more keys a table's every line is replaced: Iceberg compares each row with each.
_MOST_KEYS = 1000


@dataclass(frozen=True)
class _Changes:
    """What the stream has after a table: each key's events that count, and the offsets behind them.

    `events` are by table and key, and in the order of the database's log.
    """

    events: dict[tuple[str, str], list[Event]]
    truncated: dict[str, Position]
    offsets: dict[str, str]
    count: int


class IcebergRows:
    """One stream's rows in one table, which is made when it is not there. One thread; any number of processes.

    Durability: as the catalogue's; `advance` returns when the new rows are what readers see.
    """

    def __init__(self, catalog: Any, namespace: str, name: str, clock: Clock) -> None:
        """Take pyiceberg's catalogue."""
        self._table, self._clock = RowsTable(catalog, namespace, name), clock

    def advance(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> tuple[Compaction, int]:
        """Fold what the stream has after the table into it; return what may have changed, and how many records it read.

        Raises CaptureError, also when records have expired unread or another process has stored rows meanwhile;
        botocore's and pyiceberg's errors.
        """
        now_ms = self._clock.now_ms()
        table, state = self._table.load()
        if "batch" in state:
            raise CaptureError(
                f"{self._table.name} is the output of the Spark job compact: give another table."
            )
        summary = self._check(kinesis, stream, state, now_ms)
        changes = _read(kinesis, stream, state, Compaction(keys))
        scope = _scope(changes)
        old = And(
            EqualTo("is_deleted", True), LessThan("time_ms", now_ms - 2 * retention_ms(summary))
        )
        known: Any = None
        if scope is not None:
            scan: Any = table.scan(row_filter=And(scope, Not(old)))
            known = scan.to_arrow()
        compaction = _fold(known, state, changes, now_ms)
        new_state = {
            "stream": summary["StreamARN"],
            "offsets": changes.offsets,
            "truncated": compaction.truncated,
            "time_ms": now_ms,
        }
        properties = {STATE: json.dumps(new_state)}
        with self._table.commits(), table.transaction() as transaction:
            # Without a line to delete, pyiceberg warns.
            if table.scan(row_filter=old, limit=1).to_arrow().num_rows:
                transaction.delete(old, snapshot_properties=properties)
            rows = table_of(compaction.lines())
            if known is not None and scope is not None and known.num_rows:
                transaction.overwrite(rows, scope, snapshot_properties=properties)
            else:
                transaction.append(rows, snapshot_properties=properties)
        return compaction, changes.count

    def rebuild(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> Compaction:
        """Return all tables as of now: the rows, and the stream from their offsets on. Stores nothing.

        Raises CaptureError, also when there is no table or records after it have expired; botocore's errors.
        """
        now_ms = self._clock.now_ms()
        if not self._table.exists():
            raise CaptureError(
                f"There is no table {self._table.name}: make one by headrace compact."
            )
        table, state = self._table.load()
        self._check(kinesis, stream, state, now_ms)
        changes = _read(kinesis, stream, state, Compaction(keys))
        return _fold(table.scan().to_arrow(), state, changes, now_ms)

    def _check(
        self, kinesis: Any, stream: str, state: Mapping[str, Any], now_ms: int
    ) -> dict[str, Any]:
        summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        check_resume(self._table.name, state, summary, stream, now_ms)
        return summary


def _read(kinesis: Any, stream: str, state: Mapping[str, Any], keys: Compaction) -> _Changes:
    """Read what the stream has after the offsets of `state`. Raises CaptureError."""
    changes = _Changes({}, {}, dict(state.get("offsets", {})), 0)
    events, truncated, offsets, count = changes.events, changes.truncated, changes.offsets, 0
    for shard_id, number, partition_key, data in records_after(kinesis, stream, offsets):
        event = read_event(data)
        if event is not None and event.op == "t":
            truncated[event.table] = max(event.position, truncated.get(event.table, (0, 0)))
        elif event is not None:
            _note(events.setdefault((event.table, keys.key_of(event, partition_key)), []), event)
        offsets[shard_id] = number
        count += 1
    return _Changes(events, truncated, offsets, count)


def _note(events: list[Event], event: Event) -> None:
    """Note an event of a key, and drop those that it makes needless: a stream may have many of a key."""
    if events and event.position <= events[-1].position:
        return
    if not event.unchanged:
        events.clear()
    events.append(event)


def _scope(changes: _Changes) -> Any:
    """Return which lines may change; None for none."""
    changed: dict[str, set[str]] = {table: set() for table in changes.truncated}
    for table, key in changes.events:
        changed.setdefault(table, set()).add(key)
    parts: list[Any] = []
    for table, keys in changed.items():
        of_table = EqualTo("table", table)
        is_whole = table in changes.truncated or len(keys) > _MOST_KEYS
        parts.append(of_table if is_whole else And(of_table, In("key", keys)))
    return reduce(Or, parts) if parts else None


def _fold(known: Any, state: Mapping[str, Any], changes: _Changes, now_ms: int) -> Compaction:
    compaction = Compaction()
    compaction.restore(lines_of(known) if known is not None else (), state.get("truncated", {}))
    for table, position in changes.truncated.items():
        compaction.truncate(table, position, now_ms)
    for (_, key), events in changes.events.items():
        for event in events:
            compaction.fold(event, key, now_ms)
    return compaction
