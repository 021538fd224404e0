"""What a record may have once its stream's schema has drifted: a value of another type, more or fewer members, poison."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record, run

RELATIONS = """
CREATE STREAM drift_json (id VARCHAR, n INT, big BIGINT, x DOUBLE, c DECIMAL(5,2), s VARCHAR, b BOOLEAN, raw BYTES,
  a ARRAY<INT>, m MAP<VARCHAR, INT>, st STRUCT<p INT, q VARCHAR>) WITH (stream = 'drift_json');
CREATE STREAM drift_lines (id VARCHAR, n INT, big BIGINT, x DOUBLE, c DECIMAL(5,2), s VARCHAR, b BOOLEAN)
  WITH (stream = 'drift_lines', format = 'DELIMITED');
CREATE TABLE drift_keys (k INT PRIMARY KEY, v INT) WITH (stream = 'drift_keys');
"""
QUERIES = """
CREATE STREAM of_drift_json AS SELECT * FROM drift_json;
CREATE STREAM of_drift_lines AS SELECT * FROM drift_lines;
CREATE TABLE of_drift_keys AS SELECT * FROM drift_keys;
CREATE STREAM divided AS SELECT id, n / (n - 1) AS whole, x / (n - 1) AS part, n % (n - 1) AS rest, MOD(n, n - 1) AS modulo,
  c / (n - 1) AS cents, 1 / 0 AS never, n / 0.0 AS nor FROM drift_json WHERE n IS NOT NULL;
"""
COLUMNS = ("n", "big", "x", "c", "s", "b", "raw", "a", "m", "st")
# Each as JSON writes it, for each column.
JSON_VALUES = (
    "null", "1", "0", "-1", "1.0", "1.5", "1e3", "2147483648", "9223372036854775808", "1e400", "999.994", "12345.6",
    '"1"', '" 1"', '"1.5"', '"1e2"', '"+1"', '"1_0"', '"abc"', '""', '"true"', '"NaN"', '"Infinity"', '"-INF"', "NaN", "Infinity",
    "true", "false", "[]", "[1]", '["1"]', "[1.5]", "[null]", "[1, [2]]", "{}", '{"p": 1}', '{"p": "1"}',
    '{"p": 1, "q": 2, "r": 3}', '"AAE="',
)  # fmt: skip
CSV_VALUES = (
    "1", "0", "-1", " 1", "1 ", "+1", "1.0", "1.5", "1e2", "2147483648", "9223372036854775808", "1e400", "999.994", "12345.6", "1_0",
    "0x1", "1d", "1L", "abc", "-", "true", "TRUE", "false", "t", "yes", "NaN", "nan", "Infinity", "inf", "Inf", "-Inf", "-Infinity", '"1"',
)  # fmt: skip
# Whole records.
POISON = (
    '{"id": "p0", "new": 1, "n": 2}', '{"id": "p1"}', "{}", "", " ", "null", "1", '"text"', "[]", '[{"id": "p2"}]',
    '[{"id": "p3"}, {"id": "p4"}]', "{'id': 'p5'}", '{id: "p6"}', '{"id": "p7"} trailing', '{"id": "p8"}{"id": "p9"}',
    '{"id": "p10", "id": "p11"}', '{"id": "p12", "n": 01}', '{"id": "p13",}', '{"id": "p14"', '{"ID": "p15", "N": 3}', '\ufeff{"id": "p16"}',
    '{"id": "p17\t"}', '{"id": "p18" /* c */}', '{"id": "\\ud800p19"}', '{"id": 20, "n": 4}', '{"id": "p21", "n": -0}', '  {"id": "p22"}\n',
)  # fmt: skip
BYTES = (b'{"id": "y0\xff"}', b"\xff\xfe", b"\x00", b'{"id": "y1"}\x00')
LINES = (
    "l0", "l1,1,2,3,4,5", "l2,1,2,3,4,5,true", "l3,1,2,3,4,5,true,new", ",,,,,,", "", "l4,,,,,,", "l5,1,2,3,4,5,true\n", "l6;1;2;3;4;5;true",
)  # fmt: skip
KEYS = (
    ("1", {"v": 1}), ("x", {"v": 2}), ("3", {"k": 4, "v": 3}), ("x", {"k": 5, "v": 4}), ("6", {"k": None, "v": 5}), ("7.5", {"v": 6}), (" 8", {"v": 7}),
    ("9", {"k": "z", "v": 8}), ("99999999999", {"v": 9}), ("x", None), ("1", None), ("+10", {"v": 10}),
)  # fmt: skip


def build_records() -> list[tuple[str, str, Any]]:
    """Return a record of each value for each column, in JSON and delimited, and records that are bad as a whole."""
    records: list[tuple[str, str, Any]] = []
    for column in COLUMNS:
        for index, value in enumerate(JSON_VALUES):
            text = f'{{"id": "{column}{index}", "{column}": {value}}}'
            records.append(("drift_json", "k", text))
    for location, column in enumerate(COLUMNS[:6]):
        for index, value in enumerate(CSV_VALUES):
            fields = [f"{column}{index}", *[""] * 6]
            fields[location + 1] = value
            records.append(("drift_lines", "k", ",".join(fields)))
    records += [("drift_json", "k", text) for text in (*POISON, *BYTES)]
    records += [("drift_lines", "k", text) for text in LINES]
    return [*records, *(("drift_keys", key, value) for key, value in KEYS)]


def _fold() -> Fold:
    script = read_script(RELATIONS + QUERIES)
    return run(script, [(stream, Record(data, key)) for stream, key, data in build_records()])


def _read(column: str, query: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Return what a column has of each value that can be read."""
    rows = {row.columns["id"]: row.columns for row in _fold().results[query]}
    ids = {value: f"{column}{index}" for index, value in enumerate(values)}
    return {value: rows[id_][column] for value, id_ in ids.items() if id_ in rows}


def test_a_value_of_another_type_makes_a_record_unreadable() -> None:
    read = {column: _read(column, "of_drift_json", JSON_VALUES) for column in COLUMNS}
    assert read["n"] == {"null": None, "1": 1, "0": 0, "-1": -1}
    assert read["b"] == {"null": None, "true": True, "false": False}
    assert read["c"] == {
        "null": None, "1": 1, "0": 0, "-1": -1, "1.0": 1, "1.5": 1.5, "999.994": 999.99, '"1"': 1, '"1.5"': 1.5, '"1e2"': 100,
        '"+1"': 1,
    }  # fmt: skip
    assert {value: read["x"][value] for value in ("1", '"Infinity"', '"-INF"', "1e400")} == {
        "1": 1.0, '"Infinity"': "Infinity", '"-INF"': "-Infinity", "1e400": "Infinity",
    }  # fmt: skip
    assert '"1"' not in read["x"]
    assert {value: read["s"][value] for value in ("1.5", "true", "1e400", '{"p": 1}', "[null]")} == {
        "1.5": "1.5", "true": "true", "1e400": '"Infinity"', '{"p": 1}': '{"p":1}', "[null]": "[null]",
    }  # fmt: skip
    assert list(read["a"]) == ["null", "[]", "[1]", "[null]"]
    assert read["st"]['{"p": 1, "q": 2, "r": 3}'] == {"p": 1, "q": "2"}


def test_a_field_is_read_as_java_reads_it() -> None:
    read = {column: _read(column, "of_drift_lines", CSV_VALUES) for column in COLUMNS[:6]}
    assert read["n"] == {"1": 1, "0": 0, "-1": -1, "+1": 1, '"1"': 1}
    assert read["b"] == {"true": True, "TRUE": True, "false": False}
    assert "1_0" not in read["x"]
    assert "inf" not in read["x"]
    assert (read["x"]["1d"], read["x"][" 1"], read["x"]["Inf"]) == (1.0, 1.0, "Infinity")
    assert list(read["c"]) == ["1", "0", "-1", "+1", "1.0", "1.5", "1e2", "999.994", '"1"']


def test_a_long_text_is_read_in_one_look() -> None:
    digits = "1" * 1_000_000
    lines = [f"long,,,{text}," for text in (f"{digits}x", f"{digits}.{digits}x", "5.")]
    fold = run(
        read_script(RELATIONS + QUERIES), [("drift_lines", Record(f"{one},,")) for one in lines]
    )
    assert [row.columns["x"] for row in fold.results["of_drift_lines"]] == [5.0]


def test_a_text_may_have_deep_lists() -> None:
    deep = "[" * 500 + "]" * 500
    fold = run(read_script(RELATIONS + QUERIES), [("drift_json", Record(f'{{"s": {deep}}}'))])
    assert [row.columns["s"] for row in fold.results["of_drift_json"]] == [deep]


def test_records_that_are_bad_as_a_whole_are_counted() -> None:
    fold = _fold()
    ids = [row.columns["id"] for row in fold.results["of_drift_json"]]
    # Members that no column has are left out, as those of another letter case; what follows a value is not read.
    assert [one for one in ids if one is None or "p" in one] == [
        "p0", "p1", None, "p7", "p8", "p11", None, "?p19", "p21", "p22",
    ]  # fmt: skip
    assert [row.columns["id"] for row in fold.results["of_drift_lines"]][-3:] == [None, "l4", "l5"]
    of_keys = {row.columns["k"]: row.deleted for row in fold.results["of_drift_keys"]}
    assert of_keys == {1: True, 4: False, 5: False, 6: False, 8: False, 10: False}
    assert fold.unreadable["drift_keys"] == 5


def test_what_cannot_be_divided_is_null() -> None:
    row = next(one.columns for one in _fold().results["divided"] if one.columns["id"] == "n1")
    assert row.pop("id") == "n1"
    assert set(row.values()) == {None}


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_a_deep_text_is_no_json_and_ends_no_query(depth: int) -> None:
    # Of 2,000 levels some Pythons read a list, which is then too deep to be written.
    query = (
        "CREATE STREAM o AS SELECT IS_JSON_STRING(s) AND LEN(s) > 9000 AS i, JSON_ARRAY_CONTAINS(s, 1) AS c, JSON_CONCAT(s, s) AS j, "
        "JSON_ITEMS(s) AS l, EXTRACTJSONFIELD(s, '$[0]') AS e FROM drift_json;"
    )
    record = Record({"s": "[" * depth + "]" * depth})
    fold = run(read_script(RELATIONS + query), [("drift_json", record)])
    expected = {"i": False, "c": False, "j": None, "l": None, "e": None}
    assert [row.columns for row in fold.results["o"]] == [expected]
