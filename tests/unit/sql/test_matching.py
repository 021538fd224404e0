"""The matcher of row patterns: equal to a search that tries everything, however rows are cut, and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.sql import matching, patterns
from headrace.sql.matching import Matcher

# Navigations that the conditions of the tests read; column 0 is a small number, column 1 a row's number.
NAVIGATIONS = [
    ("last", "", 0, 0), ("prev", "", 0, 1), ("first", "A", 0, 0), ("last", "A", 0, 1), ("sum", "B", 0, 0),
    ("count", "", -1, 0), ("prev", "A", 0, 2), ("min", "A", 0, 0), ("last", "", 1, 0), ("list", "A", 1, 0),
    ("list", "B", 1, 0), ("first", "", 1, 0), ("number", "", -1, 0), ("classifier", "", -1, 0), ("avg", "A", 0, 0),
    ("last", "C", 1, 0),
]  # fmt: skip
CONDITIONS = [
    ("=", ("nav", 0), ("const", 1)), (">", ("nav", 0), ("nav", 1)), ("<=", ("nav", 0), ("nav", 2)),
    ("IS NULL", ("nav", 3)), ("<", ("nav", 4), ("const", 5)), ("<", ("nav", 5), ("const", 4)),
    ("OR", ("=", ("nav", 6), ("const", 2)), ("<>", ("nav", 0), ("const", 0))), (">=", ("nav", 0), ("nav", 7)),
]  # fmt: skip
PATTERNS = st.recursive(
    st.sampled_from("ABC").map(lambda name: ("row", name)),
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=3).map(lambda parts: ("seq", *parts)),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: ("alt", *parts)),
        st.tuples(part, st.integers(0, 2), st.sampled_from([-1, 2, 3]), st.booleans()).map(
            lambda parts: ("repeat", *parts)
        ),
    ),
    max_leaves=6,
)


def spec_of(pattern: Any, conditions: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "pattern": pattern,
        "conditions": conditions,
        "navigations": NAVIGATIONS,
        "measures": list(range(8, len(NAVIGATIONS))),
        "is_past_last": True,
        "within": 0,
        "history": 2,
        **others,
    }


def matches_by_trying(  # noqa: C901 - a whole matcher
    spec: dict[str, Any], rows: list[tuple[int, int]]
) -> list[Any]:
    """Return the matches, each as its first row, last row and variables: every way is tried, in order of preference."""

    def value(index: int, number: int, path: list[tuple[str, int]]) -> Any:
        kind, variable, _, offset = spec["navigations"][index]
        numbers = [n for v, n in path if variable in ("", v)]
        if kind in ("sum", "count", "min"):
            values = [rows[n][1] for n in numbers]
            return (
                len(values)
                if kind == "count"
                else {"sum": sum, "min": min}[kind](values)
                if values
                else None
            )
        if kind == "prev":
            base = number if variable == "" else numbers[-1] if numbers else -1
            return rows[base - offset][1] if base - offset >= 0 and base >= 0 else None
        if len(numbers) <= offset:
            return None
        return rows[numbers[offset] if kind == "first" else numbers[-1 - offset]][1]

    def ways(part: Any, path: list[tuple[str, int]], at: int) -> Iterator[list[tuple[str, int]]]:
        kind = part[0]
        if kind == "row":
            if at >= len(rows) or (
                spec["within"] and path and rows[at][0] - rows[path[0][1]][0] > spec["within"]
            ):
                return
            longer = [*path, (part[1], at)]
            condition = spec["conditions"].get(part[1])
            if (
                condition is None
                or patterns.condition_of(condition)(lambda index: value(index, at, longer)) is True
            ):
                yield longer
        elif kind == "seq":
            yield from in_turn(part[1:], path, at)
        elif kind == "alt":
            for one in part[1:]:
                yield from ways(one, path, at)
        else:
            yield from repeated(part, path, at, 0)

    def in_turn(parts: Any, path: Any, at: int) -> Iterator[Any]:
        if not parts:
            yield path
            return
        for way in ways(parts[0], path, at):
            yield from in_turn(parts[1:], way, at + len(way) - len(path))

    def repeated(part: Any, path: Any, at: int, count: int) -> Iterator[Any]:
        _, body, least, most, is_greedy = part

        def once_more() -> Iterator[Any]:
            if most < 0 or count < most:
                for way in ways(body, path, at):
                    # One more time that takes no row is none.
                    if len(way) > len(path) or count < least:
                        yield from repeated(part, way, at + len(way) - len(path), count + 1)

        if count < least:
            yield from once_more()
        elif is_greedy:
            yield from once_more()
            yield path
        else:
            yield path
            yield from once_more()

    results: list[Any] = []
    start = 0
    while start < len(rows):
        path = next((way for way in ways(spec["pattern"], [], start) if way), None)
        if path is not None:
            results.append((start, path[-1][1], "".join(v for v, _ in path)))
        start = path[-1][1] + 1 if path is not None and spec["is_past_last"] else start + 1
    return results


def is_empty(pattern: Any) -> bool:
    if pattern[0] == "row":
        return False
    if pattern[0] == "seq":
        return all(is_empty(one) for one in pattern[1:])
    if pattern[0] == "alt":
        return any(is_empty(one) for one in pattern[1:])
    return pattern[2] == 0 or is_empty(pattern[1])


def word_of(match: Any) -> str:
    """Return a match's variables by row, as far as the lists of A and B and the last C say."""
    first, last, values = match
    of = dict.fromkeys(values[1], "A") | dict.fromkeys(values[2], "B")
    return "".join(of.get(number, "C") for number in range(first[1], last[1] + 1))


@settings(max_examples=150, deadline=None)
@example(
    ("repeat", ("alt", ("row", "A"), ("repeat", ("row", "B"), 0, -1, False)), 1, -1, True),
    {"A": CONDITIONS[0]},
    [1, 0, 1],
    0,
    True,
    [2],
)
@example(
    ("seq", ("repeat", ("row", "A"), 1, -1, True), ("row", "B")),
    {"A": CONDITIONS[7], "B": CONDITIONS[3]},
    [0, 1, 2, 1],
    2,
    False,
    [],
)
@given(
    PATTERNS,
    st.dictionaries(st.sampled_from("ABC"), st.sampled_from(CONDITIONS)),
    st.lists(st.integers(0, 3), max_size=9),
    st.sampled_from([0, 2, 4]),
    st.booleans(),
    st.lists(st.integers(0, 12), max_size=3),
)
def test_the_matches_are_those_of_trying_everything(
    pattern: Any,
    conditions: Any,
    numbers: list[int],
    within: int,
    is_past_last: bool,
    cuts: list[int],
) -> None:
    """Also if rows come in several parts, and the state goes through JSON between them."""
    if is_empty(pattern):
        return
    spec = spec_of(pattern, conditions, within=within, is_past_last=is_past_last)
    rows = list(enumerate(numbers))
    expected = matches_by_trying(spec, rows)
    matcher, results, taken = Matcher(spec), [], 0
    for cut in [*sorted(cuts), None]:
        until = len(rows) if cut is None else cut
        # Rows of one part in another order: time counts.
        for time, number in reversed(rows[taken : until + 1]):
            matcher.take(time, time, [number, time], json.dumps([number, time]))
        taken = max(taken, min(until + 1, len(rows)))
        results += matcher.advance(cut)
        state = json.loads(json.dumps(matcher.state()))
        matcher = Matcher(spec)
        matcher.restore(state, json.loads)
    assert [
        (first[1], last[1], word_of((first, last, values))) for first, last, values in results
    ] == expected
    assert [values[4] for _, _, values in results] == list(range(1, len(results) + 1))


def test_no_pattern_takes_more_time_than_its_rows_by_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(A|A)*(A|A)* B of rows that are all A would be tried in 2^2000 ways, and from each start again."""
    either = ("repeat", ("alt", ("row", "A"), ("row", "C")), 0, -1, True)
    spec = spec_of(
        ("seq", either, either, ("row", "B")), {"B": ("=", ("nav", 0), ("const", 9))}, history=0
    )
    steps = 0
    step = Matcher._step

    def counted(matcher: Matcher, search: Any) -> None:
        nonlocal steps
        steps += len(search.ways)
        step(matcher, search)

    monkeypatch.setattr(Matcher, "_step", counted)
    matcher = Matcher(spec)
    for number in range(2000):
        matcher.take(number, number, [0, number])
    assert matcher.advance(None) == []
    assert steps < 2000 * 20


def test_a_restored_matcher_goes_on_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each micro-batch restores the matcher: a match without WITHIN would else be searched again from its first row."""
    monkeypatch.setattr(matching, "MOST_WAYS", 3)
    either = ("repeat", ("alt", ("row", "A"), ("row", "B")), 1, -1, True)
    spec = spec_of(
        ("seq", either, ("row", "C")), {"C": ("=", ("nav", 4), ("const", -1))}, history=0
    )
    rows = 0
    step = Matcher._step

    def counted(matcher: Matcher, search: Any) -> None:
        nonlocal rows
        rows += 1
        step(matcher, search)

    monkeypatch.setattr(Matcher, "_step", counted)
    matcher, given_up = Matcher(spec), 0
    for number in range(100):
        matcher.take(number, number, [2**number, number], json.dumps([2**number, number]))
        assert matcher.advance(number) == []
        given_up += matcher.given_up
        state = json.loads(json.dumps(matcher.state()))
        matcher = Matcher(spec)
        matcher.restore(state, json.loads)
    assert (rows, given_up) == (100, 1)


def test_the_rows_of_all_ways_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_ROWS_OF_WAYS", 60)
    either = ("repeat", ("alt", ("row", "A"), ("row", "B")), 1, -1, True)
    spec = spec_of(
        ("seq", either, ("row", "C")), {"C": ("=", ("nav", 4), ("const", -1))}, history=0
    )
    matcher = Matcher(spec)
    for number in range(30):
        matcher.take(number, number, [2**number, number], json.dumps([2**number, number]))
    assert matcher.advance(29) == []
    assert matcher.given_up > 0
    assert len(matcher.state().get("search", {}).get("nodes", [])) < 200


def test_a_match_that_grows_for_ever_is_given_up_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "MOST_MATCH_ROWS", 10)
    matcher = Matcher(
        spec_of(
            ("seq", ("repeat", ("row", "A"), 1, -1, True), ("row", "B")),
            {"B": ("=", ("nav", 0), ("const", 9))},
            history=0,
        )
    )
    for number in range(25):
        matcher.take(number, number, [0, number])
    assert matcher.advance(24) == []
    assert matcher.given_up == 2
    assert len(matcher.state()["rows"]) == 5


def test_ways_that_conditions_tell_apart_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_WAYS", 50)
    either = ("repeat", ("alt", ("row", "A"), ("row", "B")), 1, -1, True)
    spec = spec_of(
        ("seq", either, ("row", "C")), {"C": ("=", ("nav", 4), ("const", -1))}, history=0
    )
    matcher = Matcher(spec)
    for number in range(30):
        matcher.take(number, number, [2**number, number])
    assert matcher.advance(None) == []
    assert matcher.given_up > 0


def test_the_next_time_is_when_something_is_decided_without_a_new_row() -> None:
    matcher = Matcher(
        spec_of(
            ("seq", ("row", "A"), ("repeat", ("row", "B"), 0, -1, True)), {}, within=10, history=0
        )
    )
    assert matcher.next_time() is None
    matcher.take(5, 0, [0, 0])
    assert matcher.next_time() == 5
    assert matcher.advance(5) == []
    assert matcher.next_time() == 15
    assert matcher.advance(14) == []
    ((first, last, _),) = matcher.advance(15)
    assert (first[0], last[0], matcher.next_time(), matcher.is_empty()) == (5, 5, None, False)
    # MATCH_NUMBER goes on counting.
    assert matcher.state()["matches"] == 1


def test_values_go_through_json_with_every_digit() -> None:
    moment = datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)
    values = [2**62 + 1, 0.1, Decimal("1.10"), moment, None, "x", float("inf")]
    kinds = ["", "double", "decimal", "time", "double", "", "double"]
    text = json.dumps({f"c{index}": matching.encoded(value) for index, value in enumerate(values)})
    assert matching.decoded(kinds, json.loads(text)) == values
