"""A query of tables alone, for the runner without Spark: the changes of its result, with tombstones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.sql import conversions
from headrace.sql.plan import QueryPlan
from headrace.sql.records import Row
from headrace.sql.running_query import RunningQuery, comparable


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
