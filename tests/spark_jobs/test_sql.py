"""What `headrace sql compile` writes gives the rows that the fold of the same plans gives, on the same records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from headrace.sql.avro import avro_encoder
from headrace.sql.functions import FUNCTIONS
from headrace.sql.plan import KINESIS_ANALYTICS
from headrace.sql.statements import Call, walk
from tests.spark_jobs import test_sql_analytics as analytics
from tests.spark_jobs.sql_job import differences, fold_of, in_order, run_job, run_job_on
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture
from tests.unit.sql import test_drifting_records as drift
from tests.unit.sql import test_ksql_facts as ksql_facts
from tests.unit.sql import test_ksql_lecture as lecture
from tests.unit.sql import test_own_functions as own
from tests.unit.sql import test_written_times as written

RELATIONS = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, carrier VARCHAR, origin VARCHAR, dep_delay INT,
  ratio DOUBLE, cancelled BOOLEAN, tags ARRAY<VARCHAR>, seen STRUCT<at VARCHAR, n INT>)
  WITH (stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM weather (origin VARCHAR KEY, at_ms BIGINT, temp DOUBLE) WITH (stream = 'weather', timestamp = 'at_ms');
CREATE TABLE planes (carrier VARCHAR PRIMARY KEY, seats INT) WITH (stream = 'planes');
CREATE TABLE airports (id VARCHAR PRIMARY KEY, title VARCHAR) WITH (stream = 'airports');
CREATE TABLE makers (id INT PRIMARY KEY, title VARCHAR) WITH (stream = 'makers');
CREATE STREAM ticks (symbol VARCHAR, price DOUBLE, sold BIGINT)
  WITH (stream = 'ticks', format = 'DELIMITED', timestamp = 'sold');
CREATE STREAM keyed_ticks (id INT KEY, symbol VARCHAR, price DOUBLE) WITH (stream = 'keyed_ticks', format = 'DELIMITED');
CREATE TABLE pairs (a INT PRIMARY KEY, b VARCHAR PRIMARY KEY, n INT) WITH (stream = 'pairs');
CREATE STREAM alone (id VARCHAR KEY, v ARRAY<INT>) WITH (stream = 'alone', wrap_single_value = false);
CREATE STREAM binary (id VARCHAR, at TIMESTAMP, cents DECIMAL(9,2), day DATE, raw BYTES, tags ARRAY<VARCHAR>,
  counts MAP<VARCHAR, BIGINT>, inner_part STRUCT<x DOUBLE, y BOOLEAN>)
  WITH (stream = 'binary', format = 'AVRO', timestamp = 'at');
"""
QUERIES = """
CREATE STREAM late AS SELECT *, ROWTIME AS ms, ROWPARTITION AS shard, ROWOFFSET AS number FROM flights WHERE dep_delay > 15 OR cancelled;
CREATE STREAM text_of AS SELECT event_id, UCASE(carrier) || '-' || origin AS a, SUBSTRING(origin, 2) AS b, LEN(origin) AS c,
  LPAD(carrier, 4, '*') AS d, REPLACE(origin, 'E', 'e') AS e, SPLIT(event_time, '-') AS f, INITCAP(origin) AS g,
  CAST(ratio AS VARCHAR) AS h, CAST(dep_delay AS VARCHAR) AS i, REGEXP_EXTRACT('[A-J]+', origin) AS j,
  CONCAT(carrier, NULL, origin) AS k, TRIM('  a ') AS l, INSTR(origin, 'W') AS m, CAST(origin AS INT) AS n FROM flights;
CREATE STREAM numbers AS SELECT event_id, dep_delay / 2 AS a, dep_delay % 7 AS b, ratio / 3 AS c, ratio / (dep_delay - 20) AS d,
  ABS(dep_delay) AS e, CEIL(ratio) AS f, FLOOR(ratio) AS g, ROUND(ratio) AS h, ROUND(ratio, 1) AS i, -dep_delay AS j,
  dep_delay * 1000000000 AS k, SQRT(ratio) AS l, POWER(dep_delay, 2) AS m, SIGN(dep_delay) AS n,
  GREATEST(dep_delay, 5) AS o, COALESCE(dep_delay, -1) AS p, LN(ratio) AS q, MOD(dep_delay, 0) AS r FROM flights;
CREATE STREAM logic AS SELECT event_id, dep_delay > 0 AND cancelled AS a, NOT cancelled AS b, dep_delay IS NULL AS c,
  dep_delay BETWEEN 0 AND 20 AS d, carrier IN ('UA', 'AA') AS e, origin LIKE 'E_R%' AS f,
  dep_delay IS DISTINCT FROM 3 AS g, CASE WHEN dep_delay > 15 THEN 'late' WHEN dep_delay IS NULL THEN 'none' ELSE 'ok' END AS h,
  CASE carrier WHEN 'UA' THEN 1 ELSE 2 END AS i FROM flights;
CREATE STREAM collections AS SELECT event_id, tags[1] AS a, tags[-1] AS b, ARRAY_LENGTH(tags) AS c, seen->n AS d,
  TRANSFORM(tags, x => UCASE(x)) AS e, FILTER(tags, x => x <> 'x') AS f, ARRAY['a', carrier] AS g,
  STRUCT(p := carrier, q := dep_delay) AS h, ARRAY_CONTAINS(tags, 'x') AS i, ARRAY_JOIN(tags, '+') AS j,
  MAP('k' := carrier)['k'] AS k, ARRAY_SORT(tags) AS l, ARRAY_DISTINCT(tags) AS m, GENERATE_SERIES(1, 4) AS n,
  REDUCE(tags, '', (s, x) => s || x) AS o,
  GENERATE_SERIES(dep_delay, 0, dep_delay) AS xa, SLICE(tags, dep_delay - 2, 2) AS xb,
  AS_MAP(tags, ARRAY['a']) AS xc, SPLIT(origin, '\\E') AS xd, MAP(carrier := 1, seen->at := 2) AS xe,
  LPAD(origin, dep_delay * 100000000, 'x') AS xf, origin LIKE carrier || '\\' AS xg, GENERATE_SERIES(0, dep_delay * 100000000) AS xh,
  TRANSFORM(MAP('k' := origin), (k, v) => CAST(NULL AS VARCHAR), (k, v) => v) AS xi, REGEXP_REPLACE(origin, '(E)(W)', '$2\\$$1') AS xj,
  CAST(seen AS STRUCT<n VARCHAR, other INT>) AS xk, origin LIKE '_!_W' ESCAPE '!' AS xl,
  origin LIKE '!' || carrier || '!!%' ESCAPE '!' AS yl, origin LIKE 'E\\!%W!\\' ESCAPE '!' AS ym, origin LIKE origin || '!' ESCAPE '!' AS yn,
  origin LIKE '\\' || origin ESCAPE '\\' AS yo, origin LIKE 'E!WR' ESCAPE '!' AS yp, TRANSFORM(tags, (x) => LCASE(x)) AS yq, tags[CAST(seen->n AS BIGINT) - 3] AS yr,
  FROM_UNIXTIME(dep_delay * 1000000000000000000) AS xm, TIMESTAMPADD(YEARS, dep_delay * 100000000, FROM_UNIXTIME(ROWTIME)) AS xn,
  FROM_DAYS(dep_delay * 100000000) AS xo FROM flights;
CREATE STREAM times AS SELECT event_id, FROM_UNIXTIME(ROWTIME) AS a, TIMESTAMPTOSTRING(ROWTIME, 'yyyy-MM-dd HH:mm:ss.SSS') AS b,
  STRINGTOTIMESTAMP(event_time, 'yyyy-MM-dd''T''HH:mm:ssX') AS c FROM flights;
CREATE STREAM exploded AS SELECT EXPLODE(tags) AS tag, origin FROM flights PARTITION BY carrier;
CREATE STREAM side_by_side AS SELECT EXPLODE(tags) AS tag, origin, EXPLODE(GENERATE_SERIES(1, dep_delay - 1)) AS n FROM flights
  WHERE dep_delay < 5 OR dep_delay IS NULL;
CREATE STREAM cubes AS SELECT event_id, CUBE_EXPLODE(ARRAY[origin, carrier]) AS c FROM flights;
CREATE TABLE few AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier HAVING COUNT(*) < 2;
CREATE STREAM keyed AS SELECT * FROM keyed_ticks;
CREATE TABLE of_pairs AS SELECT * FROM pairs;
CREATE STREAM joined AS SELECT f.event_id, w.temp, f.origin, w.ROWPARTITION AS shard, f.ROWOFFSET AS number FROM flights f LEFT JOIN weather w
  WITHIN 1 HOURS GRACE PERIOD 2 HOURS ON f.origin = w.origin;
CREATE STREAM seated AS SELECT f.event_id, p.seats, p.ROWPARTITION AS shard, p.ROWOFFSET AS number FROM flights f LEFT JOIN planes p ON f.carrier = p.carrier;
CREATE STREAM seated_at AS SELECT f.event_id, p.seats, a.title, m.title AS maker FROM flights f
  LEFT JOIN planes p ON f.carrier = p.carrier JOIN airports a ON f.origin = a.id LEFT JOIN makers m ON p.seats + 1 = m.id
  WHERE a.title <> 'none' PARTITION BY f.origin, p.seats;
CREATE TABLE by_carrier AS SELECT carrier, COUNT(*) AS n, COUNT(dep_delay) AS m, SUM(dep_delay) AS s, AVG(dep_delay) AS a,
  MIN(dep_delay) AS lo, MAX(ratio) AS hi, COLLECT_LIST(dep_delay) AS l, TOPK(dep_delay, 2) AS k, HISTOGRAM(origin) AS h,
  LATEST_BY_OFFSET(dep_delay) AS la, EARLIEST_BY_OFFSET(dep_delay) AS ea, COUNT(DISTINCT origin) AS d, LATEST_BY_OFFSET(ROWOFFSET) AS newest,
  COLLECT_SET(origin) AS se, STDDEV_SAMP(dep_delay) AS sd FROM flights GROUP BY carrier HAVING COUNT(*) > 1;
CREATE TABLE hourly AS SELECT origin, COUNT(*) AS n, SUM(dep_delay) / COUNT(*) AS mean FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOURS) WHERE NOT cancelled GROUP BY origin EMIT CHANGES;
CREATE TABLE closed AS SELECT origin, COUNT(*) AS n FROM flights
  WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES, GRACE PERIOD 1 HOURS) GROUP BY origin EMIT FINAL;
CREATE TABLE sessions AS SELECT origin, COUNT(*) AS n FROM flights WINDOW SESSION (20 MINUTES, GRACE PERIOD 1 HOURS)
  GROUP BY origin EMIT FINAL;
CREATE STREAM trades AS SELECT symbol, price, sold FROM ticks WHERE price > 1;
CREATE STREAM of_alone AS SELECT * FROM alone;
CREATE STREAM of_avro AS SELECT *, ROWTIME AS ms, TO_BYTES('eA==', 'base64') AS bytes_of FROM binary;
CREATE STREAM to_avro WITH (format = 'AVRO') AS SELECT * FROM binary WHERE id <> 'none';
"""
# By day others have what these are: hopping and session windows test_sql_late.py, tumbling ones that change
# test_sql_tables.py, and each relation one lookup join.
NIGHTLY = ("closed", "sessions", "few", "hourly", "seated")
TEXT = (
    f"{RELATIONS}{QUERIES}{own.FUNCTIONS}{own.QUERIES}{written.RELATIONS}{written.QUERIES}"
    f"{drift.RELATIONS}{drift.QUERIES}"
)


def flight(event_id: str, minute: int, **fields: Any) -> tuple[str, str, Any]:
    time = datetime(2013, 1, 1, 5, tzinfo=UTC) + timedelta(minutes=minute)
    value = {"event_id": event_id, "event_time": f"{time:%Y-%m-%dT%H:%M:%S}Z", "cancelled": False}
    return "flights", event_id, value | fields


def at_ms(minute: int) -> int:
    return round((datetime(2013, 1, 1, 5, tzinfo=UTC).timestamp() + minute * 60) * 1000)


def build_records() -> list[tuple[Any, Any, Any]]:
    """Return the records of all streams. Not at import: the first text that is read makes the grammar's tables."""
    encode = avro_encoder(read_script(RELATIONS).relations["binary"].schemas[0][1])
    return [
        ("planes", "UA", {"seats": 100}),
        ("planes", "AA", {"seats": 80}),
        ("planes", "UA", {"seats": 120}),
        ("planes", "AA", ""),
        ("airports", "EWR", {"title": "Newark"}),
        ("airports", "JFK", {"title": "Kennedy"}),
        ("makers", "121", {"title": "Boeing"}),
        ("weather", "EWR", {"temp": 1.5, "at_ms": at_ms(30)}),
        flight("a", 10, carrier="UA", origin="EWR", dep_delay=20, ratio=2.5, tags=["x", "y", "x"]),
        flight("b", 20, carrier="AA", origin="EWR", dep_delay=3, ratio=-0.5, tags=[]),
        ("flights", "c", "garbage"),
        ("weather", "EWR", {"temp": 1.5, "at_ms": 2**63 - 1}),
        ("flights", "t", {"event_time": "yesterday", "carrier": "UA"}),
        flight(
            "d", 80, carrier="UA", origin="JFK", dep_delay=-5, ratio=1e10, seen={"at": "z", "n": 4}
        ),
        flight("e", 25, carrier="UA", origin="EWR", dep_delay=None, ratio=None, cancelled=True),
        flight("f", 85, carrier="AA", origin="JFK", dep_delay=16, ratio=0.1, tags=["q"]),
        # It closes the windows before it.
        flight("z", 1200, carrier="ZZ", origin="LGA", dep_delay=0, ratio=3.0),
        ("weather", "LGA", {"temp": 2.0, "at_ms": at_ms(1300)}),
        ("ticks", "k", f"AMZN,1.5,{at_ms(1)}"),
        ("ticks", "k", f"TBV,0.5,{at_ms(2)}"),
        ("ticks", "k", f'"A, B",7,{at_ms(3)}'),
        ("ticks", "k", "one,two"),
        ("ticks", "k", f"ENDED,5,{at_ms(4)}\r\n"),
        ("ticks", "k", f"LINES,5,{at_ms(4)}\nLINES,6,{at_ms(5)}"),
        ("ticks", "k", f'"L ""I""",5,{at_ms(4)}\nLINES,6,{at_ms(5)}'),
        ("ticks", "k", f'"IN\nQUOTES",5,{at_ms(4)}'),
        *(
            ("ticks", "k", f"{text},{at_ms(4)}")
            for text in (
                '"a"b,5',
                'a"b"c,6',
                '"",7',
                '"" ,8',
                '"a,""b",9',
                'x,"5',
                '"x"",10',
                '"""y""",11',
            )
        ),
        *(("keyed_ticks", "7", text) for text in ("A,1.5", "8,B,", "x,C,1", "D,x", "E", ",")),
        ("keyed_ticks", "seven", "A,1.5"),
        *(("pairs", key, {"n": 1}) for key in ("7|x", "8|x", "9|y", "9|y|z", "x|9")),
        *(("pairs", key, None) for key in ("8|x", "9", "x|9")),
        (
            "binary",
            "k",
            encode(
                {
                    "id": "é",
                    "at": "2013-01-01T05:10:00.123Z",
                    "cents": "-12.50",
                    "day": "1969-12-31",
                    "raw": "AAE=",
                    "tags": ["x", None],
                    "counts": {"k": 2**40},
                    "inner_part": {"x": -1.5, "y": True},
                }
            ),
        ),
        *(
            ("alone", f"a{index}", text)
            for index, text in enumerate(
                (
                    "[1, 2]",
                    " [3]\n",
                    "null",
                    "",
                    "x",
                    "4",
                    "[5],[6]",
                    '[7], "v": [8]',
                    '{"v": [9]}',
                    "[10",
                )
            )
        ),
        ("binary", "k", encode({"id": "b", "at": "2013-01-01T05:10:00Z"})),
        ("binary", "k", encode({"id": "no time"})),
        ("binary", "k", b"\x02\x7f"),
        ("binary", "k", "text"),
        *(("calls", "k", one) for one in own.RECORDS),
        *written.build_records(),
        *drift.build_records(),
    ]


def build_facts() -> list[tuple[Any, Any, Any]]:
    return [("one", "key", record) for record in ksql_facts.RECORDS]


def test_a_compiled_job_gives_the_rows_of_the_fold(
    spark: SparkSession, sql_settings: None, tmp_path: Path, nightly: bool
) -> None:
    script = own.script_of(TEXT)
    if not nightly:
        script = replace(script, queries=tuple(q for q in script.queries if q.name not in NIGHTLY))
    records = build_records()
    fold = fold_of(script, [records])
    read = run_job(script, [records], tmp_path, together=not nightly)
    assert not differences(script, fold, read)


@pytest.mark.slow
def test_every_function_gives_what_the_fold_gives(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script = read_script(ksql_facts.queries())
    facts = build_facts()
    read = run_job(script, [facts], tmp_path)
    assert not differences(script, fold_of(script, [facts]), read)


@pytest.mark.slow
@pytest.mark.parametrize("minor", ["3.5", "4.1"])
@pytest.mark.parametrize(
    ("text", "build"),
    [
        (TEXT, build_records),
        (ksql_facts.queries(), build_facts),
    ],
)
def test_a_compiled_job_gives_the_same_rows_on_other_sparks(
    minor: str,
    text: str,
    build: Callable[[], list[Any]],
    spark: SparkSession,
    sql_settings: None,
    tmp_path: Path,
) -> None:
    script, records = own.script_of(text), build()
    read = run_job_on(minor, script, [records], tmp_path)
    assert not differences(script, fold_of(script, [records]), read)


def test_every_function_is_called_in_a_text_that_runs_on_every_spark() -> None:
    scripts = (
        own.script_of(TEXT),
        read_script(ksql_facts.queries()),
        read_script(analytics.TEXT, KINESIS_ANALYTICS),
    )
    called = {
        part.name
        for script in scripts
        for query in script.queries
        for expression in query.expressions()
        for part in walk(expression)
        if isinstance(part, Call)
    }
    assert not FUNCTIONS.keys() - called


@pytest.mark.slow
def test_the_lectures_queries_have_the_folds_rows(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    # Without those that read what these write: files stand in for streams that are there before.
    script = read_script(lecture.OLD + lecture.QUERIES.partition("CREATE STREAM female")[0])
    records = [(stream, one.key, one.data) for stream, one in lecture.RECORDS]
    read = run_job(script, [records], tmp_path)
    assert not differences(script, fold_of(script, [records]), read)


def _expression(draw: random.Random, kind: str, depth: int) -> str:
    """Return an expression of a type over the columns n INT, m BIGINT, x DOUBLE, s and t VARCHAR, b BOOLEAN, a ARRAY<INT>."""
    leaves = {
        "number": ["n", "m", "3", "-7", "0", "a[1]", "LEN(s)"],
        "double": ["x", "1.5E0", "CAST(n AS DOUBLE)", "CAST(t AS DOUBLE)"],
        "text": ["s", "t", "'Ab'", "''", "CAST(n AS VARCHAR)", "CAST(b AS VARCHAR)"],
        "condition": ["b", "n > 2", "s IS NULL", "TRUE", "s LIKE 'a%'", "ARRAY_CONTAINS(a, n)"],
    }
    if depth == 0:
        return draw.choice(leaves[kind])

    def of(other: str) -> str:
        return _expression(draw, other, draw.randrange(depth))

    one, two, yes = of(kind), of(kind), of("condition")
    forms = {
        "number": [
            f"({one} {draw.choice('+-*/%')} {two})", f"ABS({one})", f"LEN({of('text')})", f"GREATEST({one}, {two})",
            f"INSTR({of('text')}, {of('text')})", f"SIGN({of('double')})", f"ARRAY_LENGTH(ARRAY[{one}, {two}])",
        ],
        "double": [
            f"({one} {draw.choice('+-*/')} {two})", f"SQRT({one})", f"CAST({of('number')} AS DOUBLE)",
            f"ABS({one})", f"LEAST({one}, {two})",
        ],
        "text": [
            f"({one} || {two})", f"UCASE({one})", f"SUBSTRING({one}, {draw.randrange(-3, 4)}, {draw.randrange(4)})",
            f"REPLACE({one}, 'b', {two})", f"CAST({of('number')} AS VARCHAR)", f"LPAD({one}, {draw.randrange(6)}, '*')",
            f"TRIM({one})", f"SPLIT({one}, 'b')[{draw.choice([1, 2, -1])}]", f"CONCAT({one}, {two})",
        ],
        "condition": [
            f"({one} {draw.choice(['AND', 'OR'])} {two})", f"(NOT {one})", f"({of('number')} BETWEEN {of('number')} AND 5)",
            f"({of('text')} {draw.choice(['=', '<>', '<', '>='])} {of('text')})", f"({of('double')} IS NULL)",
            f"({of('number')} IN (1, 2, {of('number')}))", f"({of('text')} IS DISTINCT FROM {of('text')})",
            f"({of('text')} LIKE '_b%')",
        ],
    }[kind]  # fmt: skip
    forms += [
        f"CASE WHEN {yes} THEN {one} ELSE {two} END", f"COALESCE({one}, {two})", f"NULLIF({one}, {two})",
    ]  # fmt: skip
    return draw.choice(forms)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_queries_give_the_same_rows(
    seed: int, spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    kinds = ("number", "double", "text", "condition")
    columns = [f"{_expression(draw, kinds[i % 4], 4)} AS c{i}" for i in range(80)]
    window = f"TUMBLING (SIZE {draw.randrange(1, 90)} SECONDS, GRACE PERIOD {draw.randrange(60)} SECONDS)"
    text = f"""CREATE STREAM r (id VARCHAR KEY, n INT, m BIGINT, x DOUBLE, s VARCHAR, t VARCHAR, b BOOLEAN, a ARRAY<INT>, ms BIGINT)
      WITH (stream = 'r', timestamp = 'ms');
    CREATE STREAM rows AS SELECT id, {", ".join(columns)} FROM r;
    CREATE STREAM kept AS SELECT id FROM r WHERE {_expression(draw, "condition", 4)};
    CREATE TABLE groups AS SELECT s, COUNT(*) AS c, SUM({_expression(draw, "number", 2)}) AS d,
      MAX({_expression(draw, "text", 2)}) AS e, AVG({_expression(draw, "double", 2)}) AS f,
      COLLECT_LIST({_expression(draw, "number", 2)}) AS g FROM r WINDOW {window}
      GROUP BY s HAVING COUNT(*) > {draw.randrange(2)} EMIT FINAL;"""

    def record(number: int) -> tuple[str, str, Any]:
        values = {
            "n": [0, 1, 2, 3, -7, 2**31 - 1], "m": [0, 5, -1, 2**40], "x": [0.0, 0.5, -2.25, 1e10], "s": ["", "a", "abA", "b"],
            "t": ["1", " 2 ", "x b", "Éb"], "b": [True, False], "a": [[], [1, 2], [3, None]],
        }  # fmt: skip
        row = {name: draw.choice([*of, None]) for name, of in values.items()}
        return "r", f"k{number}", row | {"ms": 10**12 + 1000 * draw.randrange(300)}

    batches = [[record(10 * part + number) for number in range(10)] for part in range(4)]
    batches.append([("r", "end", {"s": "a", "ms": 2 * 10**12})])
    script = read_script(text)
    read, fold = run_job(script, batches, tmp_path), fold_of(script, batches)
    of_job = {row["id"]: row for row in read("rows")}
    wrong = {
        columns[int(name[1:])]: (of_job[row.columns["id"]][name], value)
        for row in fold.results["rows"]
        for name, value in row.columns.items()
        if name != "id"
        and in_order([{"v": of_job[row.columns["id"]][name]}]) != in_order([{"v": value}])
    }
    assert not wrong
    assert not differences(script, fold, read), text
