"""A query with aggregates over sliding windows, for the runner without Spark: a row for each row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace.sql.plan import QueryPlan, Sliding
from headrace.sql.records import Row
from headrace.sql.running_query import RunningQuery, aggregate_of, comparable
from headrace.sql.values import evaluator


@dataclass
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
        results: list[Row] = []
        for one in new:
            scope = dict(one.scope)
            for index, sliding in enumerate(self.query.sliding):
                window = self._window(rows, one, index, sliding)
                values = [other.arguments[index] for other in window]
                scope["", sliding.name] = aggregate_of(sliding.over.call, values)
            results += self._result(scope, one.row.key, one.row.time)
        self._kept = [one for one in rows if self._is_needed(rows, one)]
        return results

    settle = end_batch
    end = end_batch

    def _window(self, rows: list[_Kept], row: _Kept, index: int, sliding: Sliding) -> list[_Kept]:
        own = [one for one in rows if one.partitions[index] == row.partitions[index]]
        frame = sliding.over.frame
        if frame.range_ms is None:
            place = own.index(row)
            return own[max(place - (frame.rows or 0), 0) : place + 1]
        # A row as old as the window is long is out of it, as AWS's guide counts.
        first = row.row.time - timedelta(milliseconds=frame.range_ms)
        return [one for one in own if first < one.row.time <= row.row.time]

    def _is_needed(self, rows: list[_Kept], row: _Kept) -> bool:
        for index, sliding in enumerate(self.query.sliding):
            frame = sliding.over.frame
            if frame.range_ms is not None:
                if rows[-1].row.time - row.row.time < timedelta(milliseconds=frame.range_ms):
                    return True
            else:
                own = [one for one in rows if one.partitions[index] == row.partitions[index]]
                if len(own) - own.index(row) <= (frame.rows or 0):
                    return True
        return False
