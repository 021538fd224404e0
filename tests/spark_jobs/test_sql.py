"""What `headrace sql compile` writes gives the rows that the fold of the same plans gives, on the same records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record
from headrace.sql.plan import Script
from headrace.sql.pyspark_job import compile_script

FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
SCHEMA = (
    "data BINARY, streamName STRING, partitionKey STRING, sequenceNumber STRING,"
    " approximateArrivalTimestamp TIMESTAMP"
)
RELATIONS = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, carrier VARCHAR, origin VARCHAR, dep_delay INT,
  ratio DOUBLE, cancelled BOOLEAN, tags ARRAY<VARCHAR>, seen STRUCT<at VARCHAR, n INT>)
  WITH (stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM weather (origin VARCHAR KEY, at_ms BIGINT, temp DOUBLE) WITH (stream = 'weather', timestamp = 'at_ms');
CREATE TABLE planes (carrier VARCHAR PRIMARY KEY, seats INT) WITH (stream = 'planes');
CREATE STREAM ticks (symbol VARCHAR, price DOUBLE, sold BIGINT)
  WITH (stream = 'ticks', format = 'DELIMITED', timestamp = 'sold');
"""
QUERIES = """
CREATE STREAM late AS SELECT *, ROWTIME AS ms FROM flights WHERE dep_delay > 15 OR cancelled;
CREATE STREAM text_of AS SELECT event_id, UCASE(carrier) || '-' || origin AS a, SUBSTRING(origin, 2) AS b, LEN(origin) AS c,
  LPAD(carrier, 4, '*') AS d, REPLACE(origin, 'E', 'e') AS e, SPLIT(event_time, '-') AS f, INITCAP(origin) AS g,
  CAST(ratio AS VARCHAR) AS h, CAST(dep_delay AS VARCHAR) AS i, REGEXP_EXTRACT(origin, '[A-J]+') AS j,
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
  REDUCE(tags, '', (s, x) => s || x) AS o FROM flights;
CREATE STREAM times AS SELECT event_id, FROM_UNIXTIME(ROWTIME) AS a, TIMESTAMPTOSTRING(ROWTIME, 'yyyy-MM-dd HH:mm:ss.SSS') AS b,
  STRINGTOTIMESTAMP(event_time, 'yyyy-MM-dd''T''HH:mm:ssX') AS c FROM flights;
CREATE STREAM exploded AS SELECT EXPLODE(tags) AS tag, origin FROM flights PARTITION BY carrier;
CREATE STREAM joined AS SELECT f.event_id, w.temp, f.origin FROM flights f LEFT JOIN weather w
  WITHIN 1 HOURS GRACE PERIOD 2 HOURS ON f.origin = w.origin;
CREATE STREAM seated AS SELECT f.event_id, p.seats FROM flights f LEFT JOIN planes p ON f.carrier = p.carrier;
CREATE TABLE by_carrier AS SELECT carrier, COUNT(*) AS n, COUNT(dep_delay) AS m, SUM(dep_delay) AS s, AVG(dep_delay) AS a,
  MIN(dep_delay) AS lo, MAX(ratio) AS hi, COLLECT_LIST(dep_delay) AS l, TOPK(dep_delay, 2) AS k, HISTOGRAM(origin) AS h,
  LATEST_BY_OFFSET(dep_delay) AS la, EARLIEST_BY_OFFSET(dep_delay) AS ea, COUNT(DISTINCT origin) AS d,
  COLLECT_SET(origin) AS se, STDDEV_SAMP(dep_delay) AS sd FROM flights GROUP BY carrier HAVING COUNT(*) > 1;
CREATE TABLE hourly AS SELECT origin, COUNT(*) AS n, SUM(dep_delay) / COUNT(*) AS mean FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOURS) WHERE NOT cancelled GROUP BY origin EMIT CHANGES;
CREATE TABLE closed AS SELECT origin, COUNT(*) AS n FROM flights
  WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES, GRACE PERIOD 1 HOURS) GROUP BY origin EMIT FINAL;
CREATE TABLE sessions AS SELECT origin, COUNT(*) AS n FROM flights WINDOW SESSION (20 MINUTES, GRACE PERIOD 1 HOURS)
  GROUP BY origin EMIT FINAL;
CREATE STREAM trades AS SELECT symbol, price, sold FROM ticks WHERE price > 1;
"""


def flight(event_id: str, minute: int, **fields: Any) -> tuple[str, str, Any]:
    time = datetime(2013, 1, 1, 5, tzinfo=UTC) + timedelta(minutes=minute)
    value = {"event_id": event_id, "event_time": f"{time:%Y-%m-%dT%H:%M:%S}Z", "cancelled": False}
    return "flights", event_id, value | fields


def at_ms(minute: int) -> int:
    return round((datetime(2013, 1, 1, 5, tzinfo=UTC).timestamp() + minute * 60) * 1000)


RECORDS = [
    ("planes", "UA", {"seats": 100}),
    ("planes", "AA", {"seats": 80}),
    ("planes", "UA", {"seats": 120}),
    ("planes", "AA", ""),
    ("weather", "EWR", {"temp": 1.5, "at_ms": at_ms(30)}),
    flight("a", 10, carrier="UA", origin="EWR", dep_delay=20, ratio=2.5, tags=["x", "y", "x"]),
    flight("b", 20, carrier="AA", origin="EWR", dep_delay=3, ratio=-0.5, tags=[]),
    ("flights", "c", "garbage"),
    ("flights", "t", {"event_time": "yesterday", "carrier": "UA"}),
    flight("d", 80, carrier="UA", origin="JFK", dep_delay=-5, ratio=1e10, seen={"at": "z", "n": 4}),
    flight("e", 25, carrier="UA", origin="EWR", dep_delay=None, ratio=None, cancelled=True),
    flight("f", 85, carrier="AA", origin="JFK", dep_delay=16, ratio=0.1, tags=["q"]),
    # It closes the windows before it.
    flight("z", 1200, carrier="ZZ", origin="LGA", dep_delay=0, ratio=3.0),
    ("weather", "LGA", {"temp": 2.0, "at_ms": at_ms(1300)}),
    ("ticks", "k", f"AMZN,1.5,{at_ms(1)}"),
    ("ticks", "k", f"TBV,0.5,{at_ms(2)}"),
    ("ticks", "k", f'"A, B",7,{at_ms(3)}'),
    ("ticks", "k", "one,two"),
]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[None]:
    """Give back the session as the other tests have it."""
    no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
    names = (
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        no_data,
    )
    before = {name: spark.conf.get(name) for name in names}
    # As tests of other jobs leave it: the compiled job sets what it needs itself.
    spark.conf.set(no_data, False)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def run_job(
    spark: SparkSession, script: Script, records: list[tuple[str, str, Any]], folder: Path
) -> Callable[[str], list[dict[str, Any]]]:
    """Run the compiled job on files in place of streams; return what reads a stream's rows."""
    rows: dict[str, list[Any]] = {}
    for index, (stream, key, value) in enumerate(records):
        data = value if isinstance(value, str) else json.dumps(value)
        arrival = datetime(2026, 1, 1) + timedelta(seconds=index)
        row = (bytearray(data.encode()), stream, key, str(10**55 + index), arrival)
        rows.setdefault(stream, []).append(row)
    for stream, of_stream in rows.items():
        frame = spark.createDataFrame(of_stream, SCHEMA).coalesce(1)
        frame.write.parquet(str(folder / "in" / stream))
    job = ModuleType(__name__)
    exec(
        compile(compile_script(script, "A test."), "sql_job.py", "exec", dont_inherit=True),
        job.__dict__,
    )

    def read_kinesis(session: SparkSession, _arguments: Any, stream: str) -> DataFrame:
        return session.readStream.schema(SCHEMA).parquet(str(folder / "in" / stream))

    def write_kinesis(
        frame: DataFrame, arguments: Any, stream: str, name: str, mode: str, progress: str
    ) -> Any:
        def write(batch: DataFrame, _batch_id: int) -> None:
            batch.coalesce(1).write.mode("append").parquet(str(folder / "out" / stream))

        writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
        return writer.option("checkpointLocation", progress).trigger(availableNow=True).start()

    job.__dict__.update(read_kinesis=read_kinesis, write_kinesis=write_kinesis)
    job.main(["--region", "us-east-1", "--checkpoint", str(folder / "progress"), "--once"])

    def read(stream: str) -> list[dict[str, Any]]:
        written = spark.read.schema("data STRING, partitionKey STRING").parquet(
            str(folder / "out" / stream)
        )
        values = [json.loads(row.data) | {"_key": row.partitionKey} for row in written.collect()]
        return [{k: v for k, v in value.items() if k != "_event_id"} for value in values]

    return read


def fold_of(script: Script, records: list[tuple[str, str, Any]]) -> Fold:
    """Return the fold without its end: Spark too closes what a later row closes."""
    fold = Fold(script)
    for index, (stream, key, value) in enumerate(records):
        arrival = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=index)
        fold.take(stream, Record(value, key, arrival))
    return fold


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as texts, numbers to 12 digits: Java's logarithms differ from Python's in the last one."""
    texts = (json.dumps(row, sort_keys=True) for row in rows)
    return sorted(FLOAT.sub(lambda number: f"{float(number[0]):.12g}", text) for text in texts)


def test_a_compiled_job_gives_the_rows_of_the_fold(
    spark: SparkSession, settings: None, tmp_path: Path
) -> None:
    script = read_script(RELATIONS + QUERIES)
    fold = fold_of(script, RECORDS)
    read = run_job(spark, script, RECORDS, tmp_path)
    differences: dict[str, Any] = {}
    for query in script.queries:
        rows = [row.columns | {"_key": row.key or "-"} for row in fold.results[query.name]]
        if query.is_aggregate and query.emit == "CHANGES":
            # Spark's one micro-batch has a group's last row alone.
            keys = [key.name for key in query.keys]
            rows = list(
                {
                    (*(row.get(k) for k in keys), row.get("WINDOWSTART")): row for row in rows
                }.values()
            )
        job_rows = read(query.target.stream or query.target.name)
        if in_order(job_rows) != in_order(rows):
            differences[query.name] = (
                [row for row in in_order(job_rows) if row not in in_order(rows)],
                [row for row in in_order(rows) if row not in in_order(job_rows)],
            )
    assert not differences, json.dumps(differences, indent=1)
