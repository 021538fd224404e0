"""Runs a script's queries without Spark: a fold over records, in the order in which they come.

It answers what Spark answers, and it is quick to start: for `headrace sql test`. All is in memory. Time is the records'
own: a window closes when a later record's time has passed its end and grace. Each record is a micro-batch of its own,
unless `take_batch` takes several: in Spark, what one micro-batch reads makes rows late in the next ones alone.

A query with aggregates over sliding windows, for the runner without Spark: a row for each row.

A query with MATCH_RECOGNIZE, for the runner without Spark: the rows of its matches.

A query of tables alone, for the runner without Spark: the changes of its result, with tombstones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from headrace.sql import conversions, values
from headrace.sql.join_chains import is_part, owner_of, take_chains_apart
from headrace.sql.matching import Matcher
from headrace.sql.plan import ROWTIME, MatchPlan, QueryPlan, Relation, Script
from headrace.sql.records import (
    Record,
    Row,
    error_of,
    read_record,
    record_of,
    sequence_number,
)
from headrace.sql.running_query import SETTLED_AFTER, RunningQuery, aggregate_of, comparable
from headrace.sql.running_sessions import RunningSessions
from headrace.sql.statements import Frame
from headrace.sql.values import evaluator

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
        # While a query's rows, which come in one micro-batch, go on: what has taken some of them.
        self._touched: list[RunningQuery] | None = None

    def take_batch(self, records: Iterable[tuple[str, Record]]) -> None:
        """Take `records`, pairs of a stream and a record, as one micro-batch of every query that reads them."""
        self._is_in_batch = True
        for stream, record in records:
            self.take(stream, record)
        for running in self._running:
            self._emit(running, running.end_batch())
        self._is_in_batch = False

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
            if not is_part(relation) or len(running.chain) == 1:
                self._touch(running)
            self.late[owner_of(running.query.name)] += running.late - late
            for late in running.late_rows:
                columns = {**late.columns, "_query": owner_of(running.query.name)}
                self._put_aside(running.query.late, replace(late, columns=columns))
            running.late_rows.clear()

    def _touch(self, running: RunningQuery) -> None:
        """Settle a query that has taken a row, with the other rows of its micro-batch if there are such."""
        if self._is_in_batch:
            return
        if self._touched is None:
            self._settle(running)
        elif running not in self._touched:
            self._touched.append(running)

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
        outer, touched = self._touched, list[RunningQuery]()
        self._touched = touched
        self._give(running.query, rows)
        self._touched = outer
        for reader in touched:
            self._touch(reader)

    def _give(self, query: QueryPlan, rows: Iterable[Row]) -> None:
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
                    data: Any = None
                    if not row.deleted:
                        is_line = target.format == "CSV"
                        data = record_of(target, row.columns)[1] if is_line else {**result.columns}
                    self.take(target.stream, Record(data, row.key, row.time))
                else:
                    columns = {
                        column.name: row.columns.get(column.name) for column in target.columns
                    }
                    self._pass(target, Row(columns, row.key, row.time, arrival=row.arrival))


def _class_of(query: QueryPlan) -> type[RunningQuery]:
    if query.match is not None:
        return RunningMatches
    if query.sliding:
        return RunningSliding
    if query.window is not None and query.window.kind == "SESSION":
        return RunningSessions
    return RunningTables if query.is_of_tables() else RunningQuery


def run(script: Script, records: Iterable[tuple[str, Record]]) -> Fold:
    """Return the fold of all `records`, pairs of a stream and a record, with every window closed."""
    fold = Fold(script)
    for stream, record in records:
        fold.take(stream, record)
    fold.end()
    return fold


@dataclass(eq=False)
class _Kept:
    """A row that later windows may hold, with the values of each aggregate's partition and arguments."""

    scope: dict[tuple[str, str], Any]
    row: Row
    number: int
    partitions: list[tuple[Any, ...]]
    arguments: list[tuple[Any, ...]]


class RunningSliding(RunningQuery):
    """A query whose rows wait until their micro-batch ends: rows of the same time in it are in each other's windows."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        super().__init__(query, dialect)
        self._parts = [
            (
                [evaluator(part) for part in one.over.frame.partition],
                [evaluator(part) for part in one.over.call.arguments],
            )
            for one in query.sliding
        ]
        self._kept: list[_Kept] = []
        self._new: list[_Kept] = []
        self._number = 0

    def take(self, side: int, row: Row) -> list[Row]:
        """Keep a row that WHERE lets through."""
        scope = self._scope([row])
        if row.deleted or (self._where is not None and self._where(scope) is not True):
            return []
        partitions = [tuple(comparable(part(scope)) for part in by) for by, _ in self._parts]
        arguments = [tuple(part(scope) for part in parts) for _, parts in self._parts]
        self._number += 1
        self._new.append(_Kept(scope, row, self._number, partitions, arguments))
        return []

    def end_batch(self) -> list[Row]:
        """Return a row for each new one, with the aggregates of its windows; forget what no window holds any more."""
        if not self._new:
            return []
        new, self._new = self._new, []
        rows = sorted([*self._kept, *new], key=lambda one: (one.row.time, one.number))
        partitions = [_partition(rows, index) for index in range(len(self.query.sliding))]
        results: list[Row] = []
        for one in new:
            scope = dict(one.scope)
            for index, sliding in enumerate(self.query.sliding):
                own = partitions[index][one.partitions[index]]
                values = [other.arguments[index] for other in _window(own, one, sliding.over.frame)]
                scope["", sliding.name] = aggregate_of(sliding.over.call, values)
            if self._having is None or self._having(scope) is True:
                results += self._result(scope, one.row.key, one.row.time)
        needed: set[int] = set()
        for by_key, sliding in zip(partitions, self.query.sliding, strict=True):
            for own in by_key.values():
                later = _select_needed_later(own, rows[-1].row.time, sliding.over.frame)
                needed.update(one.number for one in later)
        self._kept = [one for one in rows if one.number in needed]
        return results

    settle = end_batch
    end = end_batch


def _partition(rows: list[_Kept], index: int) -> dict[tuple[Any, ...], list[_Kept]]:
    """Return rows by the partition of the aggregate `index`."""
    partitions: dict[tuple[Any, ...], list[_Kept]] = {}
    for row in rows:
        partitions.setdefault(row.partitions[index], []).append(row)
    return partitions


def _window(own: list[_Kept], row: _Kept, frame: Frame) -> list[_Kept]:
    """Return the rows of a partition that are in a row's window."""
    if frame.range_ms is None:
        at = own.index(row)
        return own[max(at - (frame.rows or 0), 0) : at + 1]
    # A row as old as the window is long is out of it, as AWS's guide counts.
    first = row.row.time - timedelta(milliseconds=frame.range_ms)
    return [one for one in own if first < one.row.time <= row.row.time]


def _select_needed_later(own: list[_Kept], newest: datetime, frame: Frame) -> list[_Kept]:
    """Return the rows of a partition that may be in the window of a row that is still to come."""
    if frame.range_ms is None:
        return own[max(len(own) - (frame.rows or 0), 0) :]
    reach = timedelta(milliseconds=frame.range_ms)
    return [one for one in own if newest - one.row.time < reach]


_MICROSECOND = timedelta(microseconds=1)


class RunningMatches(RunningQuery):
    """A query whose rows wait until the watermark has passed them: then they are in order."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        super().__init__(query, dialect)
        assert query.match is not None
        self._match: MatchPlan = query.match
        self._by = [evaluator(one.expression) for one in self._match.partition]
        where = self._match.where
        self._filter = None if where is None else evaluator(where)
        self._columns = [evaluator(one.expression) for one in self._match.columns]
        self._measures = [(one.name, evaluator(one.expression)) for one in self._match.measures]
        self._matchers: dict[str, Matcher] = {}
        self._count = 0

    def take(self, side: int, row: Row) -> list[Row]:
        """Keep a row, unless it is late."""
        scope = super()._scope([row])
        if self._filter is not None and self._filter(scope) is not True:
            return []
        # Spark too filters first: a row that WHERE leaves out is not late.
        if row.time <= self._late_until:
            self.late += 1
            self.late_rows += [row] if self.query.late else []
            return []
        key = json.dumps([conversions.as_json(part(scope)) for part in self._by])
        matcher = self._matchers.get(key)
        if matcher is None:
            matcher = self._matchers[key] = Matcher(self._match.spec())
        self._count += 1
        values = [_carry_value(part(scope)) for part in self._columns]
        time = (row.time - conversions.EPOCH) // _MICROSECOND
        matcher.take(time, self._count, values)
        self._newest[0] = max(self._newest[0], row.time)
        return []

    def _watermark(self) -> datetime:
        return self._newest[0] - timedelta(milliseconds=self._match.grace_ms)

    def _close(self, until: datetime | None) -> list[Row]:
        """Return the rows of the matches that are certain at the watermark `until`; None ends all."""
        micros = None if until is None else (until - conversions.EPOCH) // _MICROSECOND
        found: list[tuple[int, int, dict[tuple[str, str], Any]]] = []
        for key, matcher in list(self._matchers.items()):
            due = matcher.next_time()
            if micros is not None and (due is None or due > micros):
                continue
            for first, last, measures in matcher.advance(micros):
                found.append((last[1], first[1], self._of_match(last[0], measures)))
            self.given_up += matcher.given_up
            matcher.given_up = 0
            if matcher.is_empty():
                del self._matchers[key]
        results: list[Row] = []
        for _, _, scope in sorted(found, key=lambda one: one[:2]):
            if self._where is None or self._where(scope) is True:
                time = conversions.EPOCH + scope["", ROWTIME] * _MICROSECOND
                for part in self._with_elements(scope):
                    results += self._result(part, self._key(scope), time)
        return results

    def _of_match(self, time: int, values: list[Any]) -> dict[tuple[str, str], Any]:
        """Return a match's columns."""
        of_navigations: dict[tuple[str, str], Any] = {
            ("", self._match.navigations[index].name): _restore_value(
                value, self._match.navigations[index].type.name
            )
            for index, value in zip(self._match.results, values, strict=True)
        }
        alias = self._match.relation.alias
        scope: dict[tuple[str, str], Any] = {("", ROWTIME): time}
        for name, measure in self._measures:
            scope[alias, name] = measure(of_navigations)
        at = conversions.EPOCH + time * _MICROSECOND
        scope[alias, ROWTIME] = at if self._times_are_timestamps else conversions.millis(at)
        return scope

    def _key(self, scope: dict[tuple[str, str], Any]) -> str:
        alias = self._match.relation.alias
        values = [scope[alias, one.name] for one in self._match.relation.relation.key_columns()]
        texts = [conversions.text(value) for value in values if value is not None]
        return "|".join(texts) if values else "all"


def _carry_value(value: Any) -> Any:
    """Return a row's value as the matcher has it in Spark too, where a DATE is text."""
    return (
        value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else value
    )


def _restore_value(value: Any, type_name: str) -> Any:
    return date.fromisoformat(value) if type_name == "DATE" and value is not None else value


class RunningTables(RunningQuery):
    """A query whose inputs are tables: after each micro-batch, what its result has that it did not have before."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        super().__init__(query, dialect)
        self._rows: list[dict[Any, Row]] = [{} for _ in query.inputs()]
        self._results: dict[str, Row] = {}
        self._is_changed = False

    def take(self, side: int, row: Row) -> list[Row]:
        """Keep a row as its key's latest one, or delete it; the changes come when the micro-batch ends."""
        relation = self.query.inputs()[side].relation
        key = tuple(comparable(row.columns.get(column.name)) for column in relation.key_columns())
        if None in key:
            return []
        self._is_changed = True
        # The latest row is the last one, also among those of other keys.
        self._rows[side].pop(key, None)
        if not row.deleted:
            self._rows[side][key] = row
        return []

    def end_batch(self) -> list[Row]:
        """Return the rows of the result that are new or other ones, and a tombstone for each that is gone."""
        if not self._is_changed:
            return []
        self._is_changed = False
        before, self._results = self._results, self._compute()
        changed = [
            row
            for key, row in self._results.items()
            if key not in before or before[key].columns != row.columns
        ]
        gone = [
            Row(self._keys_alone(row), key, row.time, deleted=True)
            for key, row in before.items()
            if key not in self._results
        ]
        return changed + gone

    settle = end_batch
    end = end_batch

    def _keys_alone(self, row: Row) -> dict[str, Any]:
        target = self.query.target
        keys = [] if target is None else [column.name for column in target.key_columns()]
        return {name: value if name in keys else None for name, value in row.columns.items()}

    def _compute(self) -> dict[str, Row]:
        """Return the whole result as it is now, by its rows' keys."""
        results: dict[str, Row] = {}
        self._groups.clear()
        for rows in self._combinations():
            first = next(row for row in rows if row is not None)
            for result in self._after_joins(
                self._scope(rows), Row({}, self._key_of(rows), first.time)
            ):
                results[result.key] = result
        for group in self._groups.values():
            for result in self._results_of(group):
                results[result.key] = result
        self._changed.clear()
        return results

    def _key_of(self, rows: list[Row | None]) -> str:
        """Return the result's key: the left row's, or the right one's where there is no left row."""
        side, row = next((i, row) for i, row in enumerate(rows) if row is not None)
        keys = self.query.inputs()[side].relation.key_columns()
        return "|".join(conversions.text(row.columns[key.name]) for key in keys)

    def _combinations(self) -> Iterator[list[Row | None]]:
        """Return the rows of the inputs that belong together."""
        combinations: list[list[Row | None]] = [[row] for row in self._rows[0].values()]
        for side, join in enumerate(self.query.joins, 1):
            left_key, right_key = self._sides[side - 1]
            nothing: list[Row | None] = [None] * side
            by_key: dict[Any, Row] = {}
            for row in self._rows[side].values():
                by_key[comparable(right_key(self._scope([*nothing, row])))] = row
            met: set[Any] = set()
            joined: list[list[Row | None]] = []
            for rows in combinations:
                key = comparable(left_key(self._scope(rows)))
                partner = None if key is None else by_key.get(key)
                if partner is not None:
                    met.add(key)
                if partner is not None or join.kind in ("LEFT", "FULL"):
                    joined.append([*rows, partner])
            if join.kind in ("RIGHT", "FULL"):
                joined += [[*nothing, row] for key, row in by_key.items() if key not in met]
            combinations = joined
        yield from combinations
