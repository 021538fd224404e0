"""The stages of `make run`. Each works as a user of AWS would, and adds its checks to the run."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from rich.progress import Progress

from headrace.cli import flights
from headrace.cli.put import PRODUCER_OPTIONS, Putter
from headrace.cli.replay import replay_events
from headrace.cli.running_cloud import LOG_FILE, health
from headrace.client import Producer
from headrace.services.firehose.processing import split_aggregate
from headrace.spark_submit.sparks import Sparks
from headrace.store.data_dir import LOCK_FILE
from scripts import reference
from scripts.pipeline.run import ASSEMBLY, ROOT, Check, Run, StageError, Synthesis, command

# Not the installed script: a script's first line cannot name an interpreter in a folder with a space.
AWS = [sys.executable, "-m", "awscli"]
LOOK_EVERY_S = 0.2
STAGE_WITHIN_S = 600.0
STEP_STATES_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED"}


def start(data_dir: Path, port: int, *, options: Sequence[str] = ()) -> Run:
    """Start an empty cloud, with these options of `headrace up`. Raises StageError."""
    headrace = [sys.executable, "-m", "headrace.cli.main"]
    check_expendable(data_dir)
    if health(data_dir) is not None:
        subprocess.run([*headrace, "down", "--data-dir", str(data_dir)], check=True, cwd=ROOT)
    empty(data_dir)
    # In its own session: it gets Ctrl-C only once, from here, and undoes its work before this process continues.
    with subprocess.Popen(
        [*headrace, "up", "--detach", "--data-dir", str(data_dir), "--port", str(port), *options],
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


def check_expendable(data_dir: Path) -> None:
    """Raise StageError unless a folder may be emptied."""
    if not is_expendable(data_dir):
        raise StageError(
            f"{data_dir} is no data directory of headrace's and is not empty: "
            "what is in it would be lost, so name another."
        )


def is_expendable(data_dir: Path) -> bool:
    """Whether a folder may be emptied: it is missing, empty, or a cloud's data directory."""
    if not data_dir.is_dir():
        return not data_dir.exists()
    names = {path.name for path in data_dir.iterdir()} - {ASSEMBLY}
    return not names or not names.isdisjoint((LOCK_FILE, LOG_FILE))


def empty(data_dir: Path) -> None:
    """Remove what is in a data directory, except the synthesised app."""
    for path in data_dir.iterdir() if data_dir.is_dir() else ():
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif path.name != ASSEMBLY:
            shutil.rmtree(path, ignore_errors=True)


def deploy(run: Run, progress: Progress, synthesis: Synthesis | None = None) -> None:
    """Bootstrap and deploy with the CDK CLI; the app is synthesised beside that, unless it began before."""
    task = progress.add_task("deploying the CDK app", total=3)
    cdk = str(ROOT / "cdk" / "node_modules" / ".bin" / "cdk")
    assembly, outputs = run.data_dir / ASSEMBLY, run.data_dir / "outputs.json"
    with synthesis or Synthesis(run) as synthesised:
        command([cdk, "bootstrap", f"aws://{run.account}/{run.region}"], run, cwd=run.data_dir)
        progress.advance(task)
        synthesised.wait()
    progress.advance(task)
    command(
        [cdk, "deploy", "--all", "--app", str(assembly), "--require-approval", "never",
         "--concurrency", "4", "--outputs-file", str(outputs)],
        run, cwd=ROOT / "cdk",
    )  # fmt: skip
    progress.advance(task)
    run.outputs = json.loads(outputs.read_text())


def load_flights(month: int | None, at_most: int | None) -> list[dict[str, Any]]:
    """Return the first `at_most` flights of a month, or of the year."""
    return list(itertools.islice(flights.iter_events(month), at_most))


def replay(run: Run, events: list[dict[str, Any]], speed: float | None, progress: Progress) -> None:
    """Put the flights into the stream."""
    task = progress.add_task("replaying flights", total=len(events))
    stream = run.output("ingest", "FlightsStreamName")
    producer = Producer(stream, **PRODUCER_OPTIONS, **run.producer_options())
    putter = Putter(producer, by_shard=True)
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


def flights_in(data: bytes) -> list[dict[str, Any]]:
    """Return the flights in a record of the enriched stream: several flights of a carrier may share a record."""
    users = split_aggregate(data)
    payloads = [data] if users is None else [payload for _, payload in users]
    return [json.loads(payload) for payload in payloads]


def enriched(run: Run, expected: int, progress: Progress) -> list[dict[str, Any]]:
    """Read the function's output stream until every flight is there."""
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
                for event in flights_in(record["Data"]):
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


def submit(run: Run, name: str, stream: str, *options: str) -> str:
    """Add the Spark step of a job on a stream with the AWS CLI; return its id."""
    arguments = [
        "spark-submit", *run.output("analytics", "SubmitOptions").split(),
        "--conf", "spark.sql.shuffle.partitions=2", run.output("analytics", "JobUri"),
        "--stream", stream, "--region", run.region,
        "--output", run.output("analytics", "ResultsUri"),
        "--checkpoint", run.output("analytics", "CheckpointUri"), *options,
    ]  # fmt: skip
    steps = [
        {
            "Type": "CUSTOM_JAR", "Name": name, "ActionOnFailure": "CONTINUE",
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


def wait_for_step(run: Run, step_id: str, words: str, progress: Progress) -> None:
    """Wait until a step has completed, and check that. Raises StageError."""
    task = progress.add_task(words, total=None)
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
    run.checks.append(Check("Spark", "step state", "COMPLETED", state, f"step {step_id}"))


def spark(run: Run, step_id: str, events: list[dict[str, Any]], progress: Progress) -> pd.DataFrame:
    """Wait for the step, and compare its windows with pandas."""
    wait_for_step(run, step_id, "Spark: departures by hour", progress)
    windows = reference.sort_windows(read_results(run, reference.WINDOW_KEY))
    expected = reference.hourly_departures(events)
    run.checks.append(Check("Spark", "hourly windows", len(expected), len(windows)))
    run.checks.append(Check("Spark", "departures", total(expected), total(windows)))
    differing = reference.differences(expected, windows)
    run.checks.append(Check("Spark", "windows that differ from pandas", 0, differing))
    return windows


def archive_classes(run: Run) -> None:
    """Have the archive of Spark's classes made in the background, unless it is there: later steps start sooner.

    It is made for the cluster's Spark, unless the user's own ran the step, and only once.
    """
    cluster = run.client("emr").describe_cluster(ClusterId=run.output("analytics", "ClusterId"))
    label = cluster["Cluster"]["ReleaseLabel"]
    if Sparks().programs_of(label) is not None:
        subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "headrace.cli.main", "spark", "install", label],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=ROOT, start_new_session=True,
        )  # fmt: skip


def total(windows: pd.DataFrame) -> int:
    """Return all departures of a table of windows."""
    return int(windows["departures"].to_numpy().sum())


def read_results(run: Run, key: list[str]) -> pd.DataFrame:
    """Return the job's Parquet output, in the order of its key."""
    s3, bucket = run.client("s3"), run.output("analytics", "ResultsBucketName")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=run.output("analytics", "ResultsPrefix")
    )
    names = [item["Key"] for page in pages for item in page.get("Contents", [])]

    def read(name: str) -> bytes:
        return s3.get_object(Bucket=bucket, Key=name)["Body"].read()

    frames = [
        pq.read_table(io.BytesIO(read(name))).to_pandas()
        for name in reference.table_files(names, read)
    ]
    if not frames:
        raise StageError("The Spark step left no table.")
    rows = reference.latest_rows(pd.concat(frames, ignore_index=True), key)
    return rows.sort_values(key, ignore_index=True)


def malformed(run: Run) -> int:
    """Return the number of failure reports in the failure queue."""
    answer = run.client("sqs").get_queue_attributes(
        QueueUrl=run.output("processing", "FailureQueueUrl"),
        AttributeNames=["ApproximateNumberOfMessages"],
    )
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])
