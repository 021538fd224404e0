"""Measures streaming SQL: compiled jobs beside hand-written PySpark in the same session, `sql test`, and the prompt.

Each job reads a backlog of records of 100 B from a stream, on two cores, and writes into another one; both forms read
and write by headrace's source, in turn, and the better of two runs counts. Processor time is that of Spark and its
Python workers. The hand-written join keeps the table's rows in a folder, as the compiled one does.
"""

from __future__ import annotations

import json
import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import click
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.window import Window
from rich.console import Console
from rich.table import Table

from headrace.spark.client import KinesisClient
from headrace.spark.options import SinkOptions
from headrace.spark.sink import MOST_RECORDS, Sender
from headrace.sql.analysis import Analysis, read_script
from headrace.sql.parsing import parse
from headrace.sql.pyspark_job import compile_script
from headrace.sql.statements import Query
from headrace.sql.views import LocalFiles, View, pull
from scripts.benchmarks.servers import running
from scripts.benchmarks.spark_by_hand import REGION
from scripts.benchmarks.spark_measures import Bench, session, set_credentials

GOAL = 0.8
AIRPORTS = 500
WARM_UP = 20_000
DECLARED = """
CREATE STREAM flights (id VARCHAR KEY, airport VARCHAR, delay INT, ms BIGINT)
  WITH (stream = 'BACKLOG', timestamp = 'ms');
CREATE TABLE airports (airport VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 'airports');
"""
QUERIES = {
    "filter": "CREATE STREAM OUT AS SELECT id, airport, delay FROM flights WHERE delay >= 30;",
    "tumbling count": """CREATE TABLE OUT AS SELECT airport, COUNT(*) AS n FROM flights
      WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 HOUR) GROUP BY airport EMIT FINAL;""",
    "stream-table join": """CREATE STREAM OUT AS SELECT flights.id, airports.name FROM flights
      JOIN airports ON flights.airport = airports.airport WHERE flights.delay >= 30;""",
}
SCHEMA = "id STRING, airport STRING, delay INT, ms BIGINT"
COUNT_CASES = 100
# As a job cuts a table's files.
ROWS_OF_FILE = 32_768
PULLS, PULL_GOAL_MS = 300, 50


def fill(bench: Bench, stream: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Create a stream with records, pairs of data and key."""
    bench.create(stream)
    client = KinesisClient(
        SinkOptions(stream=stream, region=REGION, endpoint_url=bench.endpoint_url)
    )
    sender = Sender(
        client.put_records,
        stream,
        ordered=False,
        ttl_s=60,
        clock_s=time.monotonic,
        sleep=time.sleep,
    )
    step = 10 * MOST_RECORDS
    for first in range(0, len(records), step):
        part = records[first : first + step]
        sender.add([data for data, _ in part], [key for _, key in part], None)
        sender.send()
    sender.close()
    client.close()


def flights(count: int) -> list[tuple[bytes, bytes]]:
    """Return records of 100 B: a flight every millisecond."""
    records: list[tuple[bytes, bytes]] = []
    for number in range(count):
        airport, delay = f"A{number % AIRPORTS:03}", number % 90
        row = f'{{"id":"f{number:08}","airport":"{airport}","delay":{delay},"ms":{number + 10**12}'
        records.append((f'{row},"x":"{"":->{100 - len(row) - 8}}"}}'.encode(), b"f%d" % number))
    return records


def processor_s() -> float:
    """Return the seconds of processor time that this process and those below it have used."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def source(bench: Bench, stream: str) -> Any:
    """Return a stream's records."""
    return bench.frame("kinesis", stream)


def parsed(records: Any) -> Any:
    """Return the columns of records of flights, as somebody writes it by hand."""
    value = F.from_json(F.col("data").cast("string"), SCHEMA)
    return records.select(value.alias("v")).select(
        "v.*", F.timestamp_millis(F.col("v.ms")).alias("time")
    )


def put(records: Any, bench: Bench, out: str) -> None:
    """Put rows of data and partitionKey into a stream."""
    options = {"streamName": out, "region": REGION, "endpointUrl": bench.endpoint_url}
    writer = records.writeStream.format("kinesis")
    writer = writer.options(**{f"kinesis.{name}": value for name, value in options.items()})
    writer = writer.option("checkpointLocation", bench.checkpoint()).trigger(availableNow=True)
    writer.start().awaitTermination()


def as_records(rows: Any) -> Any:
    """Return rows as records of JSON."""
    names = [name for name in rows.columns if name != "partitionKey"]
    return rows.select(F.to_json(F.struct(*names)).alias("data"), "partitionKey")


def filtered_by_hand(bench: Bench, stream: str, out: str) -> None:
    """Put the late flights into a stream."""
    rows = parsed(source(bench, stream)).where("delay >= 30")
    rows = rows.select("id", "airport", "delay", F.col("id").alias("partitionKey"))
    put(as_records(rows), bench, out)


def counted_by_hand(bench: Bench, stream: str, out: str) -> None:
    """Put each minute's flights of each airport into a stream."""
    rows = parsed(source(bench, stream)).withWatermark("time", "1 hour")
    counts = rows.groupBy(F.window("time", "1 minute").alias("w"), "airport").count()
    rows = counts.select(
        "airport", "count", F.col("w.start").alias("start"), F.col("airport").alias("partitionKey")
    )
    put(as_records(rows), bench, out)


def joined_by_hand(bench: Bench, stream: str, out: str) -> None:
    """Join each flight with its airport's latest row, whose rows a folder keeps between micro-batches."""
    folder = bench.checkpoint()
    airports = source(bench, "airports").select(
        F.lit("airports").alias("kind"),
        "data",
        F.col("partitionKey").alias("key"),
        "sequenceNumber",
    )
    rows = source(bench, stream).select(
        F.lit("flights").alias("kind"), "data", F.col("partitionKey").alias("key"), "sequenceNumber"
    )

    def take(batch: Any, batch_id: int) -> None:
        batch = batch.persist()
        names = F.from_json(F.col("data").cast("string"), "name STRING").getField("name")
        table = batch.where("kind = 'airports'").select(
            F.col("key").alias("airport"), names.alias("name"), "sequenceNumber"
        )
        if batch_id:
            before = bench.spark.read.schema(table.schema).parquet(f"{folder}/{batch_id - 1}")
            table = table.unionByName(before)
        newest = Window.partitionBy("airport").orderBy(F.desc(F.lpad("sequenceNumber", 60, "0")))
        table = table.withColumn("age", F.row_number().over(newest)).where("age = 1").drop("age")
        table.write.mode("overwrite").parquet(f"{folder}/{batch_id}")
        latest = bench.spark.read.schema(table.schema).parquet(f"{folder}/{batch_id}")
        both = parsed(batch.where("kind = 'flights'")).where("delay >= 30").join(latest, "airport")
        both = as_records(both.select("id", "name", F.col("id").alias("partitionKey")))
        both.write.mode("overwrite").parquet(f"{folder}/rows/batch={batch_id}")
        batch.unpersist()

    writer = rows.unionByName(airports).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", bench.checkpoint()).trigger(availableNow=True)
    writer.start().awaitTermination()
    files = bench.spark.readStream.schema("data STRING, partitionKey STRING")
    put(files.parquet(f"{folder}/rows/*"), bench, out)


BY_HAND: dict[str, Callable[[Bench, str, str], None]] = {
    "filter": filtered_by_hand,
    "tumbling count": counted_by_hand,
    "stream-table join": joined_by_hand,
}


def by_sql(name: str) -> Callable[[Bench, str, str], None]:
    """Return what runs a compiled query."""

    def run(bench: Bench, stream: str, out: str) -> None:
        text = (DECLARED + QUERIES[name]).replace("BACKLOG", stream).replace("OUT", out)
        job = ModuleType("sql_job")
        code = compile_script(read_script(text), "A benchmark.")
        exec(compile(code, "job.py", "exec", dont_inherit=True), job.__dict__)
        # The same source for both: without AWS's pace of a shard's reads.
        job.__dict__["read_kinesis"] = lambda _spark, _arguments, name: source(bench, name)
        with redirect_stdout(StringIO()):
            job.__dict__["main"]([
                "--region", REGION, "--endpoint-url", bench.endpoint_url, "--source-format", "kinesis", "--once",
                "--checkpoint", bench.checkpoint(), "--shuffle-partitions", "2",
            ])  # fmt: skip

    return run


def fill_airports(bench: Bench) -> None:
    """Create the stream of a table."""
    names = [f"A{number:03}" for number in range(AIRPORTS)]
    fill(
        bench,
        "airports",
        [(json.dumps({"name": f"Airport {one}"}).encode(), one.encode()) for one in names],
    )


def compare(bench: Bench, records: int, rounds: int, table: Table) -> bool:
    """Add a row for each query; return whether each SQL job has the goal's share of the hand-written one's rate."""
    fill(bench, "warm-up", flights(WARM_UP))
    fill(bench, "backlog", flights(records))
    fill_airports(bench)
    holds = True
    for number, name in enumerate(QUERIES):
        best: dict[str, tuple[float, float]] = {}
        for turn in range(rounds + 1):
            for form, run in (("sql", by_sql(name)), ("hand", BY_HAND[name])):
                out = f"out_{number}_{form}_{turn}"
                bench.create(out)
                began, used_s = time.monotonic(), processor_s()
                run(bench, "backlog" if turn else "warm-up", out)
                seconds, used_s = time.monotonic() - began, processor_s() - used_s
                if turn and (form not in best or seconds < best[form][0]):
                    best[form] = (seconds, used_s)
        share = best["hand"][0] / best["sql"][0]
        holds = holds and share >= GOAL
        rates = [f"{records / best[form][0]:,.0f}" for form in ("sql", "hand")]
        used = [f"{best[form][1] / records * 1e6:.1f}" for form in ("sql", "hand")]
        table.add_row(
            name, *rates, f"{share:.2f}", *used, f"{best['hand'][1] / best['sql'][1]:.2f}"
        )
    return holds


def tests_s(folder: Path) -> tuple[float, float]:
    """Return the seconds, by the clock and of the processor, of `headrace sql test` with 100 queries and tests."""
    queries, cases = folder / "queries.sql", folder / "cases.yaml"
    lines: list[str] = [DECLARED.replace("BACKLOG", "flights")]
    texts: list[str] = []
    for number in range(COUNT_CASES):
        lines.append(
            f"CREATE STREAM late_{number} AS SELECT id, delay FROM flights WHERE delay > {number};"
        )
        row = f"{{id: a, delay: {number + 1}, ms: 1}}"
        texts.append(
            f"- name: case {number}\n  input:\n    - {{stream: flights, key: a, value: {row}}}\n"
            f"  output:\n    late_{number}: [{{id: a, delay: {number + 1}}}]"
        )
    queries.write_text("\n".join(lines))
    cases.write_text("\n".join(texts) + "\n")
    began, used_s = time.monotonic(), os.times().children_user + os.times().children_system
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "sql", "test", str(queries), str(cases)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if f"{COUNT_CASES} of {COUNT_CASES} tests hold" not in done.stdout:
        raise click.ClickException(done.stdout[-2000:] + done.stderr[-2000:])
    return time.monotonic() - began, os.times().children_user + os.times().children_system - used_s


def pulls_ms(folder: Path, keys: int) -> list[float]:
    """Return the milliseconds of pull queries, a row of `keys` each, sorted; the state is as a job stores it."""
    declared = "CREATE STREAM s (id VARCHAR) WITH (stream = 's');"
    text = f"{declared} CREATE TABLE totals AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
    analysis = Analysis()
    for statement in parse(text):
        analysis.take(statement)
    schema = pa.schema([
        ("id", pa.string()), ("n", pa.int64()), ("_key", pa.string()), ("_rowtime", pa.timestamp("us", tz="UTC")),
        ("_id", pa.string()), ("_batch", pa.int32()), ("_deleted", pa.bool_()),
    ])  # fmt: skip
    (folder / "runs" / "0").mkdir(parents=True)
    (folder / "manifests").mkdir()
    files: list[dict[str, Any]] = []
    for first in range(0, keys, ROWS_OF_FILE):
        names = [f"K{number:09}" for number in range(first, min(first + ROWS_OF_FILE, keys))]
        count, file = len(names), f"part-{first}.parquet"
        columns = [
            names,
            list(range(count)),
            names,
            [None] * count,
            names,
            [0] * count,
            [False] * count,
        ]
        pq.write_table(pa.table(columns, schema=schema), folder / "runs" / "0" / file)
        files.append({"name": file, "rows": count, "least": names[0], "most": names[-1]})
    manifest = {"batch": 0, "previous": -1, "runs": [{"batch": 0, "rows": keys, "files": files}]}
    (folder / "manifests" / f"{0:020}.json").write_text(json.dumps(manifest))
    view = View(analysis.relations["totals"], LocalFiles(folder))
    draw, times = random.Random(1), list[float]()
    for _ in range(PULLS):
        key = f"K{draw.randrange(keys):09}"
        began = time.perf_counter()
        (statement,) = parse(f"SELECT * FROM totals WHERE id = '{key}';")
        assert isinstance(statement, Query)
        (row,) = pull(analysis.plan(statement), view)
        times.append((time.perf_counter() - began) * 1000)
        assert row.columns["id"] == key
    return sorted(times)


class Prompt:
    """`headrace sql` at a terminal of its own."""

    def __init__(self, endpoint_url: str) -> None:
        self._terminal, self._inner = pty.openpty()
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "sql", "--endpoint-url", endpoint_url, "--region", REGION],
            stdin=self._inner, stdout=self._inner, stderr=self._inner, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
        os.close(self._inner)

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._terminal, text.encode() + b"\n")

    def until(self, text: bytes) -> None:
        """Read what is shown up to `text`; what came with it and stands behind it is read next."""
        while text not in self._unread:
            self._unread += os.read(self._terminal, 65_536)
        self._unread = self._unread.partition(text)[2]

    def used_s(self) -> float:
        """Return its processor time so far."""
        return sum(psutil.Process(self._process.pid).cpu_times()[:2])


def prompt_s(endpoint_url: str) -> tuple[float, float, float, float]:
    """Return seconds and processor seconds until the prompt is there, and until a second query's first row is."""
    began = time.monotonic()
    with Prompt(endpoint_url) as prompt:
        prompt.until(b"sql> ")
        ready_s, ready_used_s = time.monotonic() - began, prompt.used_s()
        prompt.type(DECLARED.replace("BACKLOG", "warm-up").replace("\n", " ").strip())
        prompt.until(b"sql> ")
        used_s = row_s = 0.0
        for _ in range(2):
            used_s, began = prompt.used_s(), time.monotonic()
            prompt.type("SELECT airport AS a, name FROM airports EMIT CHANGES LIMIT 1;")
            prompt.until(b'"name":')
            row_s, used_s = time.monotonic() - began, prompt.used_s() - used_s
            prompt.until(b"sql> ")
        return ready_s, ready_used_s, row_s, used_s


@click.command()
@click.option("--records", default=1_000_000, show_default=True, help="Backlog of 100 B records.")
@click.option("--rounds", default=2, show_default=True, help="Runs of each; the better one counts.")
@click.option(
    "--keys", default=1_000_000, show_default=True, help="Keys of the table of pull queries."
)
@click.option("--pull-only", is_flag=True, help="Measure pull queries alone.")
@click.option(
    "--without-spark", is_flag=True, help="Measure pull queries, `sql test` and the prompt."
)
def main(records: int, rounds: int, keys: int, *, pull_only: bool, without_spark: bool) -> None:
    """Measure streaming SQL; exits with 1 if a goal does not hold."""
    console = Console(width=140)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        times = pulls_ms(Path(folder), keys)
    p50, p95 = times[PULLS // 2], times[PULLS * 95 // 100]
    console.print(
        f"pull query, a row of {keys:,} keys: p50 {p50:.1f} ms, p95 {p95:.1f} ms (goal {PULL_GOAL_MS} ms), slowest "
        f"{times[-1]:.0f} ms, load {load:.1f}"
    )
    holds = p95 < PULL_GOAL_MS
    if pull_only:
        sys.exit(0 if holds else 1)
    set_credentials()
    with running("headrace") as cloud, tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            None if without_spark else session(), f"http://127.0.0.1:{cloud.port}", Path(folder)
        )
        if without_spark:
            fill_airports(bench)
        else:
            table = Table(
                "query", "SQL, records/s", "by hand", "share", "SQL, µs of processor", "by hand", "share",
            )  # fmt: skip
            holds = compare(bench, records, rounds, table) and holds
            bench.spark.stop()
            console.print(table)
        holds = commands_hold(bench, console) and holds
    console.print(f"load {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end")
    sys.exit(0 if holds else 1)


def commands_hold(bench: Bench, console: Console) -> bool:
    """Print the times of commands, and return whether each is within its goal."""
    test_s, test_used_s = tests_s(bench.folder)
    ready_s, ready_used_s, row_s, row_used_s = prompt_s(bench.endpoint_url)
    rows = (
        (f"sql test of {COUNT_CASES} queries", test_s, test_used_s, 5.0),
        ("prompt ready", ready_s, ready_used_s, 1.0),
        ("second query's first row", row_s, row_used_s, 1.0),
    )
    for what, seconds, used_s, goal_s in rows:
        console.print(
            f"{what}: {seconds:.2f} s, {used_s:.2f} s of processor time (goal {goal_s:.0f} s)"
        )
    return all(seconds < goal_s for _, seconds, _, goal_s in rows)


if __name__ == "__main__":
    main()
