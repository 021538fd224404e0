"""Queries of tables in the fold: a table is its changelog, whatever came and in whatever micro-batches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record, run

SCRIPT = read_script("""
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR, city INT) WITH (stream = 'users');
CREATE TABLE cities (id INT PRIMARY KEY, title VARCHAR) WITH (stream = 'cities');
CREATE TABLE homes AS SELECT u.id, c.title FROM users u LEFT JOIN cities c ON u.city = c.id;
CREATE TABLE pairs AS SELECT COALESCE(u.id, h.id) AS id, u.city, h.title FROM users u FULL JOIN homes h ON u.id = h.id;
CREATE TABLE in_city AS SELECT city, COUNT(*) AS n, SUM(LEN(name)) AS s FROM users WHERE name <> 'c' GROUP BY city;
""")
USER = st.tuples(
    st.just("users"),
    st.sampled_from(["1", "2", "3"]),
    st.none() | st.fixed_dictionaries({"name": st.sampled_from("abc"), "city": st.integers(1, 2)}),
)
CITY = st.tuples(
    st.just("cities"),
    st.sampled_from(["1", "2"]),
    st.none() | st.fixed_dictionaries({"title": st.sampled_from(["Rome", "Oslo"])}),
)
Change = tuple[str, str, dict[str, Any] | None]


def states(fold: Fold) -> dict[str, dict[str, Any]]:
    """Return each query's table: the fold of its changelog."""
    result: dict[str, dict[str, Any]] = {}
    for name, rows in fold.results.items():
        latest = {row.key: row for row in rows}
        result[name] = {key: row.columns for key, row in latest.items() if not row.deleted}
    return result


@given(st.lists(USER | CITY, max_size=12), st.data())
def test_a_table_is_the_fold_of_its_changelog(changes: list[Change], data: st.DataObject) -> None:
    one_by_one, in_batches, at_once = Fold(SCRIPT), Fold(SCRIPT), Fold(SCRIPT)
    records = [(stream, Record(value, key)) for stream, key, value in changes]
    for stream, record in records:
        one_by_one.take(stream, record)
    while records:
        size = data.draw(st.integers(1, len(records)))
        in_batches.take_batch(records[:size])
        records = records[size:]
    in_batches.settle()

    # What the changes end in, given at once: a table's state says all that its changelog says.
    latest = {(stream, key): value for stream, key, value in changes}
    for (stream, key), value in latest.items():
        if value is not None:
            at_once.take(stream, Record(value, key))

    assert states(one_by_one) == states(in_batches) == states(at_once)


TABLES = """
CREATE STREAM s (id VARCHAR, a INT, ms BIGINT) WITH (stream = 's', timestamp = 'ms');
CREATE TABLE t (k INT PRIMARY KEY, b INT) WITH (stream = 't');
CREATE TABLE u (k INT PRIMARY KEY, c INT) WITH (stream = 'u');
CREATE TABLE v (k INT PRIMARY KEY, a INT) WITH (stream = 'v');
"""
SMALL = st.integers(0, 2)
CHANGES = st.one_of(
    st.tuples(st.just("s"), SMALL, st.fixed_dictionaries({"id": st.sampled_from("xy"), "a": SMALL, "ms": SMALL})),
    st.tuples(st.just("t"), SMALL, st.none() | st.fixed_dictionaries({"b": SMALL})),
    st.tuples(st.just("u"), SMALL, st.none() | st.fixed_dictionaries({"c": SMALL})),
    st.tuples(st.just("v"), SMALL, st.none() | st.fixed_dictionaries({"a": SMALL})),
)  # fmt: skip


@settings(max_examples=20)
@given(
    st.sampled_from(["JOIN", "LEFT JOIN"]),
    st.sampled_from(["JOIN", "LEFT JOIN"]),
    st.lists(CHANGES, max_size=14),
)
def test_a_query_of_several_joins_has_the_rows_of_one_join_after_the_other(
    first: str, second: str, changes: list[tuple[str, int, Any]]
) -> None:
    script = read_script(f"""{TABLES}
    CREATE STREAM whole AS SELECT s.id, s.ms, t.b, u.c FROM s {first} t ON s.a = t.k {second} u ON t.b = u.k;
    CREATE STREAM half AS SELECT s.id, s.ms, t.b FROM s {first} t ON s.a = t.k;
    CREATE STREAM rest AS SELECT h.id, h.ms, h.b, u.c FROM half h {second} u ON h.b = u.k;
    CREATE TABLE of_tables AS SELECT v.k, t.b, u.c FROM v {first} t ON v.a = t.k {second} u ON t.b = u.k;
    CREATE TABLE half_of AS SELECT v.k, t.b FROM v {first} t ON v.a = t.k;
    CREATE TABLE rest_of AS SELECT h.k, h.b, u.c FROM half_of h {second} u ON h.b = u.k;""")
    fold = run(script, [(stream, Record(value, str(key))) for stream, key, value in changes])

    def latest(name: str) -> dict[str, Any]:
        rows = {row.key: row for row in fold.results[name]}
        return {key: row.columns for key, row in rows.items() if not row.deleted}

    assert [row.columns for row in fold.results["whole"]] == [
        row.columns for row in fold.results["rest"]
    ]
    assert latest("of_tables") == latest("rest_of")


def test_a_tombstone_whose_key_says_not_which_row_is_unreadable() -> None:
    text = """CREATE TABLE one (a INT PRIMARY KEY, n INT) WITH (stream = 'one');
    CREATE TABLE two (a INT PRIMARY KEY, b VARCHAR PRIMARY KEY, n INT) WITH (stream = 'two');
    CREATE TABLE of_one AS SELECT * FROM one; CREATE TABLE of_two AS SELECT * FROM two;"""
    records = [
        ("one", Record({"n": 1}, "7")),
        ("one", Record({"n": 1}, "seven")),
        ("one", Record(None, "seven")),
        ("two", Record({"a": 7, "b": "x", "n": 1}, "7|x")),
        ("two", Record({"n": 2}, "8|x")),
        ("two", Record({"a": 9, "n": 2}, "9")),
        ("two", Record(None, "7")),
        ("two", Record(None, "7|x|y")),
        ("two", Record(None, "7|x")),
    ]
    fold = run(read_script(text), records)
    assert [(row.key, row.deleted) for row in fold.results["of_one"]] == [("7", False)]
    rows = [(row.columns["a"], row.columns["b"], row.deleted) for row in fold.results["of_two"]]
    assert rows == [(7, "x", False), (8, "x", False), (7, "x", True)]
    assert fold.unreadable == {"one": 2, "two": 3}
