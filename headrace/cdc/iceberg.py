"""Keeps a stream compacted in an Iceberg table: the latest of each key, and where in the stream to go on.

A commit has the changed keys' lines and, in its snapshot's summary, each shard's last sequence number. So a kill leaves
the table before it or after it, of two writers one is refused, and a table that is rolled back goes on from there. Keys
are replaced by rewriting the files that hold them (copy on write). Needs the extra `iceberg`.
"""

# pyiceberg's and pyarrow's annotations are partial.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyiceberg.expressions
from botocore.exceptions import NoCredentialsError
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, LongType, NestedField, StringType

from headrace.cdc.compaction import Compaction
from headrace.cdc.events import CaptureError, Event, Position, read_event
from headrace.cdc.snapshots import check_resume, lines_of, records_after, retention_ms, table_of
from headrace.client.clock import Clock

# Their constructors are pydantic's, which pyright does not know.
_expressions: Any = pyiceberg.expressions
And, EqualTo, In = _expressions.And, _expressions.EqualTo, _expressions.In
LessThan, Not, Or = _expressions.LessThan, _expressions.Not, _expressions.Or

STATE = "headrace.compact.state"
_TYPES = (StringType, StringType, StringType, BooleanType, LongType, LongType, LongType)
SCHEMA = Schema(
    *(NestedField(i, n, t()) for i, (n, t) in enumerate(zip(Compaction.COLUMNS, _TYPES, strict=True), 1))
)  # fmt: skip
_BY_TABLE = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "table"))
# pyiceberg would repeat a lost commit on the newer table, where another writer has put the same keys.
_NO_RETRIES = {"commit.retry.num-retries": "0"}
# With more keys a table's every line is replaced: Iceberg compares each row with each.
_MOST_KEYS = 1000


def glue_catalog(glue: Any, s3: Any) -> Any:
    """Return pyiceberg's catalogue over boto3's clients: Glue by the one, files by the other's endpoint and keys.

    Raises NoCredentialsError.
    """
    credentials = s3._request_signer._credentials  # noqa: SLF001 - boto3 has no public way
    if credentials is None:
        raise NoCredentialsError
    keys = credentials.get_frozen_credentials()
    properties = {
        "s3.endpoint": s3.meta.endpoint_url,
        "s3.region": s3.meta.region_name,
        "s3.access-key-id": keys.access_key,
        "s3.secret-access-key": keys.secret_key,
        "s3.session-token": keys.token or "",
    }
    return GlueCatalog("glue", client=glue, **properties)


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
        self._catalog, self._name, self._clock = catalog, (namespace, name), clock

    def advance(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> tuple[Compaction, int]:
        """Fold what the stream has after the table into it; return what may have changed, and how many records it read.

        Raises CaptureError, also when records have expired unread or another process has stored rows meanwhile;
        botocore's and pyiceberg's errors.
        """
        now_ms = self._clock.now_ms()
        table, state = self._load()
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
        with self._commits(), table.transaction() as transaction:
            # Without a line to delete, pyiceberg warns.
            if table.scan(row_filter=old, limit=1).to_arrow().num_rows:
                transaction.delete(old, snapshot_properties=properties)
            rows = table_of(compaction.lines())
            if known is not None and scope is not None and known.num_rows:
                transaction.overwrite(rows, scope, snapshot_properties=properties)
            else:
                transaction.append(rows, snapshot_properties=properties)
        return compaction, changes.count

    @contextlib.contextmanager
    def _commits(self) -> Generator[None]:
        """Raise CaptureError for a commit that comes after another process's."""
        try:
            yield
        except (CommitFailedException, NoSuchTableError) as error:
            is_there = self._catalog.table_exists(self._name)
            what = "stored rows in" if is_there else "dropped"
            raise CaptureError(
                f"Another process has {what} {'.'.join(self._name)} meanwhile; that counts."
            ) from error

    def rebuild(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> Compaction:
        """Return all tables as of now: the rows, and the stream from their offsets on. Stores nothing.

        Raises CaptureError, also when there is no table or records after it have expired; botocore's errors.
        """
        now_ms = self._clock.now_ms()
        if not self._catalog.table_exists(self._name):
            raise CaptureError(
                f"There is no table {'.'.join(self._name)}: make one by headrace compact."
            )
        table, state = self._load()
        self._check(kinesis, stream, state, now_ms)
        changes = _read(kinesis, stream, state, Compaction(keys))
        return _fold(table.scan().to_arrow(), state, changes, now_ms)

    def _load(self) -> tuple[Table, dict[str, Any]]:
        name = ".".join(self._name)
        try:
            table = self._open()
        except NoSuchNamespaceError as error:
            raise CaptureError(
                f"There is no database {self._name[0]} in the catalogue: make it with a LocationUri, below which the"
                " table's files go."
            ) from error
        except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
            raise CaptureError(f"{name} is no Iceberg table: give another name.") from error
        except (ValueError, OSError) as error:
            # No LocationUri; no bucket, or no right to it.
            raise CaptureError(f"{name} cannot be made or read: {error}.") from error
        if tuple(table.schema().column_names) != Compaction.COLUMNS:
            raise CaptureError(f"{name} has other columns: give another table, which may be new.")
        if not set(_NO_RETRIES.items()) <= set(table.properties.items()):
            with self._commits(), table.transaction() as transaction:
                transaction.set_properties(_NO_RETRIES)
        return table, self._state(table)

    def _open(self) -> Table:
        try:
            return self._catalog.load_table(self._name)
        except NoSuchIcebergTableError:
            raise  # A kind of NoSuchTableError: another table has the name.
        except NoSuchTableError:
            # Another process may make it now, too.
            return self._catalog.create_table_if_not_exists(
                self._name, SCHEMA, partition_spec=_BY_TABLE, properties=_NO_RETRIES
            )

    def _state(self, table: Table) -> dict[str, Any]:
        """Return what the newest of our snapshots says; others, such as a compaction's, come between."""
        snapshot = newest = table.current_snapshot()
        while snapshot is not None:
            text = snapshot.summary.get(STATE) if snapshot.summary is not None else None
            if text is not None:
                return dict(json.loads(text))
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if newest is not None:
            raise CaptureError(
                f"{'.'.join(self._name)} has rows, and no snapshot says up to where they are: give another table."
            )
        return {}

    def _check(
        self, kinesis: Any, stream: str, state: Mapping[str, Any], now_ms: int
    ) -> dict[str, Any]:
        summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        check_resume(".".join(self._name), state, summary, stream, now_ms)
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
