"""One query with its state, for the runner without Spark: groups, windows and joins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

from headrace.sql import conversions
from headrace.sql.conversions import millis
from headrace.sql.functions import function_of
from headrace.sql.join_chains import is_part
from headrace.sql.operators import moment
from headrace.sql.ordering import as_group, identity
from headrace.sql.plan import (
    ARRIVAL,
    KINESIS_ANALYTICS,
    ROW_OFFSET,
    ROW_PARTITION,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    JoinPlan,
    QueryPlan,
)
from headrace.sql.records import Row, shard_of
from headrace.sql.rewriting import rewrite
from headrace.sql.statements import Call, Column, Expression
from headrace.sql.values import Evaluator, evaluator

# Micro-batches without records after which nothing more closes.
SETTLED_AFTER = 3
_LONGEST = timedelta(days=365 * 1_000)


@dataclass
class Group:
    """A group's rows so far: the values of each aggregate's arguments, and the rows' numbers by arrival."""

    keys: dict[str, Any]
    start: datetime
    end: datetime
    rows: list[list[tuple[Any, ...]]] = field(default_factory=list[list[tuple[Any, ...]]])
    numbers: list[int] = field(default_factory=list[int])


class RunningQuery:
    """One query with its state."""

    def __init__(self, query: QueryPlan, dialect: str) -> None:
        self.query = query
        self.late = 0
        # Joins of one query whose rows the next one reads, and how long the rows before this one wait for others.
        self.chain: list[RunningQuery] = [self]
        self._reach_ms = 0
        # Late rows that wait to go to a stream of their own.
        self.late_rows: list[Row] = []
        # Matches that grew longer, or in more ways, than is kept.
        self.given_up = 0
        self._reads_numbers = query.reads_numbers()
        self._times_are_timestamps = dialect == KINESIS_ANALYTICS
        self._where = evaluator(query.where) if query.where is not None else None
        self._having = evaluator(query.having) if query.having is not None else None
        self._keys = [(key.name, evaluator(key.expression)) for key in query.keys]
        self._aggregates = [
            (one, [evaluator(part) for part in one.call.arguments]) for one in query.aggregates
        ]
        self._keeps_tombstones = query.corrects() and not query.is_of_tables()
        self._arrays, outputs = _table_functions(query)
        self._outputs = [
            (output.name, output.type, evaluator(expression)) for output, expression in outputs
        ]
        self._partition = [evaluator(part) for part in query.partition]
        self._groups: dict[tuple[Any, ...], Group] = {}
        self._changed: dict[tuple[Any, ...], Group] = {}
        self._taken = 0
        self._newest = [conversions.EPOCH, conversions.EPOCH]
        # Spark's two watermarks of a micro-batch: what is older is late, and what is older is over.
        self._late_until = self._over_until = conversions.EPOCH - _LONGEST
        # The first of these for each side of a join of streams.
        self._late_sides = [self._late_until, self._late_until]
        self._tables: list[dict[Any, Row]] = [{} for _ in query.joins]
        # A micro-batch's rows of a stream and of tables, which its end puts in order.
        self._beside: list[tuple[int, Row]] = []
        self._object: dict[Any, list[Row]] = {}
        self._waiting: tuple[list[_Waiting], list[_Waiting]] = ([], [])
        self._seen: set[str] = set()
        self._sides = [(evaluator(one.left_key), evaluator(one.right_key)) for one in query.joins]

    # Rows.

    def take(self, side: int, row: Row) -> list[Row]:
        """Take a row of the input number `side`; return the rows that come of it."""
        if self.query.joins:
            join = self.query.joins[0]
            if join.method == "stream-table":
                self._beside.append((side, row))
                return []
            if join.method == "object":
                return self._beside_object(side, row, join)
            return self._beside_stream(side, row, join)
        if row.deleted:
            return []
        return self._after_joins(self._scope([row]), row)

    def end_batch(self) -> list[Row]:
        """End a micro-batch as Spark does: changed groups show, and what it has read moves the next one's watermark."""
        rows = self._after_tables() + self._changes() + self._close(self._over_until)
        self._late_until, self._over_until = self._over_until, self._watermark()
        if self.query.late or self.query.corrects_sessions():
            # Late rows are sorted out before the state, by all that was read before their micro-batch.
            self._late_until = self._over_until
        self._late_sides = self._until_by_side()
        return rows

    def _until_by_side(self) -> list[datetime]:
        """Return of each side of a join the time until which its rows are late: by all rows before, or by its own."""
        until = [self._late_until, self._late_until]
        if self.query.late and self.query.joins:
            grace = timedelta(milliseconds=self.query.joins[0].grace_ms)
            until = [newest - grace for newest in self._newest]
        # The rows of a join before it have been sorted out; one of them may be as old as they wait for others.
        return [conversions.EPOCH - _LONGEST, until[1]] if self._follows() else until

    def _follows(self) -> bool:
        """Return whether its first input is what another part of the query has joined."""
        return is_part(self.query.source.relation)

    def settle(self) -> list[Row]:
        """End the micro-batches until nothing more closes."""
        return [row for _ in range(SETTLED_AFTER) for row in self.end_batch()]

    def end(self) -> list[Row]:
        """End all that is still open."""
        return self._after_tables() + self._changes() + self._close(None)

    def _changes(self) -> list[Row]:
        changed, self._changed = self._changed, {}
        return [row for group in changed.values() for row in self._results_of(group)]

    def _watermark(self) -> datetime:
        """Return the time behind which, for all that was read, no row is waited for."""
        if self.query.joins:
            # Spark's is one for all joins of a query; a join's rows come as late as its rows wait for each other.
            until = min(time for one in self.chain for time in one.times_waited_for())
            return until - timedelta(milliseconds=self._reach_ms)
        grace_ms = self.query.window.grace_ms if self.query.window else 0
        return self._newest[0] - timedelta(milliseconds=grace_ms)

    def times_waited_for(self) -> list[datetime]:
        """Return of each stream that it joins itself the newest time, less the grace."""
        grace = timedelta(milliseconds=self.query.joins[0].grace_ms)
        sides = self._newest[1:] if self._follows() else self._newest
        return [newest - grace for newest in sides]

    def follow(self, before: list[RunningQuery]) -> None:
        """Make it the next part of a chain of joins, `before` it in order."""
        self.chain = before
        before.append(self)
        joins = [one.query.joins[0] for one in before[:-1]]
        self._reach_ms = sum(max(one.before_ms, one.after_ms) for one in joins)

    def _close(self, until: datetime | None) -> list[Row]:
        """Return the rows of what is over at the watermark `until`; None ends all."""
        rows = self._give_up(until) if self.query.joins else []
        if self.query.emit != "FINAL":
            return rows
        over = [key for key, group in self._groups.items() if until is None or group.end <= until]
        for key in sorted(over, key=lambda one: self._groups[one].start):
            rows += self._results_of(self._pop(key))
        return rows

    def _pop(self, key: tuple[Any, ...]) -> Group:
        """Forget a group that is over, and return it."""
        return self._groups.pop(key)

    def _scope(self, rows: Sequence[Row | None]) -> dict[tuple[str, str], Any]:
        """Return the values of a row of each input by relation and column."""
        scope: dict[tuple[str, str], Any] = {}
        for source, row in zip(self.query.inputs(), rows, strict=False):
            for column in source.relation.columns:
                scope[source.alias, column.name] = (
                    None if row is None else row.columns.get(column.name)
                )
            time = None if row is None else row.time
            scope[source.alias, ROWTIME] = (
                time if self._times_are_timestamps or time is None else millis(time)
            )
            if self._times_are_timestamps:
                scope[source.alias, ARRIVAL] = None if row is None else row.arrival
            if self._reads_numbers:
                number = None if row is None else row.number
                scope[source.alias, ROW_OFFSET] = number
                scope[source.alias, ROW_PARTITION] = None if number is None else shard_of(number)
        return scope

    def _after_joins(self, scope: dict[tuple[str, str], Any], row: Row) -> list[Row]:
        if self._where is not None and self._where(scope) is not True:
            return []
        if self.query.is_aggregate:
            return self._into_groups(scope, row)
        return [
            result
            for part in self._with_elements(scope)
            for result in self._result(part, row.key, row.time, row.arrival)
        ]

    def _with_elements(self, scope: dict[tuple[str, str], Any]) -> list[dict[tuple[str, str], Any]]:
        if not self._arrays:
            return [scope]
        # Several arrays go on side by side; the shorter ones with NULL.
        items = zip_longest(*(array(scope) or () for array in self._arrays))
        return [{**scope, **dict(zip(_elements(len(row)), row, strict=True))} for row in items]

    def _result(
        self,
        scope: dict[tuple[str, str], Any],
        key: str,
        time: datetime,
        arrival: datetime | None = None,
    ) -> list[Row]:
        columns = {name: _output(evaluate(scope), type_) for name, type_, evaluate in self._outputs}
        if self.query.distinct:
            text = json.dumps(conversions.as_json(columns), sort_keys=True)
            if text in self._seen:
                return []
            self._seen.add(text)
        if self._partition:
            values = [part(scope) for part in self._partition]
            key = "|".join(conversions.text(value) for value in values if value is not None)
        return [Row(columns, key, time, arrival=arrival)]

    # Groups.

    def _into_groups(self, scope: dict[tuple[str, str], Any], row: Row) -> list[Row]:
        keys = {name: as_group(evaluate(scope)) for name, evaluate in self._keys}
        arguments = [tuple(part(scope) for part in parts) for _, parts in self._aggregates]
        windows = self._windows(row.time)
        if self.query.window is not None:
            in_time = [(start, end) for start, end in windows if end > self._late_until]
            self.late += len(windows) - len(in_time)
            if self.query.late and len(in_time) < len(windows):
                self.late_rows.append(row)
            windows = in_time
        self._taken += 1
        for start, end in windows:
            group = self._group(keys, start, end)
            group.numbers.append(self._taken)
            for kept, values_ in zip(group.rows, arguments, strict=False):
                kept.append(values_)
            if self.query.emit == "CHANGES":
                self._changed[(*frozen(keys), group.start)] = group
        if not self.query.joins:
            self._newest[0] = max(self._newest[0], row.time)
        return []

    def _windows(self, time: datetime) -> list[tuple[datetime, datetime]]:
        window = self.query.window
        if window is None:
            return [(conversions.EPOCH, conversions.EPOCH)]
        size, at = window.size_ms, millis(time)
        last = at // window.advance_ms * window.advance_ms
        starts = range(last, at - size, -window.advance_ms)
        return [(moment(start), moment(start + size)) for start in reversed(starts)]

    def _group(self, keys: dict[str, Any], start: datetime, end: datetime) -> Group:
        """Return the group of some keys and a window."""
        group = Group(keys, start, end, [[] for _ in self._aggregates])
        return self._groups.setdefault((*frozen(keys), start), group)

    def _key_of_group(self, group: Group) -> str:
        parts = [conversions.text(value) for value in group.keys.values() if value is not None]
        return "|".join(parts) if group.keys else "all"

    def _results_of(self, group: Group) -> list[Row]:
        scope: dict[tuple[str, str], Any] = {
            ("", name): value for name, value in group.keys.items()
        }
        for (aggregate, _), rows in zip(self._aggregates, group.rows, strict=False):
            scope["", aggregate.name] = aggregate_of(aggregate.call, rows)
        if self.query.window is not None:
            # A session of KSQL ends with its last row.
            last = group.end - timedelta(milliseconds=self.query.gap_ms())
            end = group.end if self._times_are_timestamps else last
            for name, bound in ((WINDOW_START, group.start), (WINDOW_END, end)):
                scope["", name] = bound if self._times_are_timestamps else millis(bound)
        is_left_out = self._having is not None and self._having(scope) is not True
        if is_left_out and not self._keeps_tombstones:
            return []
        key = self._key_of_group(group)
        time = (
            group.end - timedelta(milliseconds=1)
            if self.query.window is not None
            else conversions.EPOCH
        )
        results = [
            one for part in self._with_elements(scope) for one in self._result(part, key, time)
        ]
        if self.query.window is not None and not self._times_are_timestamps:
            for result in results:
                present = {name.upper() for name in result.columns}
                bounds = {WINDOW_START: millis(group.start), WINDOW_END: scope["", WINDOW_END]}
                result.columns.update(
                    {name: value for name, value in bounds.items() if name not in present}
                )
        # A group that HAVING leaves out may have been shown before.
        return [replace(result, deleted=True) for result in results] if is_left_out else results

    # Joins.

    def _after_tables(self) -> list[Row]:
        """Join a micro-batch's rows with the tables: by time, a table's first where they share it, then by number."""
        beside, self._beside = self._beside, []
        is_by_time = any(join.right.relation.timestamp for join in self.query.joins)

        def location(one: tuple[int, Row]) -> tuple[datetime, bool, datetime, str]:
            side, row = one
            arrival = row.arrival or row.time
            return (row.time if is_by_time else arrival, not side, arrival, row.number.zfill(60))

        return [
            result for side, row in sorted(beside, key=location) for result in self._take(side, row)
        ]

    def _take(self, side: int, row: Row) -> list[Row]:
        if side:
            join, table = self.query.joins[side - 1], self._tables[side - 1]
            key = self._sides[side - 1][1](self._scope([*[None] * side, row]))
            if row.deleted:
                table.pop(comparable(key), None)
            elif key is not None:
                table[comparable(key)] = row
            return []
        rows: list[Row | None] = [row]
        for join, table, (left_key, _) in zip(
            self.query.joins, self._tables, self._sides, strict=True
        ):
            key = left_key(self._scope(rows))
            partner = None if key is None else table.get(comparable(key))
            if partner is None and join.kind == "INNER":
                return []
            rows.append(partner)
        return self._after_joins(self._scope(rows), row)

    def _beside_object(self, side: int, row: Row, join: JoinPlan) -> list[Row]:
        """Join a row with every row of a reference table that has its key."""
        key = self._sides[0][side](self._scope([*[None] * side, row]))
        if side == 1:
            self._object.setdefault(comparable(key), []).append(row)
            return []
        partners = [] if key is None else self._object.get(comparable(key), [])
        pairs = partners or ([None] if join.kind == "LEFT" else [])
        return [one for pair in pairs for one in self._after_joins(self._scope([row, pair]), row)]

    def _beside_stream(self, side: int, row: Row, join: JoinPlan) -> list[Row]:
        waiting = _Waiting(row, self._sides[0][side](self._scope([*[None] * side, row])))
        results: list[Row] = []
        if row.time <= self._late_sides[side]:
            self.late += 1
            if self.query.late:
                columns = {**row.columns, "_relation": self.query.inputs()[side].alias}
                self.late_rows.append(replace(row, columns=columns))
        else:
            for other in self._waiting[1 - side]:
                left, right = (other, waiting) if side else (waiting, other)
                if _meet(left, right, join):
                    left.met = right.met = True
                    # It comes with the later one of the two.
                    arrivals = [one.row.arrival for one in (left, right) if one.row.arrival]
                    pair = replace(left.row, arrival=max(arrivals, default=None))
                    results += self._after_joins(self._scope([left.row, right.row]), pair)
            self._waiting[side].append(waiting)
        self._newest[side] = max(self._newest[side], row.time)
        return results

    def _give_up(self, until: datetime | None) -> list[Row]:
        """Return outer joins' rows that no other row can meet any more, at the watermark `until`."""
        join = self.query.joins[0]
        if join.method != "streams":
            return []
        results: list[Row] = []
        for side, reach_ms in ((0, join.after_ms), (1, join.before_ms)):
            keeps = join.kind == "FULL" or join.kind == ("RIGHT" if side else "LEFT")
            rest: list[_Waiting] = []
            for one in self._waiting[side]:
                if until is not None and one.row.time + timedelta(milliseconds=reach_ms) >= until:
                    rest.append(one)
                elif keeps and not one.met:
                    pair = [None, one.row] if side else [one.row, None]
                    results += self._after_joins(self._scope(pair), one.row)
            self._waiting[side][:] = rest
        return results


@dataclass
class _Waiting:
    """A row of a join of streams that may still meet another one."""

    row: Row
    key: Any
    met: bool = False


def _meet(left: _Waiting, right: _Waiting, join: JoinPlan) -> bool:
    if left.key is None or right.key is None or comparable(left.key) != comparable(right.key):
        return False
    distance = right.row.time - left.row.time
    return (
        timedelta(milliseconds=-join.before_ms) <= distance <= timedelta(milliseconds=join.after_ms)
    )


def frozen(keys: dict[str, Any]) -> tuple[str, ...]:
    """Return what stands for a group's keys in a dictionary."""
    return tuple(json.dumps(conversions.as_json(value), sort_keys=True) for value in keys.values())


def comparable(value: Any) -> Any:
    """Return what stands for a value as a key."""
    return (
        json.dumps(conversions.as_json(value), sort_keys=True)
        if isinstance(value, (list, dict))
        else value
        if value == value
        else identity(value)
    )


def aggregate_of(call: Call, rows: list[tuple[Any, ...]]) -> Any:
    """Return an aggregate of the arguments of a group's rows; None for what cannot be computed."""
    if call.star:
        return len(rows)
    first = [row[0] for row in rows]
    rest = rows[-1][1:] if rows else ()
    function = function_of(call)
    try:
        if function.takes_rows:
            return function.python(rows)
        return function.python(first, *rest)
    except (ArithmeticError, TypeError, ValueError):
        return None


def _output(value: Any, type_: Any) -> Any:
    """Return an output as its type: numbers wrap around and decimals have their digits, as in Spark."""
    if isinstance(value, int) and not isinstance(value, bool):
        if type_.is_integer:
            bound = 2**31 if type_.name == "INT" else 2**63
            return (value + bound) % (2 * bound) - bound
        if type_.name == "DOUBLE":
            return float(value)
    if value is not None and type_.name == "DECIMAL":
        return conversions.decimal(value, type_)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _elements(count: int) -> list[tuple[str, str]]:
    """Return the names by which outputs read the elements of table functions' arrays."""
    return [("", f"_element_{number}") for number in range(count)]


def _table_functions(query: QueryPlan) -> tuple[list[Evaluator], list[tuple[Any, Expression]]]:
    """Return what computes each table function's array, and the outputs that read their elements."""
    arrays: list[Evaluator] = []

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Call) or function_of(part).kind != "table":
            return None
        arrays.append(_array_of(part))
        return Column(f"_element_{len(arrays) - 1}")

    outputs = [(output, rewrite(output.expression, change)) for output in query.outputs]
    return arrays, outputs


def _array_of(call: Call) -> Evaluator:
    array, function = evaluator(call.arguments[0]), function_of(call)

    def elements(row: Any) -> Any:
        value = array(row)
        return None if value is None else function.python(value)

    return elements
