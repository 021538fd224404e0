"""`make run`: runs the whole pipeline on a local cloud and checks every stage against plain pandas.

Starts from an empty cloud in `.headrace/` each time, deploys the CDK app with the CDK CLI, replays flights with
boto3, submits the Spark step with the AWS CLI: nothing here that a user of AWS would not do.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pandas as pd
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from headrace.cli import flights
from headrace.cli.interrupts import INTERRUPTED
from headrace.cli.options import words_of
from headrace.cli.pacing import parse_speed
from headrace.cli.putting import PutFailed, Putter
from headrace.cli.replay import replay_events
from headrace.cli.running_cloud import LOG_FILE, health
from headrace.store.data_dir import LOCK_FILE
from scripts import reference

ROOT = Path(__file__).parent.parent
ACCOUNT, REGION = "000000000000", "us-east-1"
JANUARY = 1
# Not the script: the first line of a script cannot name an interpreter in a folder with a space.
AWS = [sys.executable, "-m", "awscli"]
LOOK_EVERY_S = 0.2
STAGE_WITHIN_S = 600.0
STEP_STATES_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED"}

# A log or a pipe has no width of its own: the tables need this much.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


class StageError(RuntimeError):
    """A stage failed; the message is one sentence, or a command's last words."""


@dataclass
class Check:
    """One line of the summary: the output must equal the input."""

    stage: str
    what: str
    expected: Any
    found: Any
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether input equals output."""
        return bool(self.expected == self.found)


@dataclass
class Run:
    """The state of a run."""

    endpoint_url: str
    data_dir: Path
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point every AWS tool at the local cloud; AWS_ENDPOINT_URL alone does it."""
        return {
            **os.environ,
            # The app and the AWS CLI are this environment's, activated or not.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            # Not about the cloud: no telemetry, no notices, and no cache of another account's keys.
            "CDK_HOME": str(self.data_dir / "cdk-home"),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "1",
            "NO_COLOR": "1",
            "AWS_PAGER": "",
        }

    def client(self, service: str) -> Any:
        """Return a boto3 client of the local cloud."""
        make: Any = boto3.client
        return make(
            service,
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def output(self, stack: str, name: str) -> str:
        """Return an output of a deployed stack."""
        return self.outputs[f"headrace-{stack}"][name]


def command(arguments: list[str], run: Run, *, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed. Raises StageError with its last words."""
    done = subprocess.run(
        arguments, cwd=cwd, env=run.environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip().splitlines()[-25:]
        raise StageError(f"`{' '.join(arguments)}` failed:\n" + "\n".join(words))
    return done.stdout


# --- stages -----------------------------------------------------------------------------------


def start(data_dir: Path, port: int) -> Run:
    """Start an empty cloud. Raises StageError."""
    headrace = [sys.executable, "-m", "headrace.cli.main"]
    if not is_expendable(data_dir):
        raise StageError(
            f"{data_dir} is no data directory of headrace's and is not empty: "
            "what is in it would be lost, so name another."
        )
    if health(data_dir) is not None:
        subprocess.run([*headrace, "down", "--data-dir", str(data_dir)], check=True, cwd=ROOT)
    shutil.rmtree(data_dir, ignore_errors=True)
    # In a session of its own: Ctrl-C is passed on once, and what it has begun is undone before this goes on.
    with subprocess.Popen(
        [*headrace, "up", "--detach", "--data-dir", str(data_dir), "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    ) as up:  # fmt: skip
        try:
            printed, complained = up.communicate()
        except KeyboardInterrupt:
            up.send_signal(signal.SIGINT)
            up.communicate()
            raise
    running = health(data_dir)
    if up.returncode != 0 or running is None:
        raise StageError((complained or printed).strip())
    return Run(str(running["endpoint_url"]), data_dir)


def is_expendable(data_dir: Path) -> bool:
    """Whether a folder may be emptied: it is missing, empty, or a cloud's own."""
    if not data_dir.is_dir():
        return not data_dir.exists()
    names = {path.name for path in data_dir.iterdir()}
    return not names or not names.isdisjoint((LOCK_FILE, LOG_FILE))


def deploy(run: Run, progress: Progress) -> None:
    """Bootstrap and deploy with the CDK CLI; the app is synthesised while the bootstrap runs."""
    task = progress.add_task("deploying the CDK app", total=3)
    cdk = str(ROOT / "cdk" / "node_modules" / ".bin" / "cdk")
    folder, assembly, outputs = (
        ROOT / "cdk",
        run.data_dir / "cdk.out",
        run.data_dir / "outputs.json",
    )
    failures: list[Exception] = []

    def synthesise() -> None:
        try:
            command([cdk, "synth", "--quiet", "--output", str(assembly)], run, cwd=folder)
        except StageError as error:
            failures.append(error)

    synthesis = threading.Thread(target=synthesise, daemon=True)
    synthesis.start()
    command([cdk, "bootstrap", f"aws://{ACCOUNT}/{REGION}"], run, cwd=run.data_dir)
    progress.advance(task)
    synthesis.join()
    if failures:
        raise failures[0]
    progress.advance(task)
    command(
        [cdk, "deploy", "--all", "--app", str(assembly), "--require-approval", "never",
         "--concurrency", "4", "--outputs-file", str(outputs)],
        run, cwd=folder,
    )  # fmt: skip
    progress.advance(task)
    run.outputs = json.loads(outputs.read_text())


def replay(
    run: Run, month: int | None, speed: float | None, progress: Progress
) -> list[dict[str, Any]]:
    """Put the flights into the stream."""
    events = list(flights.iter_events(month))
    task = progress.add_task("replaying flights", total=len(events))
    putter = Putter(run.client("kinesis"), run.output("ingest", "FlightsStreamName"))
    replay_events(
        putter,
        events,
        key=flights.PARTITION_KEY,
        time_field="event_time",
        speed=speed,
        on_put=lambda count: progress.advance(task, count),
    )
    shards = sorted(putter.shards.items())
    spread = ", ".join(f"{shard[-1]}: {count:,}" for shard, count in shards)
    run.checks.append(
        Check(
            "Kinesis",
            "records put",
            len(events),
            putter.acknowledged,
            f"{len(shards)} shards ({spread})",
        )
    )
    return events


def enriched(run: Run, expected: int, progress: Progress) -> list[dict[str, Any]]:
    """Read the stream that the function writes until every flight is there."""
    task = progress.add_task("Lambda: enriching", total=expected)
    kinesis, stream = run.client("kinesis"), run.output("ingest", "EnrichedStreamName")
    iterators = {
        shard["ShardId"]: kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for shard in kinesis.list_shards(StreamName=stream)["Shards"]
    }
    found: dict[str, dict[str, Any]] = {}
    records = 0
    deadline = time.monotonic() + STAGE_WITHIN_S
    while len(found) < expected:
        before = len(found)
        for shard_id, iterator in iterators.items():
            answer = kinesis.get_records(ShardIterator=iterator)
            iterators[shard_id] = answer["NextShardIterator"]
            records += len(answer["Records"])
            for record in answer["Records"]:
                event = json.loads(record["Data"])
                found[event["event_id"]] = event
        progress.update(task, completed=len(found))
        if len(found) == before:
            if time.monotonic() > deadline:
                raise StageError(f"Only {len(found):,} of {expected:,} flights were enriched.")
            time.sleep(LOOK_EVERY_S)
    run.checks.append(
        Check(
            "Lambda", "flights enriched", expected, len(found), f"{records:,} records in {stream}"
        )
    )
    return list(found.values())


def submit(run: Run) -> str:
    """Add the Spark step with the AWS CLI; return its id."""
    arguments = [
        "spark-submit", *run.output("analytics", "SubmitOptions").split(),
        "--conf", "spark.sql.shuffle.partitions=2", run.output("analytics", "JobUri"),
        "--stream", run.output("ingest", "EnrichedStreamName"), "--region", REGION,
        "--output", run.output("analytics", "ResultsUri"),
        "--checkpoint", run.output("analytics", "CheckpointUri"),
    ]  # fmt: skip
    steps = [
        {
            "Type": "CUSTOM_JAR", "Name": "departures", "ActionOnFailure": "CONTINUE",
            "Jar": "command-runner.jar", "Args": arguments,
        }
    ]  # fmt: skip
    printed = command(
        [*AWS, "emr", "add-steps", "--cluster-id", run.output("analytics", "ClusterId"),
         "--steps", json.dumps(steps), "--output", "json"],
        run,
    )  # fmt: skip
    return str(json.loads(printed)["StepIds"][0])


def delivered(run: Run, events: list[dict[str, Any]], progress: Progress) -> None:
    """Wait until Firehose has delivered every row, and check the rows."""
    task = progress.add_task("Firehose: delivering Parquet", total=len(events))
    s3, bucket = run.client("s3"), run.output("delivery", "LakeBucketName")
    prefix = run.output("delivery", "LakePrefix")
    tables: dict[str, Any] = {}
    deadline = time.monotonic() + STAGE_WITHIN_S
    while True:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for item in page.get("Contents", []):
                if item["Key"] not in tables:
                    body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                    tables[item["Key"]] = pq.read_table(io.BytesIO(body))
        rows = sum(table.num_rows for table in tables.values())
        progress.update(task, completed=rows)
        if rows >= len(events):
            break
        if time.monotonic() > deadline:
            raise StageError(f"Firehose delivered {rows:,} rows of {len(events):,}.")
        time.sleep(LOOK_EVERY_S)
    frame = pd.concat([table.to_pandas() for table in tables.values()], ignore_index=True)
    run.checks.append(
        Check(
            "Firehose",
            "rows in S3",
            len(events),
            len(frame),
            f"{len(tables)} Parquet objects under s3://{bucket}/{prefix}",
        )
    )
    run.checks.append(
        Check(
            "Firehose",
            "distinct flights",
            len({e["event_id"] for e in events}),
            frame["event_id"].nunique(),
        )
    )
    run.checks.append(
        Check(
            "Firehose",
            "cancelled flights",
            reference.cancellations(events),
            int(frame["cancelled"].eq(True).to_numpy().sum()),
        )
    )


def spark(run: Run, step_id: str, events: list[dict[str, Any]], progress: Progress) -> pd.DataFrame:
    """Wait for the step, and compare its windows with pandas."""
    task = progress.add_task("Spark: departures by hour", total=None)
    emr, cluster = run.client("emr"), run.output("analytics", "ClusterId")
    deadline = time.monotonic() + STAGE_WITHIN_S
    while True:
        step = emr.describe_step(ClusterId=cluster, StepId=step_id)["Step"]
        state = step["Status"]["State"]
        if state in STEP_STATES_ENDED:
            break
        if time.monotonic() > deadline:
            raise StageError(f"The Spark step is still {state} after {STAGE_WITHIN_S:.0f} s.")
        time.sleep(LOOK_EVERY_S)
    progress.update(task, total=1, completed=1)
    if state != "COMPLETED":
        details = step["Status"].get("FailureDetails", {})
        raise StageError(
            f"The Spark step {state}: {details.get('Message', '')} {details.get('LogFile', '')}"
        )
    found = read_results(run)
    expected = reference.hourly_departures(events)
    run.checks.append(Check("Spark", "step state", "COMPLETED", state, f"step {step_id}"))
    run.checks.append(Check("Spark", "hourly windows", len(expected), len(found)))
    run.checks.append(Check("Spark", "departures", total(expected), total(found)))
    differing = reference.differences(expected, found)
    run.checks.append(Check("Spark", "windows that differ from pandas", 0, differing))
    return found


def total(windows: pd.DataFrame) -> int:
    """Return all departures of a table of windows."""
    return int(windows["departures"].to_numpy().sum())


def read_results(run: Run) -> pd.DataFrame:
    """Return the job's Parquet output."""
    s3, bucket = run.client("s3"), run.output("analytics", "ResultsBucketName")
    frames: list[pd.DataFrame] = []
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=run.output("analytics", "ResultsPrefix")
    )
    for page in pages:
        for item in page.get("Contents", []):
            if item["Key"].endswith(".parquet"):
                body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                frames.append(pq.read_table(io.BytesIO(body)).to_pandas())
    if not frames:
        raise StageError("The Spark step left no Parquet.")
    return reference.sort_windows(pd.concat(frames, ignore_index=True))


def malformed(run: Run) -> int:
    """Return how many failure reports wait in the failure queue."""
    answer = run.client("sqs").get_queue_attributes(
        QueueUrl=run.output("processing", "FailureQueueUrl"),
        AttributeNames=["ApproximateNumberOfMessages"],
    )
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


# --- the summary ------------------------------------------------------------------------------


def summary(run: Run, windows: pd.DataFrame, seconds: float, *, stays: bool) -> bool:
    """Print the results; return whether every check holds."""
    console.print(checks_table(run.checks))
    console.print(preview(windows))
    holds = all(check.holds for check in run.checks)
    verdict = "[green]everything holds[/]" if holds else "[red]something is wrong[/]"
    console.print(f"{verdict} after {seconds:.0f} s; the endpoint is [bold]{run.endpoint_url}[/]")
    console.print(fidelity(run))
    # Nobody can try what is about to be stopped.
    if stays:
        console.print("\ntry it:")
        for line in invitations(run):
            console.print(f"  {line}", soft_wrap=True, markup=False)
    return holds


def fidelity(run: Run) -> str:
    """Return one line on what the deployed stacks ask for that the local cloud does not act upon."""
    page = f"{run.endpoint_url}/_headrace/fidelity"
    with urllib.request.urlopen(page, timeout=10) as answer:
        rows: list[dict[str, str]] = json.load(answer)
    own = [row for row in rows if row["stack"] not in ("", "CDKToolkit")]
    levels = Counter(row["level"] for row in own)
    return (
        f"of the stacks' properties {levels['stored']} are stored without effect and"
        f" {levels['ignored']} ignored: {page}"
    )


def checks_table(checks: list[Check]) -> Table:
    """Return the table of what went in and what came out."""
    table = Table(title="input = output", title_justify="left", header_style="bold")
    for name in ("stage", "what"):
        table.add_column(name)
    for name in ("expected", "found"):
        table.add_column(name, justify="right")
    table.add_column("")
    table.add_column("", overflow="fold")
    last = ""
    for check in checks:
        mark = "[green]ok[/]" if check.holds else "[red]WRONG[/]"
        values = (
            f"{value:,}" if isinstance(value, int) else str(value)
            for value in (check.expected, check.found)
        )
        stage = check.stage if check.stage != last else ""
        table.add_row(stage, check.what, *values, mark, check.detail)
        last = check.stage
    return table


def preview(windows: pd.DataFrame) -> Table:
    """Return the first lines of the Spark job's result."""
    table = Table(
        title="departures by hour and origin (first lines)",
        title_justify="left",
        header_style="bold",
    )
    for name in windows.columns:
        table.add_column(str(name))
    for row in windows.head(6).itertuples(index=False):
        table.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row))
    return table


def invitations(run: Run) -> list[str]:
    """Return a line each for boto3, the AWS CLI and headrace itself."""
    keys = "AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=" + REGION
    there = f"AWS_ENDPOINT_URL={run.endpoint_url} {keys}"
    bucket = run.output("delivery", "LakeBucketName")
    stream = run.output("ingest", "EnrichedStreamName")
    code = "import boto3; print(boto3.client('kinesis').list_streams()['StreamNames'])"
    aws = ".venv/bin/aws" if " " not in str(ROOT) else ".venv/bin/python -m awscli"
    return [
        f'{there} .venv/bin/python -c "{code}"',
        f"{there} {aws} s3 ls s3://{bucket} --recursive",
        f"AWS_ENDPOINT_URL={run.endpoint_url} .venv/bin/headrace tail {stream} --from TRIM_HORIZON --limit 3",
    ]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the whole year, 336,776 flights")
    parser.add_argument("--month", type=int, choices=range(1, 13), default=JANUARY, metavar="1-12")
    parser.add_argument("--once", action="store_true", help="stop the cloud at the end")
    parser.add_argument("--speed", default="max", help="max, or times real time: 3600x")
    parser.add_argument("--port", type=int, default=4566)
    parser.add_argument("--data-dir", type=Path, default=ROOT / ".headrace")
    options = parser.parse_args(arguments)
    try:
        options.speed = parse_speed(options.speed)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Run every stage; 0 when every check holds."""
    options = parse(sys.argv[1:])
    began = time.monotonic()
    run: Run | None = None
    interrupted = False
    try:
        with Progress(
            SpinnerColumn(finished_text="[green]✓[/]"), TextColumn("{task.description}"), BarColumn(),
            MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        ) as progress:  # fmt: skip
            task = progress.add_task("starting the cloud", total=1)
            run = start(options.data_dir, options.port)
            progress.advance(task)
            deploy(run, progress)
            month = None if options.all else options.month
            events = replay(run, month, options.speed, progress)
            enriched(run, len(events), progress)
            step_id = submit(run)
            delivered(run, events, progress)
            windows = spark(run, step_id, events, progress)
        run.checks.insert(2, Check("Lambda", "failure reports", 0, malformed(run)))
        seconds = time.monotonic() - began
        return 0 if summary(run, windows, seconds, stays=not options.once) else 1
    except (StageError, PutFailed, BotoCoreError, ClientError) as error:
        console.print(
            f"[red]headrace:[/] {escape(str(error) if isinstance(error, StageError) else words_of(error))}",
            soft_wrap=True,
        )
        return 1
    except KeyboardInterrupt:
        # What is half done is of no use; after a failure the cloud stays, to be looked at.
        interrupted = True
        return INTERRUPTED
    finally:
        if run is not None and (options.once or interrupted):
            subprocess.run(
                [sys.executable, "-m", "headrace.cli.main", "down", "--data-dir", str(options.data_dir)],
                check=False, cwd=ROOT,
            )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
