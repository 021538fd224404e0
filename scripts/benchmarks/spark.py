"""Measures Spark: the Kinesis source and sink beside code over boto3, in the same run.

Cloud and Spark share this machine's cores (`local[2]`). A query reads and counts a backlog: rows per second over the
query's batches, and the time of each part from the query's own progress; beside it a row-by-row Python source over
boto3 (on Spark 3.5 a foreachBatch). Then a query writes rows with every key in order, beside a foreachBatch over boto3.
AWS's read limits are off, because they restrict a shard to 2 MiB per second.

With `--start` it measures a step from its request to its end, by part (`spark_start.py`).
Without `--spark` and `--start` it also measures single records in a running query (the time from the put to the row,
without and with state) and an EMR step (the time from AddJobFlowSteps to the job's first line, beside a bare
`spark-submit` of the same job).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from headrace.spark.client import KinesisClient
from headrace.spark.get_records import parse_page, parse_records
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import Options
from headrace.spark.spool import ShardSpool
from headrace.spark_submit import JobRefused
from headrace.spark_submit.emr_releases import DEFAULT_LABEL
from headrace.spark_submit.sparks import find_spark_home
from scripts.benchmarks.servers import running
from scripts.benchmarks.spark_measures import (
    REGION,
    Bench,
    Run,
    counts,
    session,
)
from scripts.benchmarks.spark_start import run_step, start_table
from scripts.spark_matrix import MATRIX, environment_of

ROOT = Path(__file__).parents[2]
SINK_GOAL = 60_000


def parts(bench: Bench, stream: str) -> dict[str, float]:
    """Return rows per second of the planner's three parts, each alone in one thread: fetching, parsing, spooling."""
    client = KinesisClient(Options(stream=stream, region=REGION, endpoint_url=bench.endpoint_url))
    iterator = client.iterator(client.shards()[0].shard_id, None, TrimHorizon())
    request = json.dumps({"ShardIterator": iterator, "Limit": 10_000}).encode()
    began = time.perf_counter()
    # The same page again and again.
    bodies = [client.send("GetRecords", request) for _ in range(5)]
    fetched_s = time.perf_counter() - began
    began = time.perf_counter()
    for body in bodies:
        parse_records(body)
    parsed_s = time.perf_counter() - began
    spool = ShardSpool(bench.folder / "spool", 0)
    began = time.perf_counter()
    for body in bodies:
        spool.append(parse_page(body))
    spooled_s = time.perf_counter() - began
    client.close()
    rows = spool.end
    return {"fetch": rows / fetched_s, "parse": rows / parsed_s, "spool": rows / spooled_s}


JOB = """\
import time
print("moment", time.monotonic(), flush=True)
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("moment", time.monotonic(), flush=True)
spark.stop()
"""


def _moments(text: str) -> tuple[float, float]:
    words = [line.split() for line in text.splitlines() if line.startswith("moment ")]
    return float(words[0][1]), float(words[1][1])


def bare_s(folder: Path) -> tuple[float, float]:
    """Return the seconds from a bare spark-submit to the job's first line and to its session."""
    job = folder / "job.py"
    job.write_text(JOB)
    command = [str(find_spark_home() / "bin" / "spark-submit"), "--master", "local[2]", str(job)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, session = _moments(done.stdout)
    return first - began, session - began


def step_s(endpoint_url: str) -> tuple[float, float, float]:
    """Return a step's seconds from AddJobFlowSteps to RUNNING, to the job's first line, and to its session."""
    began, running, _, output = run_step(endpoint_url, DEFAULT_LABEL, JOB)
    first, session = _moments(output)
    return running - began, first - began, session - began


def measured(python: Path, asked: dict[str, Any]) -> dict[str, float]:
    """Return the figures of one Spark, run by its interpreter. Raises ClickException with the end of its output."""
    program = "from scripts.benchmarks.spark_measures import main; main()"
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", program, json.dumps(asked)],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not last.startswith("figures "):
        raise click.ClickException(done.stderr[-3000:] + done.stdout[-1000:])
    return json.loads(last.removeprefix("figures "))


def compare(console: Console, versions: list[str], records: int, slow: int, sink: int) -> None:
    """Print a table with a row for each Spark. Raises JobRefused if a Spark cannot be installed."""
    table = Table(
        "Spark", "source, rows/s", "row by row", "times", "sink, rows/s", "over boto3", "times",
        "every key in order",
    )  # fmt: skip
    # Install missing environments before any measurement.
    pythons = {version: environment_of(version).interpreter for version in versions}
    with running("headrace") as cloud:
        for version, python in pythons.items():
            found = measured(python, {
                "endpoint_url": f"http://127.0.0.1:{cloud.port}", "records": records,
                "slow_records": slow, "sink_records": sink,
            })  # fmt: skip
            cells = [f"{found['source']:,.0f}", f"{found['row by row']:,.0f}"]
            cells.append(f"{found['source'] / found['row by row']:.1f}")
            if "sink, kinesis" in found:
                ours, theirs = found["sink, kinesis"], found["sink, boto3"]
                cells += [f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}"]
                cells.append("yes" if found["keys in order"] else "NO")
            table.add_row(version, *cells)
    console.print(table)


def sink_rows(bench: Bench, records: int) -> list[tuple[str, float, str, str, bool | None]]:
    """Return the table's rows for the sink."""
    frame = bench.rows_to_write(records)
    for form in ("kinesis", "boto3"):
        bench.written(form, f"warm-up-{form}", frame)
    ours, theirs = (
        bench.written(form, f"sink-{form}", frame).rate for form in ("kinesis", "boto3")
    )
    in_order = bench.is_in_order("sink-kinesis", records)
    return [
        (
            "sink, 100 B, every key in order",
            ours,
            "rows/s",
            f">= {SINK_GOAL:,}",
            ours >= SINK_GOAL and in_order,
        ),
        ("foreachBatch over boto3, 100 B", theirs, "rows/s", "", None),
    ]


@click.command()
@click.option("--records", default=3_200_000, show_default=True, help="Backlog of 100 B records.")
@click.option(
    "--slow-records", default=100_000, show_default=True, help="The alternative's backlog."
)
@click.option("--sink-records", default=600_000, show_default=True, help="Rows to write.")
@click.option("--puts", default=15, show_default=True, help="Single records for the latencies.")
@click.option(
    "--spark",
    "which",
    help=f"Compare Sparks, installed on first use: all, or, comma-separated, some of {', '.join(MATRIX)}.",
)
@click.option(
    "--start",
    "labels",
    help="Measure the parts of a step's start on comma-separated release labels.",
)
@click.option("--rounds", default=3, show_default=True, help="Rounds of --start; the least counts.")
def main(
    records: int,
    slow_records: int,
    sink_records: int,
    puts: int,
    which: str | None,
    labels: str | None,
    rounds: int,
) -> None:
    """Measure the Kinesis source and sink on two local cores."""
    console = Console()
    if labels is not None:
        with running("headrace") as cloud:
            endpoint_url = f"http://127.0.0.1:{cloud.port}"
            console.print(start_table(endpoint_url, labels.split(","), rounds))
        return
    if which is not None:
        versions: list[str] = [*MATRIX] if which == "all" else which.split(",")
        if unknown := set(versions) - set(MATRIX):
            raise click.ClickException(
                f"no Spark {', '.join(unknown)}; there are: {', '.join(MATRIX)}"
            )
        try:
            compare(console, versions, records, slow_records, sink_records)
        except JobRefused as error:
            raise click.ClickException(str(error)) from error
        return
    spark = session()
    rows: list[tuple[str, float, str, str, bool | None]] = []
    with running("headrace") as cloud, tempfile.TemporaryDirectory() as name:
        bench = Bench(spark, f"http://127.0.0.1:{cloud.port}", Path(name))
        shares: dict[str, Run] = {}
        for size, count in ((100, records), (1024, records // 2)):
            run, slow = counts(bench, count, slow_records, size)
            shares[f"backlog-{size}"] = run
            goal = 300_000 if size == 100 else None
            rows.append((
                f"source to a count, {size} B", run.rate, "rows/s",
                f">= {goal:,}" if goal else "", run.rate >= goal if goal else None,
            ))  # fmt: skip
            rows.append((f"row by row over boto3, {size} B", slow.rate, "rows/s", "", None))
            ratio = run.rate / slow.rate
            rows.append((f"times the alternative, {size} B", ratio, "x", ">= 10", ratio >= 10))
        rows += sink_rows(bench, sink_records)
        for stateful, most in ((False, 1000), (True, 2000)):
            kind = "stateful" if stateful else "stateless"
            p50 = statistics.median(bench.latency_ms(kind, stateful=stateful, puts=puts))
            rows.append((f"put to row, p50, {kind}", p50, "ms", f"< {most:,}", p50 < most))
        alone = parts(bench, "backlog-100")
        spark.stop()
        bare = bare_s(Path(name))
        running_s, *step = step_s(bench.endpoint_url)
        rows.append(("step, AddJobFlowSteps to RUNNING", running_s * 1000, "ms", "", None))
        more_s = step[0] - bare[0]
        rows.append((
            "step to its first line, beyond spark-submit's own", more_s * 1000, "ms",
            "< 3,000", more_s < 3,
        ))  # fmt: skip
    table = Table("what", "value", "unit", "target", "met")
    for what, value, unit, target, met in rows:
        table.add_row(what, f"{value:,.1f}", unit, target, "" if met is None else str(met))
    console.print(table)
    for stream, run in shares.items():
        costs = ", ".join(
            f"{part} {seconds / run.rows * 1e6:.1f}" for part, seconds in run.processor_s.items()
        )
        console.print(
            f"{stream}: {run.rows:,} rows in {run.seconds:.2f} s of batches; ms: {run.parts_ms}; "
            f"processor time, µs a row: {costs}"
        )
    console.print(
        "to the first line and the session: "
        f"spark-submit {bare[0]:.2f} and {bare[1]:.2f} s, step {step[0]:.2f} and {step[1]:.2f} s"
    )
    console.print("alone, rows/s of 100 B: " + ", ".join(f"{k} {v:,.0f}" for k, v in alone.items()))


if __name__ == "__main__":
    main()
