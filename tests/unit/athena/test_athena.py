"""Athena's pieces without a cloud: statements, functions, types, partition projection, the text of results."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.services.athena import serdes
from headrace.services.athena.hive_types import NoHiveType, parse_type
from headrace.services.athena.parsing import parse
from headrace.services.athena.projection import ProjectionRefused, read_projection
from headrace.services.athena.results import NoRow, csv_line, read_lines, read_rows, render
from headrace.services.athena.statements import StatementRefused, Table

duckdb = pytest.importorskip("duckdb")
NOW = datetime(2024, 6, 1, 12)


@pytest.fixture(scope="module")
def connection() -> Any:
    from headrace.services.athena.functions import MACROS

    connection = duckdb.connect()
    connection.execute("SET integer_division = true; SET TimeZone = 'UTC'")
    for macro in MACROS:
        connection.execute(macro)
    return connection


# What Trino's documentation says of each function.
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        (
            "date_diff('minute', timestamp '2013-01-01 10:00:59', timestamp '2013-01-01 10:01:01')",
            0,
        ),
        ("date_add('day', 1, date '2013-01-31')", date(2013, 2, 1)),
        ("date '2013-01-01' + interval '1' month", date(2013, 2, 1)),
        (
            "date_format(timestamp '2013-01-05 10:03:00', '%Y/%m/%d %H:%i:%s')",
            "2013/01/05 10:03:00",
        ),
        (
            "format_datetime(timestamp '2013-01-05 10:03:00', 'yyyy-MM-dd''T''HH:mm')",
            "2013-01-05T10:03",
        ),
        ("parse_datetime('05.01.2013', 'dd.MM.yyyy')", datetime(2013, 1, 5)),
        ("day_of_week(date '2013-01-06')", 7),
        ("slice(array[1, 2, 3, 4], 2, 2)", [2, 3]),
        ("repeat('a', 2)", ["a", "a"]),
        ("element_at(array[1], 5)", None),
        ("any_match(array[1, 2], x -> x = 2)", True),
        ("none_match(array[1, 2], x -> x = 2)", False),
        ("map_filter(map(array['a', 'b'], array[1, 2]), (k, v) -> v > 1)", {"b": 2}),
        ("transform_values(map(array['a'], array[1]), (k, v) -> v + 1)", {"a": 2}),
        ("split_to_map('a=1,b=2', ',', '=')", {"a": "1", "b": "2"}),
        ("url_extract_host('https://u@a.b:1/c?x=1')", "a.b"),
        ("url_extract_parameter('http://a.b/c?x=1&y=2', 'y')", "2"),
        ("json_extract_scalar('{\"a\":{\"b\":1}}', '$.a.b')", "1"),
        ("format('%s-%d', 'a', 1)", "a-1"),
        ("strrpos('abab', 'a')", 3),
        ("at_timezone(from_unixtime(0), 'America/New_York')", datetime(1969, 12, 31, 19)),
        ("cardinality(array_union(array[1], array[1, 2]))", 2),
    ],
)
def test_functions_mean_what_athena_says(connection: Any, expression: str, value: Any):
    sql = parse(f"SELECT {expression}", "default").sql
    assert connection.execute(sql).fetchall() == [(value,)]


@pytest.mark.parametrize(
    ("text", "action", "table"),
    [
        ("MSCK REPAIR TABLE db.t;", "repair", ("db", "t")),
        ("SHOW PARTITIONS `t`", "show_partitions", ("main", "t")),
        ("DROP TABLE IF EXISTS T", "drop_table", ("main", "t")),
        ("ALTER TABLE t ADD PARTITION (y='1')", "add_partitions", ("main", "t")),
        ("alter table t add if not exists partition (y=1) location 's3://b/k'", "add_partitions", ("main", "t")),
        ("ALTER TABLE t DROP PARTITION (y='1')", "drop_partitions", ("main", "t")),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "create_view", ("main", "v")),
        ("DESCRIBE t", "describe", ("main", "t")),
        ("INSERT INTO t SELECT 1", "insert", ("main", "t")),
    ],
)  # fmt: skip
def test_statements_are_read(text: str, action: str, table: tuple[str, str]):
    statement = parse(text, "main")
    assert (statement.action, statement.table) == (action, table)


def test_queries_name_their_tables():
    text = (
        "WITH c AS (SELECT * FROM t) SELECT c.a, db2.u.b, count(*) "
        "FROM awsdatacatalog.db.t x JOIN c ON c.a = x.a, db2.u"
    )
    statement = parse(text, "main")
    assert set(statement.tables) == {("main", "t"), ("db", "t"), ("db2", "u")}
    assert "_col2" in statement.sql
    # A database that one name has is not the next one's.
    assert parse("SELECT * FROM db2.u JOIN t ON true", "main").tables == (
        ("db2", "u"),
        ("main", "t"),
    )
    # The name of a common table expression within its own definition is a table's.
    assert parse("WITH t AS (SELECT * FROM t) SELECT * FROM t", "main").tables == (("main", "t"),)


def test_parameters_take_the_places_of_question_marks_in_order():
    statement = parse("SELECT '?' FROM t WHERE a = ? AND b = ?", "main", ["1", "'x; DROP TABLE t'"])
    assert "a = (1) AND b = ('x; DROP TABLE t')" in statement.sql
    # What is no expression is a string.
    assert "('1; DROP" not in parse("SELECT ?", "main", ["1; DROP TABLE t"]).sql
    with pytest.raises(StatementRefused, match="expected 1 but found 2"):
        parse("SELECT ?", "main", ["1", "2"])
    assert parse("SELECT ? + 1 AS n", "main", ["1 --"]).sql == "SELECT (1) + 1 AS n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELEC 1", "line 1:7: mismatched input '1'"),
        ("SELECT 1; SELECT 2", "Only one sql statement is allowed"),
        ("SELECT * FROM read_csv('/etc/passwd')", "FUNCTION_NOT_FOUND"),
        ("COPY t TO 'x'", "headrace does not run COPY"),
        ("PRAGMA x", "headrace does not run PRAGMA"),
        ("SELECT * FROM other.db.t", "CATALOG_NOT_FOUND"),
        ("CREATE TABLE t (a int) LOCATION 's3://b/'", "CREATE TABLE without EXTERNAL"),
        ("CREATE EXTERNAL TABLE t (a int)", "LOCATION is missing"),
        ("SELECT format_datetime(a, b) FROM t", "as a literal"),
        ("TRUNCATE TABLE t", "headrace does not run TRUNCATE"),
        # A change finds the files that it rewrites by the pseudo column: rows that had another one came twice.
        ("""UPDATE t SET a = 1, "$PATH" = 'x'""", "COLUMN_NOT_FOUND"),
        ("""MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET "$path" = 'x'""", "COLUMN_NOT_FOUND"),
        ("""MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, "$path") VALUES (1, 2)""", "COLUMN_NOT_FOUND"),
        # A version's expression runs: as a part of a name it could be any SQL.
        ("""SELECT * FROM "t$version=1; SET threads = 1; SELECT 2\"""", "TABLE_NOT_FOUND"),
        ("""DELETE FROM "t$version=1\"""", "TABLE_NOT_FOUND"),
        ("DELETE FROM t FOR VERSION AS OF 1", "DELETE takes one table by its name"),
        ("UPDATE t AS u SET a = 1", "UPDATE takes one table by its name"),
        ("UPDATE t SET a = s.a FROM s", "UPDATE has no FROM in Athena"),
        ("UPDATE t SET (a, b) = (1, 2)", "SET takes column = expression"),
        ("DELETE FROM t USING s WHERE t.a = s.a", "DELETE has no USING in Athena"),
        ("DELETE FROM t RETURNING a", "DELETE has no RETURNING in Athena"),
        ("WITH s AS (SELECT 1) DELETE FROM t", "DELETE has no WITH in Athena"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN DELETE", "MERGE takes WHEN MATCHED"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DO NOTHING", "MERGE takes WHEN MATCHED"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *", "SET takes column = expression"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *", "columns by their names"),
        ("", "Only one sql statement"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(text: str, reason: str):
    with pytest.raises(StatementRefused) as refusal:
        parse(text, "main")
    assert reason in str(refusal.value)


def test_create_external_table_makes_glues_table():
    text = r"""CREATE EXTERNAL TABLE IF NOT EXISTS db.t (a string COMMENT 'x', s struct<b:int,c:array<string>>)
        PARTITIONED BY (y int) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t' STORED AS TEXTFILE
        LOCATION 's3://b/k/' TBLPROPERTIES ('skip.header.line.count'='1')"""
    table = parse(text, "main").options["table"]
    assert table["StorageDescriptor"]["Columns"] == [
        {"Name": "a", "Type": "string", "Comment": "x"},
        {"Name": "s", "Type": "struct<b:int,c:array<string>>"},
    ]
    assert table["PartitionKeys"] == [{"Name": "y", "Type": "int"}]
    assert table["StorageDescriptor"]["SerdeInfo"]["Parameters"]["field.delim"] == "\t"
    assert table["Parameters"]["skip.header.line.count"] == "1"


def test_types_are_parsed():
    parsed = parse_type("struct<a:int,b:array<map<string,decimal(10,2)>>>")
    assert parsed.duckdb == 'STRUCT("a" INTEGER, "b" MAP(VARCHAR, DECIMAL(10, 2))[])'
    for text in (
        "",
        "int>",
        "array<int",
        "struct<a>",
        "map<int>",
        "decimal(a)",
        "array<" * 100,
        "money",
    ):
        with pytest.raises(NoHiveType):
            parse_type(text)


def test_a_row_of_csv_is_a_line(tmp_path: Path):
    described = {
        "columns": [("a", "string"), ("b", "string")],
        "keys": [],
        "files": [],
        "serde": "org.apache.hadoop.hive.serde2.OpenCSVSerde",
        "parameters": {},
    }
    path = tmp_path / "f"
    path.write_text(f'1,"open\n2,"x,""y"\n\n{"l" * 200_000},3\n')
    rows = list(
        serdes.read_rows(Table("d", "t", described), {"path": str(path), "uri": "s3://b/f"})
    )
    assert rows == [["1", "open"], ["2", 'x,"y'], ["l" * 200_000, "3"]]


@pytest.mark.parametrize(
    ("settings", "key", "values"),
    [
        ({"type": "date", "format": "yyyy/MM/dd", "range": "2024/01/01,NOW"}, "2024/05/31/x", ["2024/05/31"]),
        ({"type": "date", "format": "yyyy/MM/dd", "range": "2024/01/01,NOW"}, "2024/06/02/x", None),
        ({"type": "date", "format": "yyyy/MM/dd", "range": "NOW-1MONTH,NOW"}, "2024/04/01/x", None),
        ({"type": "date", "format": "yyyyMMddHH", "range": "2024010100,NOW"}, "2024060112/x", ["2024060112"]),
        ({"type": "integer", "range": "1,12", "digits": "2"}, "07/x", ["07"]),
        ({"type": "integer", "range": "1,12"}, "13/x", None),
        ({"type": "enum", "values": "a,ab"}, "ab/x", ["ab"]),
        ({"type": "enum", "values": "a,ab"}, "abc/x", None),
        ({"type": "injected"}, "any thing/x", ["any thing"]),
        ({"type": "injected"}, "/x", None),
    ],
)  # fmt: skip
def test_projection_finds_the_partition_of_an_object(
    settings: dict[str, str], key: str, values: list[str] | None
):
    parameters = {f"projection.k.{name}": value for name, value in settings.items()}
    parameters["storage.location.template"] = "s3://b/t/${k}/"
    projection = read_projection(parameters, ["k"], "s3://b/t/", NOW)
    assert projection.prefix == "s3://b/t/"
    assert projection.values_of(f"s3://b/t/{key}") == values


def test_projection_without_a_template_has_hives_folders():
    parameters = {"projection.y.type": "integer", "projection.y.range": "2000,2100"}
    projection = read_projection(parameters, ["y"], "s3://b/t/", NOW)
    assert projection.values_of("s3://b/t/y=2013/f") == ["2013"]
    for broken in (
        {"projection.y.type": "other"},
        {"projection.y.type": "integer", "projection.y.range": "a,b"},
        {"projection.y.type": "date", "projection.y.format": "yyyy", "projection.y.range": "x,NOW"},
        {**parameters, "storage.location.template": "s3://b/${z}/"},
    ):
        with pytest.raises(ProjectionRefused):
            read_projection(broken, ["y"], "s3://b/t/", NOW)


def test_a_results_file_gives_back_its_values(tmp_path: Path):
    generator = random.Random(7)
    signs = ['"', ",", "\n", "\r", "a", "é", "", "'"]
    rows = [
        [
            None if generator.random() < 0.2 else "".join(generator.choices(signs, k=5))
            for _ in range(3)
        ]
        for _ in range(500)
    ]
    path = tmp_path / "result"
    path.write_text("".join(csv_line(row) for row in rows), encoding="utf-8", newline="")
    read: list[list[str | None]] = []
    offset = 0
    while offset >= 0:
        page, offset = read_rows(path, offset, 7)
        read += page
    assert read == rows


def test_a_value_of_many_lines_is_looked_at_once():
    looked_at = 0

    class Line(bytes):
        def count(self, *args: Any) -> int:
            nonlocal looked_at
            looked_at += len(self)
            return super().count(*args)

        def __add__(self, other: Any) -> Line:
            return Line(super().__add__(other))

    class File(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            return Line(super().readline(size))

    class Source:
        def open(self, _mode: str) -> io.BytesIO:
            return File(text.encode())

    text = csv_line(["\n" * 2000])
    assert read_rows(cast("Path", Source()), 0, 1) == ([["\n" * 2000]], -1)
    assert looked_at == len(text)


def test_executions_of_an_earlier_headrace_are_shown_as_failed():
    from moto.athena.models import Execution

    from headrace.services.athena import query_calls

    old: Any = Execution("SELECT 1", cast("Any", None), cast("Any", None), None, None)
    backend = SimpleNamespace(executions={old.id: old}, work_groups={"primary": None})
    call = SimpleNamespace(
        athena_backend=backend, _get_param={"QueryExecutionId": old.id}.get, region="eu-central-1"
    )
    shown = json.loads(query_calls.get_query_execution(call))["QueryExecution"]
    assert (shown["Status"]["State"], shown["WorkGroup"]) == ("FAILED", "primary")
    listed = json.loads(query_calls.list_query_executions(call))
    assert listed == {"QueryExecutionIds": [old.id]}
    query_calls.trim(backend)  # as each start does
    assert list(backend.executions) == [old.id]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e10, "1.0E10"), (0.1, "0.1"), (1e-5, "1.0E-5"), (123456.75, "123456.75"), (float("nan"), "NaN"),
        (Decimal("1.50"), "1.50"), (True, "true"), (datetime(2013, 1, 1, 10, 0, 0, 500_000), "2013-01-01 10:00:00.500"),
        ([1, None, "a"], "[1, null, a]"), ({"k": [1]}, "{k=[1]}"), (b"\x01a", "01 61"), (None, None),
    ],
)  # fmt: skip
def test_values_are_written_as_athena_does(value: Any, text: str | None):
    assert render(value) == text


@pytest.mark.parametrize("read", [read_rows, read_lines])
def test_a_token_that_begins_no_row_is_refused(tmp_path: Path, read: Callable[..., Any]):
    path = tmp_path / "result"
    path.write_text(csv_line(["é", "b"]) + csv_line(["c", None]))
    first = len(csv_line(["é", "b"]).encode())
    assert read(path, first, 1)[1] == -1
    for offset in (1, 2, first - 1, first + 1):
        with pytest.raises(NoRow):
            read(path, offset, 1)
