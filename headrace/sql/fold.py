"""Runs a script's queries without Spark: a fold over records, in the order in which they come.

It answers what Spark answers, and it is quick to start: for `headrace sql test`. All is in memory. Time is the records'
own: a window closes when a later record's time has passed its end and grace. Each record is a micro-batch of its own,
unless `take_batch` takes several: in Spark, what one micro-batch reads makes rows late in the next ones alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from headrace.sql import conversions, values
from headrace.sql.join_chains import is_part, owner_of, take_chains_apart
from headrace.sql.plan import QueryPlan, Relation, Script
from headrace.sql.records import Record, Row, error_of, read_record, sequence_number
from headrace.sql.running_matches import RunningMatches
from headrace.sql.running_query import SETTLED_AFTER, RunningQuery
from headrace.sql.running_sliding import RunningSliding
from headrace.sql.running_tables import RunningTables

MOST_RESULTS = 1_000_000


@dataclass(frozen=True)
class ResultRow:
    """A row of a query: `columns` as JSON has them, with its partition key; `deleted` for a table's tombstone."""

    columns: dict[str, Any]
    key: str
    time: datetime
    deleted: bool = False


def result_of(row: Row) -> ResultRow:
    """Return a row as it is shown."""
    columns = {name: conversions.as_json(value) for name, value in row.columns.items()}
    return ResultRow(columns, row.key, row.time, row.deleted)


class Fold:
    """The queries of a script, with their state. For one thread."""

    def __init__(self, script: Script) -> None:
        names = [query.name for query in script.queries]
        script = self.script = take_chains_apart(script)
        self.results: dict[str, list[ResultRow]] = {query.name: [] for query in script.queries}
        self.unreadable: dict[str, int] = {}
        # Rows of the streams of late rows and of records that cannot be read, by stream.
        self.aside: dict[str, list[ResultRow]] = {name: [] for name in script.streams_aside()}
        self.late: dict[str, int] = dict.fromkeys(names, 0)
        self._running = [_class_of(query)(query, script.dialect) for query in script.queries]
        for before, running in pairwise(self._running):
            if (
                is_part(running.query.source.relation)
                and running.query.joins[0].method == "streams"
            ):
                running.follow(before.chain)
        # What reads each stream, and each relation.
        self._relations: dict[str, list[Relation]] = {}
        for relation in script.relations.values():
            if relation.stream:
                self._relations.setdefault(relation.stream, []).append(relation)
        self._readers: dict[str, list[tuple[RunningQuery, int]]] = {}
        for running in self._running:
            for side, source in enumerate(running.query.inputs()):
                readers = self._readers.setdefault(source.relation.name, [])
                readers.append((running, side))
        self._count = 0
        self._taken: dict[str, int] = {}
        self._is_in_batch = False

    def take_batch(self, records: Iterable[tuple[str, Record]]) -> None:
        """Take `records`, pairs of a stream and a record, as one micro-batch of every query that reads them."""
        self._is_in_batch = True
        for stream, record in records:
            self.take(stream, record)
        self._is_in_batch = False
        for running in self._running:
            self._emit(running, running.end_batch())

    def settle(self) -> None:
        """Close what is over after the last micro-batch."""
        for _ in range(SETTLED_AFTER):
            for running in self._running:
                self._emit(running, running.end_batch())

    def take(self, stream: str, record: Record) -> None:
        """Give a record of the Kinesis stream `stream` to every relation on it, and on to what reads that."""
        index = self._taken[stream] = self._taken.get(stream, 0) + 1
        if not record.number:
            record = replace(record, number=sequence_number(0, index))
        for relation in self._relations.get(stream, ()):
            row = read_record(relation, record)
            if row is None:
                self.unreadable[relation.name] = self.unreadable.get(relation.name, 0) + 1
                if relation.name in self._readers:
                    row = Row(error_of(relation, record), record.key, record.arrival)
                    self._put_aside(self.script.errors, row)
            else:
                self._pass(relation, row)

    def end(self) -> None:
        """Close every window that is still open, and give up waiting for rows of joins."""
        for running in self._running:
            self._emit(running, running.end())

    def _pass(self, relation: Relation, row: Row) -> None:
        for running, side in self._readers.get(relation.name, ()):
            late = running.late
            self._emit(running, running.take(side, row))
            if not self._is_in_batch and not is_part(relation):
                self._settle(running)
            self.late[owner_of(running.query.name)] += running.late - late
            for late in running.late_rows:
                columns = {**late.columns, "_query": running.query.name}
                self._put_aside(running.query.late, replace(late, columns=columns))
            running.late_rows.clear()

    def _settle(self, running: RunningQuery) -> None:
        if len(running.chain) == 1:
            self._emit(running, running.settle())
            return
        for _ in range(SETTLED_AFTER):
            for part in running.chain:
                self._emit(part, part.end_batch())

    def _put_aside(self, stream: str, row: Row) -> None:
        """Put a row into a stream of late rows or of errors; an empty name is none."""
        if stream:
            result = result_of(row)
            self.aside[stream].append(result)
            self.take(stream, Record({**result.columns}, row.key, row.time))

    def _emit(self, running: RunningQuery, rows: Iterable[Row]) -> None:
        query = running.query
        for row in rows:
            if query.limit is not None and len(self.results[query.name]) >= query.limit:
                return
            self._count += 1
            if self._count > MOST_RESULTS:
                raise values.TooLarge(f"more than {MOST_RESULTS:,} rows of results")
            result = result_of(row)
            self.results[query.name].append(result)
            target = query.target
            if target is not None:
                # What a query writes is what another one reads.
                target = self.script.relations[target.name.lower()]
                if target.stream:
                    data = None if row.deleted else {**result.columns}
                    self.take(target.stream, Record(data, row.key, row.time))
                else:
                    columns = {
                        column.name: row.columns.get(column.name) for column in target.columns
                    }
                    self._pass(target, Row(columns, row.key, row.time))


def _class_of(query: QueryPlan) -> type[RunningQuery]:
    if query.match is not None:
        return RunningMatches
    if query.sliding:
        return RunningSliding
    return RunningTables if query.is_of_tables() else RunningQuery


def run(script: Script, records: Iterable[tuple[str, Record]]) -> Fold:
    """Return the fold of all `records`, pairs of a stream and a record, with every window closed."""
    fold = Fold(script)
    for stream, record in records:
        fold.take(stream, record)
    fold.end()
    return fold
