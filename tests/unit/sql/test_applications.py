"""What an application of Kinesis Analytics reads of its records: places by JSON paths, rows of arrays, columns of logs."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Record, run
from headrace.sql.kinesis_analytics import import_application
from headrace.sql.types import SqlError

CODE = """CREATE STREAM "D" ("who" VARCHAR(8), "price" DOUBLE);
CREATE PUMP "P" AS INSERT INTO "D" SELECT STREAM "who", "price" FROM "SOURCE_SQL_STREAM_001";"""
ORDERS: list[tuple[str, str, Any]] = [
    ("orders", "k", {"name": {"last": "Lee"}, "of": [{"item": {"price": 1.5}}, {"item": {}}]}),
    ("orders", "k", {"name": {"last": "Kim"}, "of": []}),
    ("orders", "k", {"of": [{"item": {"price": 2}}]}),
    ("orders", "k", "{"),
]
LOGS = """CREATE STREAM lines (log VARCHAR(200)) WITH (stream = 'lines');
CREATE STREAM parsed (a VARCHAR(8), b VARCHAR(99), c VARCHAR(99), d INT, e DECIMAL(5, 2), f VARCHAR(9), g VARCHAR(9)) WITH (stream = 'parsed');
CREATE PUMP parse AS INSERT INTO parsed SELECT STREAM t.r.COLUMN2, t.w.COLUMN4 AS b, t.w.column5 AS c, t.v.n, t.v.m, t.u.COLUMN1 AS f,
  t.x.COLUMN1 AS g FROM (SELECT STREAM REGEX_LOG_PARSE(log, '(\\w+) (\\d+)') AS r, W3C_LOG_PARSE(log, 'COMMON') AS w,
  VARIABLE_COLUMN_LOG_PARSE(log, 'a, n TYPE INTEGER, m TYPE DECIMAL(5, 2) NOT NULL', ' ') AS v,
  VARIABLE_COLUMN_LOG_PARSE(log, 2, ' ') AS u, FAST_REGEX_LOG_PARSER(log, '(.)$') AS x FROM lines) AS t;
"""
LINES: list[tuple[str, str, Any]] = [
    ("lines", "k", {"log": log})
    for log in (
        "ab 12 3.456",
        '10.0.0.1 - ann [1/May/2020:10:00:00 +0000] "GET /x HTTP/1.1" 200 17',
        "",
        None,
    )
]


def application(mappings: dict[str, str], row_path: str = "$", code: str = CODE) -> str:
    """Return the text of an application whose columns are read of these paths."""
    types = {"price": "DOUBLE"}
    schema = {
        "RecordFormat": {
            "RecordFormatType": "JSON",
            "MappingParameters": {"JSONMappingParameters": {"RecordRowPath": row_path}},
        },
        "RecordColumns": [
            {"Name": name, "SqlType": types.get(name, "VARCHAR(8)"), "Mapping": path}
            for name, path in mappings.items()
        ],
    }
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/"
    source = {
        "NamePrefix": "SOURCE_SQL_STREAM",
        "KinesisStreamsInputDescription": {"ResourceARN": f"{arn}orders"},
        "InputSchema": schema,
    }
    output = {"Name": "D", "KinesisStreamsOutputDescription": {"ResourceARN": f"{arn}d"}}
    description = {
        "ApplicationCode": code,
        "InputDescriptions": [source],
        "OutputDescriptions": [output],
    }
    return import_application({"ApplicationDetail": description})


PLACES = {"who": "$.name.last", "price": "$.of[0:].item.price"}


def rows_of(text: str, records: list[tuple[str, str, Any]], query: str) -> list[dict[str, Any]]:
    taken = [(stream, Record(data, key)) for stream, key, data in records]
    fold = run(read_script(text, "kinesis-analytics"), taken)
    return [row.columns for row in fold.results[query]]


def test_each_item_of_an_array_is_a_row_with_what_is_outside() -> None:
    expected = [
        {"who": "Lee", "price": 1.5},
        {"who": "Lee", "price": None},
        {"who": None, "price": 2.0},
    ]
    assert rows_of(application(PLACES), ORDERS, "P") == expected


def test_a_value_is_read_of_a_place_within_the_record() -> None:
    text = application({"who": "$.name.last", "price": "$.at.last"})
    records = [("orders", "k", {"name": {"last": "Lee"}, "at": {"last": 3.5}}), ("orders", "k", {})]
    assert rows_of(text, records, "P") == [
        {"who": "Lee", "price": 3.5},
        {"who": None, "price": None},
    ]


def test_a_record_may_be_an_array_and_an_array_at_a_paths_end_is_one_value() -> None:
    text = application({"who": "$[0:].tags[0:]", "price": "$[0:].price"}, "$[0:]")
    records = [
        ("orders", "k", '[{"tags": ["a", 1], "price": 1}, {}]'),
        ("orders", "k", '{"price": 2}'),
    ]
    assert rows_of(text, records, "P") == [
        {"who": '["a",1]', "price": 1.0},
        {"who": None, "price": None},
    ]


def test_only_an_application_that_reads_the_arrival_has_it() -> None:
    assert "APPROXIMATE" not in application(PLACES)
    code = f'{CODE} CREATE PUMP q AS INSERT INTO "D" ("who") SELECT STREAM CAST(APPROXIMATE_ARRIVAL_TIME AS VARCHAR(40)) FROM "SOURCE_SQL_STREAM_001";'
    rows = rows_of(application(PLACES, code=code), ORDERS[:1], "q")
    assert rows == [{"who": "1970-01-01 00:00:00"}] * 2


@pytest.mark.parametrize(
    ("mappings", "row_path", "sentence"),
    [
        ({"who": "$.a[0:].b", "price": "$.c[0:].d"}, "$", "the items of one array are rows"),
        ({"who": "$.a[0:].b[0:].c"}, "$", "the items of one array are rows"),
        ({"who": "$.a[1].b"}, "$", r"column who: \$.a\[1\].b is no path of names"),
        (
            {"who": "$.a", "price": "$.a.b"},
            "$",
            "column price: another column reads the same place",
        ),
        ({"who": "$" + ".a" * 2000}, "$", "column who: a path has at most 50 steps"),
        ({"who": "$.a.b"}, "$.rows", r"RecordRowPath \$.rows\[0:\]: no column is read of it"),
    ],
)
def test_a_path_that_is_not_read_is_refused_by_name(
    mappings: dict[str, str], row_path: str, sentence: str
) -> None:
    with pytest.raises(SqlError, match=sentence):
        application(mappings, row_path)


def test_logs_have_columns() -> None:
    rows = [list(row.values()) for row in rows_of(LOGS, LINES, "parse")]
    assert [str(one) for one in rows[0]] == ["12", "None", "None", "12", "3.46", "ab", "6"]
    assert rows[1][1:4] == ["1/May/2020:10:00:00 +0000", "GET /x HTTP/1.1", None]
    assert rows[2] == [None, None, None, None, None, "", None]
    assert rows[3] == [None] * 7


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("REGEX_LOG_PARSE(log, '(')", "is no pattern that the runner and Spark read alike"),
        ("REGEX_LOG_PARSE(log, 'a')", "each group of a pattern is a column: 1 to 100, not 0"),
        ("REGEX_LOG_PARSE(log, log)", "REGEX_LOG_PARSE's pattern is a text, not a column"),
        ("W3C_LOG_PARSE(log, '%h %l')", "W3C_LOG_PARSE reads COMMON, "),
        ("VARIABLE_COLUMN_LOG_PARSE(log, 'a TYPE NOTHING', ',')", "'a TYPE NOTHING' is no column"),
        ("VARIABLE_COLUMN_LOG_PARSE(log, 'a', ',', '\\')", "takes a text, columns and a delimiter"),
        ("VARIABLE_COLUMN_LOG_PARSE(log, 101, ',')", "a line has 1 to 100 columns"),
        (f"VARIABLE_COLUMN_LOG_PARSE(log, '{'a,' * 100}a', ',')", "a line has 1 to 100 columns"),
        (f"VARIABLE_COLUMN_LOG_PARSE(log, 'a TYPE DECIMAL({'9' * 5000})', ',')", "is no column"),
    ],
)  # fmt: skip
def test_a_log_that_is_not_parsed_is_refused(call: str, sentence: str) -> None:
    text = f"CREATE STREAM lines (log VARCHAR(9)) WITH (stream = 'lines'); SELECT STREAM {call} AS r FROM lines;"
    with pytest.raises(SqlError, match=sentence.replace("(", r"\(")):
        read_script(text, "kinesis-analytics")
