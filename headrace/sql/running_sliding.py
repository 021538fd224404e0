"""A query with aggregates over sliding windows, for the runner without Spark: a row for each row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.sql.expressions import Frame
from headrace.sql.plan import QueryPlan
from headrace.sql.records import Row
from headrace.sql.running_query import RunningQuery, aggregate_of, comparable
from headrace.sql.values import evaluator


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
                later = _needed_later(own, rows[-1].row.time, sliding.over.frame)
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


def _needed_later(own: list[_Kept], newest: datetime, frame: Frame) -> list[_Kept]:
    """Return the rows of a partition that may be in the window of a row that is still to come."""
    if frame.range_ms is None:
        return own[max(len(own) - (frame.rows or 0), 0) :]
    reach = timedelta(milliseconds=frame.range_ms)
    return [one for one in own if newest - one.row.time < reach]
