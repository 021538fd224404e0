"""`headrace sql` as a user types it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from headrace.cli import sql, submit
from headrace.cli.commands import headrace
from headrace.cli.sql_prompt import Cloud
from headrace.cli.submit_plan import Plan
from headrace.sql.types import Location, SqlError

DELAYS = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, origin VARCHAR, dep_delay INT) WITH (
  stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE TABLE delays AS
  SELECT origin, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
  FROM flights WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 2 HOURS)
  GROUP BY origin;
SET 'errors.stream' = 'bad';
"""
CASE = """
- name: the mean of an hour
  input:
    - {stream: flights, key: a, value: {event_time: "2013-01-01T05:10:00Z", origin: EWR, dep_delay: 20}}
    - {stream: flights, key: b, value: {event_time: "2013-01-01T05:40:00Z", origin: EWR, dep_delay: 30}}
    - {stream: flights, key: c, value: "garbage"}
  output:
    delays: [{origin: EWR, departures: 2, mean_delay: MEAN}]
    bad: [{relation: flights, partitionKey: c, data: Z2FyYmFnZQ==}]
  unreadable: {flights: 1}
"""
CODE = """CREATE OR REPLACE STREAM "DEST" (ticker VARCHAR(4), n INTEGER, mean DOUBLE);
CREATE OR REPLACE PUMP "P" AS INSERT INTO "DEST"
SELECT STREAM ticker_symbol, COUNT(*), AVG(price) FROM "SOURCE_SQL_STREAM_001"
GROUP BY ticker_symbol, STEP("SOURCE_SQL_STREAM_001".ROWTIME BY INTERVAL '60' SECOND);"""
INPUT = {
    "NamePrefix": "SOURCE_SQL_STREAM",
    "InAppStreamNames": ["SOURCE_SQL_STREAM_001"],
    "KinesisStreamsInputDescription": {
        "ResourceARN": "arn:aws:kinesis:us-east-1:123456789012:stream/ticks"
    },
    "InputSchema": {
        "RecordFormat": {"RecordFormatType": "JSON"},
        "RecordColumns": [
            {"Name": "TICKER_SYMBOL", "Mapping": "$.ticker_symbol", "SqlType": "VARCHAR(4)"},
            {"Name": "PRICE", "Mapping": "$.price", "SqlType": "REAL"},
        ],
    },
}
PROCESSING = {
    "InputLambdaProcessorDescription": {"ResourceARN": "arn:aws:lambda:us-east-1:1:function:clean"}
}
ROWS: dict[str, Any] = {
    **cast(dict[str, Any], INPUT["InputSchema"]),
    "RecordFormat": {
        "RecordFormatType": "JSON",
        "MappingParameters": {"JSONMappingParameters": {"RecordRowPath": "$.rows"}},
    },
}
OUTPUT = {
    "Name": "DEST",
    "KinesisStreamsOutputDescription": {
        "ResourceARN": "arn:aws:kinesis:us-east-1:123456789012:stream/means"
    },
    "DestinationSchema": {"RecordFormatType": "JSON"},
}
VERSION_1: dict[str, Any] = {
    "ApplicationDetail": {
        "ApplicationCode": CODE,
        "InputDescriptions": [INPUT],
        "OutputDescriptions": [OUTPUT],
    }
}
VERSION_2: dict[str, Any] = {
    "ApplicationDetail": {
        "ApplicationConfigurationDescription": {
            "ApplicationCodeConfigurationDescription": {
                "CodeContentDescription": {"TextContent": CODE}
            },
            "SqlApplicationConfigurationDescription": {
                "InputDescriptions": [INPUT],
                "OutputDescriptions": [OUTPUT],
            },
        }
    }
}
MINUTE = """
- name: a minute
  input:
    - {stream: ticks, time: 2026-01-01T00:00:05Z, value: {ticker_symbol: AMZN, price: 10.0}}
    - {stream: ticks, time: 2026-01-01T00:00:15Z, value: {ticker_symbol: AMZN, price: 20.0}}
    - {stream: ticks, time: 2026-01-01T00:01:15Z, value: {ticker_symbol: AMZN, price: 20.0}}
  output:
    DEST: [{ticker: AMZN, n: 2, mean: 15.0}, {ticker: AMZN, n: 1, mean: 20.0}]
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(headrace, ["sql", *map(str, arguments)])


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    file = tmp_path / "delays.sql"
    file.write_text(DELAYS)
    return file


def test_sound_queries_are_checked_and_explained(queries: Path):
    assert run("check", queries).output == "1 query, 2 streams and tables: no mistakes\n"
    explained = run("explain", queries.parent).output
    assert "groups   by origin, in windows of 1 hour" in explained
    assert "windows until a row is 2 hours past their end" in explained


def test_a_mistake_is_told_with_its_place(queries: Path):
    queries.write_text(DELAYS.replace("AVG(dep_delay)", "AVG(dep_dely)"))
    result = run("check", queries)
    assert result.exit_code == 1
    assert "delays.sql: line 5, column 46: no column 'dep_dely' in flights" in result.output
    assert "did you mean 'dep_delay'?" in result.output


def test_a_folder_without_queries_and_a_file_without_one_are_refused(tmp_path: Path):
    assert run("check", tmp_path).exit_code == 1
    (tmp_path / "q.sql").write_text(DELAYS.partition("CREATE TABLE")[0])
    result = run("compile", tmp_path)
    assert (result.exit_code, "has no query" in result.output) == (1, True)


def test_the_job_is_plain_python_without_headrace(queries: Path, tmp_path: Path):
    job = tmp_path / "job.py"
    assert run("compile", queries, "-o", job).exit_code == 0
    modules = {
        name.name.partition(".")[0]
        for node in ast.walk(ast.parse(job.read_text()))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert modules == {"argparse", "json", "sys", "time"}
    assert "headrace" not in job.read_text().replace("headrace sql compile", "").replace(
        "headrace's own source", ""
    )


@pytest.mark.parametrize(("mean", "exit_code"), [("25.0", 0), ("24.0", 1)])
def test_tests_of_queries_hold_or_name_the_row(
    queries: Path, tmp_path: Path, mean: str, exit_code: int
):
    (tmp_path / "case.yaml").write_text(CASE.replace("MEAN", mean))
    result = run("test", queries, tmp_path)
    assert result.exit_code == exit_code, result.output
    assert ("'mean_delay': 25.0" in result.output) == bool(exit_code)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "5",
        "- 5",
        "- {inputs: []}",
        "- {input: [{}]}",
        "- {output: {nothing: []}}",
        "- {output: 5}",
    ],
)
def test_a_file_of_tests_that_cannot_be_read_is_refused(queries: Path, tmp_path: Path, text: str):
    (tmp_path / "case.yaml").write_text(text)
    result = run("test", queries, tmp_path)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "case.yaml" in result.output


@pytest.mark.parametrize("description", [VERSION_1, VERSION_2])
def test_an_application_of_kinesis_analytics_runs(tmp_path: Path, description: dict[str, Any]):
    application, queries, case = (tmp_path / name for name in ("a.json", "a.sql", "a.yaml"))
    application.write_text(json.dumps(description))
    assert run("import", application, "-o", queries).exit_code == 0
    case.write_text(MINUTE)
    result = run("test", "--dialect", "kinesis-analytics", queries, case)
    assert result.exit_code == 0, result.output
    assert run("compile", "--dialect", "kinesis-analytics", queries).exit_code == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"InputDescriptions": []}, "no description of an application"),
        ({"OutputDescriptions": [{**OUTPUT, "Name": "OTHER"}]}, "creates no stream OTHER"),
        (
            {"OutputDescriptions": [{"Name": "DEST", "LambdaOutputDescription": {}}]},
            "a LambdaOutputDescription is not built",
        ),
        (
            {
                "InputDescriptions": [
                    {**INPUT, "InputProcessingConfigurationDescription": PROCESSING}
                ]
            },
            "InputProcessingConfiguration: the Lambda function clean is not run in the job; let it put its records",
        ),
        (
            {"InputDescriptions": [{**INPUT, "InputSchema": ROWS}]},
            "RecordRowPath $.rows[0:]: no column is read of it",
        ),
    ],
)
def test_what_is_not_built_of_an_application_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], sentence: str
):
    application = tmp_path / "a.json"
    application.write_text(json.dumps({**VERSION_1["ApplicationDetail"], **change}))
    result = run("import", application)
    assert result.exit_code == 1
    assert sentence in result.output


def test_a_reference_table_of_an_application_is_joined(tmp_path: Path):
    reference = {
        "TableName": "CompanyName",
        "S3ReferenceDataSourceDescription": {
            "BucketARN": "arn:aws:s3:::names",
            "FileKey": "a/names.csv",
        },
        "ReferenceSchema": {
            "RecordFormat": {"RecordFormatType": "CSV"},
            "RecordColumns": [
                {"Name": "Ticker", "SqlType": "VARCHAR(4)"},
                {"Name": "Company", "SqlType": "VARCHAR(20)"},
            ],
        },
    }
    code = """CREATE OR REPLACE STREAM "DEST" (ticker VARCHAR(4), company VARCHAR(20), lo DOUBLE);
CREATE STREAM named (ticker VARCHAR(4), company VARCHAR(20));
CREATE OR REPLACE PUMP "P" AS INSERT INTO "DEST" SELECT STREAM s.ticker_symbol, "c"."Company", s.price
FROM "SOURCE_SQL_STREAM_001" AS s LEFT JOIN "CompanyName" AS "c" ON s.ticker_symbol = "c"."Ticker";"""
    detail = VERSION_1["ApplicationDetail"] | {
        "ApplicationCode": code,
        "ReferenceDataSourceDescriptions": [reference],
    }
    application, queries, case = (tmp_path / name for name in ("a.json", "a.sql", "a.yaml"))
    application.write_text(json.dumps(detail))
    assert run("import", application, "-o", queries).exit_code == 0
    assert "s3://names/a/names.csv" in queries.read_text()
    case.write_text(
        "- input:\n"
        "    - {stream: 's3://names/a/names.csv', value: 'AMZN,Amazon'}\n"
        "    - {stream: ticks, value: {ticker_symbol: AMZN, price: 10.0}}\n"
        "    - {stream: ticks, value: {ticker_symbol: X, price: 1.0}}\n"
        "  output: {DEST: [{company: Amazon, lo: 10.0}, {company: null, lo: 1.0}]}\n"
    )
    result = run("test", "--dialect", "kinesis-analytics", queries, case)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("text", ["{", "[]", "5", "{}"])
def test_a_file_that_describes_no_application_is_refused(tmp_path: Path, text: str):
    (tmp_path / "a.json").write_text(text)
    result = run("import", tmp_path / "a.json")
    assert result.exit_code == 1
    assert "no description of an application" in result.output


def test_a_row_pattern_is_not_run_without_the_packages_that_its_job_needs(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    pattern = "MATCH_RECOGNIZE (MEASURES a.dep_delay AS d PATTERN (a)) AS m"
    file.write_text(
        DELAYS.partition("CREATE TABLE")[0] + f"CREATE STREAM x AS SELECT d FROM flights {pattern};"
    )
    result = CliRunner().invoke(headrace, ["sql", "run", str(file)])
    assert result.exit_code == 1
    assert "needs pandas and PyArrow in the job, which EMR's images lack" in result.output


@pytest.mark.parametrize(
    ("dialect", "text"), [("ksql", DELAYS), ("kinesis-analytics", 'CREATE STREAM "A" (n INTEGER);')]
)
def test_the_commands_of_run_make_the_job_and_name_no_local_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, text: str
) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(submit, "_run", lambda _make, plan, *_, **__: plans.append(plan) or True)
    monkeypatch.setattr(submit, "_check_spark", lambda _: None)
    monkeypatch.setattr(sql, "_prepare_cloud", lambda *_: None)
    monkeypatch.setattr(sql, "_compile", lambda *_: "print()")
    file = tmp_path / "q.sql"
    file.write_text(text)
    done = CliRunner().invoke(headrace, ["sql", "run", str(file), "--dialect", dialect])
    assert done.exit_code == 0, done.output
    make, copy = plans[0].upload_commands()
    spoken = "" if dialect == "ksql" else f" --dialect {dialect}"
    assert make == f"headrace sql compile {file} -o q.py{spoken}"
    assert copy.startswith("aws s3 cp --region us-east-1 q.py s3://")
    assert "127.0.0.1" not in plans[0].step_command("j-1")


@pytest.mark.parametrize("text", ["", " ;\n"])
def test_a_query_of_nothing_is_refused(queries: Path, text: str) -> None:
    done = CliRunner().invoke(headrace, ["sql", "query", str(queries), text])
    assert (done.exit_code, done.output) == (1, "Error: there is no SELECT to answer\n")


@pytest.mark.parametrize(
    ("text", "code"), [("DEFINE a = 'b';", 0), ("SELEC 1;\nDEFINE a = 'b';", 1)]
)
def test_a_script_at_the_prompt_ends_with_1_if_a_statement_failed(text: str, code: int) -> None:
    assert CliRunner().invoke(headrace, ["sql"], input=text).exit_code == code


@pytest.mark.parametrize(
    ("text", "shown", "said"),
    [
        (
            "CREATE TYPE a AS INT; SELEC 1; SHOW TYPES; SHOW GARDENS; DESCRIBE x; SHOW TYPES",
            ["ok", "a  INT", "no stream, table or query 'x'", "a  INT"],
            ["line 1, column 23: 'SELEC'", "line 1, column 44: SHOW GARDENS"],
        ),
        (
            "DEFINE a = 'x; y'; -- a comment;\n/* no; end\n;*/ SHOW VARIABLES;",
            ["a  x; y"],
            [],
        ),
        (
            "SHOW 'TYPES; SHOW TYPES;\nDEFINE b = '1';\nSHOW VARIABLES;",
            ["b  1"],
            ["line 1, column 6: the '"],
        ),
        (
            ";;\n# ; CREATE\nTYPE -- t;\nu AS INT;SHOW TYPES;",
            ["ok", "u  INT"],
            ["line 1, column 1: '#'"],
        ),
    ],
)
def test_a_bad_statement_at_the_prompt_takes_no_other_of_its_line_with_it(
    text: str, shown: list[str], said: list[str]
) -> None:
    done = CliRunner().invoke(headrace, ["sql"], input=text)
    assert done.stdout.splitlines() == shown
    mistakes = done.stderr.splitlines()
    assert len(mistakes) == len(said)
    assert all(one.startswith(start) for one, start in zip(mistakes, said, strict=True))
    assert done.exit_code == (1 if said else 0)


def test_texts_of_too_many_levels_are_refused(queries: Path, tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000, encoding="utf-8")
    done = CliRunner().invoke(headrace, ["sql", "import", str(deep)])
    assert (done.exit_code, "is no description of an application" in done.output) == (1, True)
    done = CliRunner().invoke(headrace, ["sql", "test", str(queries), str(deep)])
    assert (done.exit_code, done.output.startswith("Error: ")) == (1, True)


def test_a_checkpoint_that_spark_cannot_store_is_refused_before_a_step(queries: Path) -> None:
    options = ["sql", "run", str(queries), "--checkpoint", "ftp://x/"]
    done = CliRunner().invoke(headrace, options)
    assert done.exit_code == 1
    assert "--checkpoint ftp://x/: Spark stores in s3, s3a" in done.output


def test_run_refuses_to_read_the_records_that_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text(
        "CREATE STREAM s (a INT) WITH (stream = 'flights'); CREATE STREAM t AS SELECT a FROM s;"
    )
    result = CliRunner().invoke(headrace, ["sql", "run", str(file), "--errors", "flights"])
    assert result.exit_code == 1
    assert "the queries read flights, and so the records of --errors" in result.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"separatorChar": ";", "quoteChar": '"'}, ""),
        ({"quoteChar": "'"}, "has quoteChar \"'\", and CSV is read with '\"' alone"),
        ({"serialization.null.format": "\\N"}, "an empty field is NULL"),
    ],
)
def test_a_glue_tables_options_of_csv_are_read_or_refused(
    options: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {
        "SerdeInfo": {"Parameters": options},
        "Columns": [{"Name": "a", "Type": "int"}],
        "Parameters": {"classification": "csv"},
    }
    answer = {"Table": {"StorageDescriptor": storage}}
    monkeypatch.setattr(Cloud, "_glue", lambda *_, **__: answer)
    cloud = Cloud(Path(), endpoint_url="http://none", region="us-east-1", aws=False)
    if sentence:
        with pytest.raises(SqlError, match=re.escape(sentence)):
            cloud.table("lake", "t", Location())
    else:
        assert cloud.table("lake", "t", Location()).delimiter == ";"


def test_a_run_with_an_end_names_the_windows_that_it_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "q.sql"
    text = DELAYS.replace("GROUP BY origin", "GROUP BY origin EMIT FINAL")
    monkeypatch.setattr(sql, "_prepare_cloud", lambda *_: None)
    monkeypatch.setattr(submit.submit, "callback", lambda **_: None)
    for given, once, names in ((text, True, True), (text, False, False), (DELAYS, True, False)):
        file.write_text(given)
        done = CliRunner().invoke(
            headrace, ["sql", "run", str(file), *(["--once"] if once else [])]
        )
        assert done.exit_code == 0, done.output
        sentence = "warning: line 5: delays writes a window when it is closed; with --once"
        assert (sentence in done.output) is names
