"""Finds a row pattern's matches: the one matcher of MATCH_RECOGNIZE, for the runner without Spark and for the job.

A job has the text after the mark as its own, below those of `operators.py` and `patterns.py`, so that it runs in Python
3.9.

A pattern is nested tuples: ("row", variable), ("seq", pattern, ..), ("alt", pattern, ..) with the preferred one first,
and ("repeat", pattern, least, most, is_greedy), whose most is -1 for any number. A condition is nested tuples too:
("nav", index), ("const", value) and operators. A navigation is (kind, variable, column, offset): a value of the rows
that are matched so far, of the variable '' of all of them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# A row's values are of any type.
from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.sql.operators import EPOCH, less
from headrace.sql.patterns import condition_of, program_of

# --- of the job too ---
# A match has at most so many rows, and a search goes on in at most so many ways at once: these bound time and memory.
MOST_MATCH_ROWS = 10_000
MOST_WAYS = 1_000
# So many rows may stand in all ways of a search together.
MOST_ROWS_OF_WAYS = 200_000
# So many failed ways are remembered, so that no later search tries them again.
_MOST_REMEMBERED = 200_000


def wrapped(number: Any) -> Any:
    """Return a sum of whole numbers as a BIGINT, which wraps around."""
    if isinstance(number, int) and not isinstance(number, bool):
        return (number + 2**63) % 2**64 - 2**63
    return number


def _add_value(kind: str, total: Any, value: Any) -> Any:
    """Return an aggregate's running total with one value more; None is the total of no values."""
    if kind == "count":
        return (total or 0) + (value is not None)
    if value is None:
        return total
    if kind == "avg":
        return (float(value), 1) if total is None else (total[0] + float(value), total[1] + 1)
    if total is None:
        return value
    if kind == "sum":
        return total + value
    is_less = less(value, total)
    return value if is_less == (kind == "min") else total


def _result(kind: str, total: Any) -> Any:
    if kind == "count":
        return total or 0
    if kind == "avg":
        return None if total is None else total[0] / total[1]
    return wrapped(total) if kind == "sum" else total


_AGGREGATES = ("count", "sum", "avg", "min", "max")


class _Search:
    """The ways in which a match that begins with the row `start` may go on, the preferred one first."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        # Of each way: the step of the pattern, the rows so far (from the last back), and what conditions need of them.
        self.ways: list[Any] = []
        self.best: Any = None
        self.tried: list[Any] = []
        self.count = 0
        # Whether it ended because no row fitted, so that what it tried fits from no other start.
        self.is_whole = True
        self.is_too_long = False


class Matcher:
    """The rows of one partition, and the matches that they make. For one thread.

    Rows come in any order; `advance` takes those up to a time, in the order of time and then `order`, and what it has
    taken is never late. Of each start the match that the pattern prefers counts; the earliest start comes first.

    Args:
        spec: pattern; conditions by variable; navigations; measures, the navigations that a match returns;
            is_past_last, whether the next match begins after the last one's end; within, in microseconds, or 0;
            history, how many rows before a match its navigations may look at.
    """

    def __init__(self, spec: dict[Any, Any]) -> None:
        self.given_up = 0
        self._spec = spec
        self._program = program_of(spec["pattern"])
        self._conditions = {
            name: condition_of(condition) for name, condition in spec["conditions"].items()
        }
        # The navigations whose value depends on which rows were matched to what, and each one's place in a summary.
        needed = sorted(_navigations_in(tuple(spec["conditions"].values())))
        self._tracked = [index for index in needed if _is_tracked(spec["navigations"][index])]
        self._slots = {index: slot for slot, index in enumerate(self._tracked)}
        self._rows: list[Any] = []
        # The number of the first row that is kept, and of that with which the next match may begin.
        self._base = 0
        self._start = 0
        self._pending: list[Any] = []
        self._matches = 0
        self._search: Any = None
        self._failed: dict[Any, Any] = {}
        self._failures = 0

    def take(self, time: int, order: Any, values: list[Any], text: str = "") -> None:
        """Keep a row until its time has come; `time` in microseconds, `text` for `state`."""
        self._pending.append((time, order, values, text))

    def advance(self, until: Any) -> list[Any]:
        """Return the matches that are certain when no more rows up to `until` come; None: no more rows at all.

        A match is its first row, its last row and its measures.
        """
        self._pending.sort(key=lambda row: (row[0], row[1]))
        count = 0
        while count < len(self._pending) and (until is None or self._pending[count][0] <= until):
            count += 1
        self._rows += self._pending[:count]
        del self._pending[:count]
        results: list[Any] = []
        while self._start < self._base + len(self._rows):
            search = self._search or self._begin()
            self._search = search
            self._go_on(search, until)
            if search.ways:
                break
            self._finish(search, results)
        return results

    def next_time(self) -> Any:
        """Return the earliest time, in microseconds, by which something is decided without a new row; None: none."""
        times = [row[0] for row in self._pending]
        if self._search is not None and self._spec["within"]:
            times.append(self._row(self._search.start)[0] + self._spec["within"])
        return min(times, default=None)

    def is_empty(self) -> bool:
        """Return whether nothing is kept that a later match needs."""
        is_numbered = any(one[0] == "number" for one in self._spec["navigations"])
        return not self._rows and not self._pending and not (is_numbered and self._matches)

    def state(self) -> dict[Any, Any]:
        """Return what `restore` takes, as JSON has it."""
        rows = [[time, order, text] for time, order, _, text in self._rows]
        pending = [[time, order, text] for time, order, _, text in self._pending]
        start = self._start - self._base
        state: dict[Any, Any] = {
            "rows": rows, "pending": pending, "start": start, "matches": self._matches,
        }  # fmt: skip
        if self._search is not None:
            state["search"] = self._state_of(self._search)
        return state

    def restore(self, state: dict[Any, Any], decode: Callable[[str], list[Any]]) -> None:
        """Take over a state; `decode` makes a row's values of its text."""
        self._rows = [(time, order, decode(text), text) for time, order, text in state["rows"]]
        self._pending = [
            (time, order, decode(text), text) for time, order, text in state["pending"]
        ]
        self._start, self._matches = state["start"], state["matches"]
        if "search" in state:
            self._search = self._search_of(state["search"])

    def _state_of(self, search: _Search) -> dict[Any, Any]:
        """Return a search that waits for rows, so that it goes on where it stands; its ways share most rows."""
        places: dict[int, int] = {}
        nodes: list[Any] = []

        def place_of(path: Any) -> int:
            later = []
            while path is not None and id(path) not in places:
                later.append(path)
                path = path[2]
            for one in reversed(later):
                before = -1 if one[2] is None else places[id(one[2])]
                places[id(one)] = len(nodes)
                nodes.append([one[0], one[1] - self._base, before])
            return places[id(later[0] if later else path)] if later or path is not None else -1

        ways = [
            [step, place_of(path), self._summary(summary, -self._base, _tag_total)]
            for step, path, summary in search.ways
        ]
        return {
            "next": search.next - self._base, "ways": ways, "best": place_of(search.best), "nodes": nodes,
            "count": search.count, "is_whole": search.is_whole,
        }  # fmt: skip

    def _search_of(self, state: dict[Any, Any]) -> _Search:
        search = _Search(self._start)
        paths: list[Any] = []
        for variable, number, before in state["nodes"]:
            paths.append((variable, number, None if before < 0 else paths[before]))
        search.next, search.count = state["next"], state["count"]
        search.is_whole = state["is_whole"]
        search.best = None if state["best"] < 0 else paths[state["best"]]
        search.ways = [
            (step, None if index < 0 else paths[index], self._summary(summary, 0, _untag_total))
            for step, index, summary in state["ways"]
        ]
        return search

    def _summary(self, summary: Any, shift: int, change: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return a summary with its rows' numbers shifted and its totals changed."""
        kinds = [self._spec["navigations"][index][0] for index in self._tracked]
        return tuple(
            change(one) if kind in _AGGREGATES else tuple(number + shift for number in one)
            for kind, one in zip(kinds, summary)
        )

    def _row(self, number: int) -> Any:
        return self._rows[number - self._base]

    def _begin(self) -> _Search:
        search = _Search(self._start)
        summary = tuple(_nothing(self._spec["navigations"][index][0]) for index in self._tracked)
        self._reach(search, self._start - 1, 0, None, summary, search.ways, set())
        return search

    def _go_on(self, search: _Search, until: Any) -> None:
        """Give the search every row that is there; it has no ways left when it is decided."""
        first, within = self._row(search.start)[0], self._spec["within"]
        end = self._base + len(self._rows)
        while search.ways and search.next < end:
            if within and self._row(search.next)[0] - first > within:
                break
            if search.next - search.start >= MOST_MATCH_ROWS or search.count > MOST_ROWS_OF_WAYS:
                self.given_up += 1
                search.is_too_long = True
                break
            self._step(search)
        is_over = until is None or (within and until - first >= within)
        if search.ways and (search.next < end or is_over):
            # Where no row comes any more, what waits for one fits from no start.
            search.is_whole = search.is_whole and until is None and search.next == end
            search.ways = []

    def _step(self, search: _Search) -> None:
        """Give the search its next row."""
        number = search.next
        ways: list[Any] = []
        seen: set[Any] = set()
        known: dict[Any, Any] = {}
        for step, path, summary in search.ways:
            variable = self._program[step][1]
            key = (variable, summary)
            if key not in known:
                after = self._with_row(variable, number, summary)
                known[key] = after if self._holds(variable, number, after) else None
            after = known[key]
            if after is not None and self._reach(
                search, number, step + 1, (variable, number, path), after, ways, seen
            ):
                break
        if len(ways) > MOST_WAYS:
            del ways[MOST_WAYS:]
            self.given_up += search.is_whole
            search.is_whole = False
        search.count += len(ways)
        if search.count <= _MOST_REMEMBERED:
            search.tried.append((number, [(step, summary) for step, _, summary in ways]))
        search.ways = ways
        search.next += 1

    def _holds(self, variable: str, number: int, summary: tuple[Any, ...]) -> bool:
        condition = self._conditions.get(variable)
        if condition is None:
            return True
        return condition(lambda index: self._value(index, number, summary)) is True

    def _reach(
        self,
        search: _Search,
        number: int,
        step: int,
        path: Any,
        summary: tuple[Any, ...],
        ways: list[Any],
        seen: set[Any],
    ) -> bool:
        """Add the ways that go on from `step` after the row `number`; return whether a match ends with it."""
        failed = self._failed.get(number, ())
        waiting = [step]
        while waiting:
            step = waiting.pop()
            key = (step, summary)
            if key in seen:
                continue
            seen.add(key)
            part = self._program[step]
            if part[0] == "match":
                search.best = path
                return True
            if part[0] == "row":
                if key not in failed:
                    ways.append((step, path, summary))
            else:
                waiting += reversed(part[1:])
        return False

    def _finish(self, search: _Search, results: list[Any]) -> None:
        """Add the match of a search that is decided, and go on to the next start."""
        start = search.start + 1
        if search.best is not None:
            self._matches += 1
            result = self._match(search)
            results.append(result)
            if self._spec["is_past_last"]:
                start = search.best[1] + 1
        elif search.is_too_long:
            # What is longer than a match can be is given up whole: else each later row would search it again.
            start = search.next
        elif search.is_whole and search.count <= _MOST_REMEMBERED:
            for number, ways in search.tried:
                self._failed.setdefault(number, set()).update(ways)
                self._failures += len(ways)
        self._search = None
        for number in range(self._start - 1, start - 1):
            self._failures -= len(self._failed.pop(number, ()))
        if self._failures > _MOST_REMEMBERED:
            self._failed, self._failures = {}, 0
        self._start = start
        unneeded = max(start - self._spec["history"] - self._base, 0)
        del self._rows[:unneeded]
        self._base += unneeded

    def _with_row(self, variable: str, number: int, summary: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a summary with a row more."""
        if not summary:
            return summary
        result = list(summary)
        for slot, index in enumerate(self._tracked):
            kind, of, column, offset = self._spec["navigations"][index]
            if of and of != variable:
                continue
            before = result[slot]
            if kind == "first":
                result[slot] = before if len(before) > offset else (*before, number)
            elif kind in ("last", "prev"):
                result[slot] = (*before, number)[-1 - (offset if kind == "last" else 0) :]
            else:
                value = 1 if column < 0 else self._row(number)[2][column]
                result[slot] = _add_value(kind, before, value)
        return tuple(result)

    def _value(self, index: int, number: int, summary: tuple[Any, ...]) -> Any:
        """Return a navigation's value while the row `number` is looked at."""
        kind, _, column, offset = self._spec["navigations"][index]
        if index not in self._slots:
            return self._at(number - (offset if kind == "prev" else 0), column)
        total = summary[self._slots[index]]
        if kind in _AGGREGATES:
            return _result(kind, total)
        return self._of(kind, total, column, offset)

    def _of(self, kind: str, numbers: Any, column: int, offset: int) -> Any:
        """Return a column of one of a variable's rows, whose numbers are in order."""
        if kind == "prev":
            return self._at(numbers[-1] - offset, column) if numbers else None
        if len(numbers) <= offset:
            return None
        return self._at(numbers[offset] if kind == "first" else numbers[-1 - offset], column)

    def _at(self, number: int, column: int) -> Any:
        return None if number < self._base else self._row(number)[2][column]

    def _match(self, search: _Search) -> tuple[Any, ...]:
        """Return a match's first row, last row and measures."""
        numbers: dict[Any, Any] = {"": []}
        path = search.best
        last_variable, last = path[0], path[1]
        while path is not None:
            numbers[""].append(path[1])
            numbers.setdefault(path[0], []).append(path[1])
            path = path[2]
        for of in numbers.values():
            of.reverse()
        values: list[Any] = []
        for index in self._spec["measures"]:
            kind, variable, column, offset = self._spec["navigations"][index]
            of = numbers.get(variable, [])
            if kind == "number":
                values.append(self._matches)
            elif kind == "classifier":
                values.append(last_variable)
            elif kind == "list":
                values.append([self._at(number, column) for number in of])
            elif kind in _AGGREGATES:
                total = None
                for number in of:
                    total = _add_value(kind, total, 1 if column < 0 else self._at(number, column))
                values.append(_result(kind, total))
            else:
                values.append(self._of(kind, of, column, offset))
        return self._row(search.start), self._row(last), values


def _navigations_in(condition: tuple[Any, ...]) -> set[Any]:
    """Return the indexes of the navigations in a condition."""
    if condition[:1] == ("nav",):
        return {condition[1]}
    if condition[:1] == ("const",):
        return set()
    return {
        index for part in condition if isinstance(part, tuple) for index in _navigations_in(part)
    }


def _is_tracked(navigation: tuple[Any, ...]) -> bool:
    """Return whether a navigation of a condition depends on more than the row that is looked at."""
    kind, variable, _, offset = navigation
    if kind == "prev":
        return variable != ""
    return not (kind == "last" and variable == "" and offset == 0)


def _nothing(kind: str) -> Any:
    return None if kind in _AGGREGATES else ()


def _tag_total(total: Any) -> Any:
    """Return a running total as JSON has it, so that `_untag_total` gives it back with its type."""
    if isinstance(total, tuple):
        return {"avg": [_tag_total(total[0]), total[1]]}
    if isinstance(total, (datetime, Decimal)):
        return {type(total).__name__: encoded(total)}
    if isinstance(total, float) and not math.isfinite(total):
        return {"float": encoded(total)}
    return total


def _untag_total(total: Any) -> Any:
    if not isinstance(total, dict):
        return total
    ((kind, value),) = total.items()
    if kind == "avg":
        return _untag_total(value[0]), value[1]
    if kind == "datetime":
        return EPOCH + timedelta(microseconds=value)
    return Decimal(value) if kind == "Decimal" else float(value)


def decoded(kinds: list[Any], values: dict[Any, Any]) -> list[Any]:
    """Return a row's values of JSON as Python's: of its columns' kinds: time (microseconds), decimal, double, ''."""
    result = []
    for index, kind in enumerate(kinds):
        value = values[f"c{index}"]
        if value is not None and kind == "time":
            value = EPOCH + timedelta(microseconds=value)
        elif value is not None and kind:
            value = Decimal(value) if kind == "decimal" else float(value)
        result.append(value)
    return result


def encoded(value: Any) -> Any:
    """Return a measure as JSON has it."""
    if isinstance(value, list):
        return [encoded(one) for one in value]
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
