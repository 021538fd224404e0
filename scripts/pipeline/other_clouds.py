"""Runs the pipeline on clouds other than headrace: starts them, names what they cannot do, and does it another way."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import boto3
import pandas as pd
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError
from rich.progress import Progress

from scripts import reference
from scripts.localstack_host import host
from scripts.localstack_host.installation import HostError, Installation
from scripts.pipeline.options import DEVICES, FLIGHTS
from scripts.pipeline.run import ROOT, Check, Run, StageError
from scripts.pipeline.stages import STAGE_WITHIN_S, total
from scripts.pipeline.targets import (
    AWS,
    FLOCI,
    LOCALSTACK,
    MINISTACK,
    MOTO,
    TargetError,
    identify,
)

DELIVERY, ANALYTICS = "delivery", "analytics"
DIRECT = "flights-direct"
RECORDS_PER_PUT = 500
LOOK_EVERY_S = 0.5
# Source: runs of the integration tests, and docs/conformance/clouds.md, which is generated from them.
NOT_HERE: dict[str, dict[str, str]] = {
    LOCALSTACK: {
        DELIVERY: "its Firehose writes no Parquet, and reads a stream only with a Java program that it downloads",
        ANALYTICS: "its open edition has no EMR; its moto only stores steps and runs none",
    },
    MINISTACK: {
        DELIVERY: "its Firehose writes Parquet only where DuckDB is installed, and an object for each record",
        ANALYTICS: "its EMR calls every step COMPLETED and runs none",
    },
    FLOCI: {
        DELIVERY: "its Firehose writes no Parquet",
        ANALYTICS: "it has no EMR that runs steps",
    },
}
# Dollars per hour while the stacks exist, by prices of us-east-1 that were not looked up again for this
# release: 6 shards, and two m5.xlarge with EMR's share (0.192 + 0.048 each).
SHARDS, SHARD_HOUR = 6, 0.015
NODES, NODE_HOUR = 2, 0.240
DEVICE_SHARDS = 2
# Dollars per million readings (assumed): IoT's message, rule and action, a PUT unit, the function's time.
MILLION_READINGS = 1.00 + 0.15 + 0.15 + 0.014 + 0.20
# Dollars per million flights: PUT units of both streams, Firehose with Parquet (0.7 GB), the function's time.
MILLION_FLIGHTS = 2 * 0.014 + 0.7 * (0.029 + 0.018) + 0.40


def connect(cloud: str, data_dir: Path, port: int) -> Run:
    """Return a run on `localstack` (freshly started, empty) or on an address. Raises StageError."""
    try:
        if cloud == LOCALSTACK:
            installation = Installation(ROOT / ".localstack")
            host.down(installation)
            url = host.up(installation, port).endpoint_url
        else:
            url = cloud
        found = identify(url)
    except (HostError, TargetError) as error:
        raise StageError(str(error)) from error
    if found.product == MOTO:
        raise StageError(
            "moto's functions need Docker, and its mappings read no stream: no stage would run."
        )
    data_dir.mkdir(parents=True, exist_ok=True)
    run = Run(url, data_dir, found.product, not_here=dict(NOT_HERE.get(found.product, {})))
    _refuse_what_stands(run)
    return run


def connect_to_aws(data_dir: Path) -> Run:
    """Return a run on AWS, with the user's own credentials and region. Raises StageError."""
    try:
        # boto3 itself reads only AWS_DEFAULT_REGION.
        session = boto3.Session(region_name=os.environ.get("AWS_REGION"))
        if session.region_name is None:
            raise StageError("AWS needs a region: set AWS_REGION.")
        sts: Any = session.client("sts")
        account = str(sts.get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise StageError(f"AWS cannot be reached with your credentials: {error}") from error
    data_dir.mkdir(parents=True, exist_ok=True)
    run = Run("", data_dir, AWS, account, str(session.region_name))
    _refuse_what_stands(run)
    return run


def _refuse_what_stands(run: Run) -> None:
    """Raise StageError if the pipeline is deployed there already: with its old records nothing could be checked."""
    stacks = run.client("cloudformation").describe_stacks()["Stacks"]
    there = sorted(
        stack["StackName"]
        for stack in stacks
        if stack["StackName"].startswith("headrace-") and stack["StackStatus"] != "DELETE_COMPLETE"
    )
    if there:
        raise StageError(
            f"The pipeline is already deployed there ({', '.join(there)}):"
            " destroy it with `cdk destroy --all`, and try again."
        )


def cost_sentence(count: int, pipeline: str = FLIGHTS) -> str:
    """Return a sentence about the cost of a run on AWS with so many flights, or readings of devices."""
    shards, million, what = SHARDS, MILLION_FLIGHTS, "flights"
    if pipeline == DEVICES:
        shards, million, what = DEVICE_SHARDS, MILLION_READINGS, "readings"
    hourly = shards * SHARD_HOUR + NODES * NODE_HOUR
    records = count / 1e6 * million
    return (
        f"This deploys {shards} Kinesis shards and an EMR cluster of {NODES} m5.xlarge to AWS:"
        f" about ${hourly:.2f} an hour until you destroy the stacks,"
        f" and ${records:.2f} for {count:,} {what}, by prices of us-east-1 that may have changed:"
        " see aws.amazon.com/pricing."
    )


def may_spend(sentence: str) -> bool:
    """Ask for consent to the cost; without a terminal the answer is no."""
    print(sentence)
    if not sys.stdin.isatty():
        print(
            "There is no terminal to ask for consent to the cost, so nothing is deployed: pass --yes to agree."
        )
        return False
    return input("Go on? Type yes: ").strip().lower() == "yes"


def put_directly(run: Run, flights: list[dict[str, Any]], progress: Progress) -> None:
    """Deliver enriched flights to S3 as JSON lines by direct puts, without a source stream and Parquet."""
    task = progress.add_task("Firehose: by direct put", total=len(flights))
    bucket = f"headrace-direct-{uuid.uuid4().hex[:12]}"
    run.client("s3").create_bucket(Bucket=bucket)
    firehose = run.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName=DIRECT,
        DeliveryStreamType="DirectPut",
        ExtendedS3DestinationConfiguration={
            "BucketARN": f"arn:aws:s3:::{bucket}",
            "RoleARN": f"arn:aws:iam::{run.account}:role/delivery",
            "Prefix": "flights/",
            "BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 60},
        },
    )
    _await(lambda: _status(firehose) == "ACTIVE", "Firehose's delivery stream is not ACTIVE")
    for start in range(0, len(flights), RECORDS_PER_PUT):
        part = flights[start : start + RECORDS_PER_PUT]
        records = [{"Data": (json.dumps(flight) + "\n").encode()} for flight in part]
        answer = firehose.put_record_batch(DeliveryStreamName=DIRECT, Records=records)
        if answer["FailedPutCount"]:
            raise StageError(f"Firehose refused {answer['FailedPutCount']} records.")
    seen: set[str] = set()
    found: list[str] = []

    def all_there() -> bool:
        for page in run.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                if item["Key"] not in seen:
                    seen.add(item["Key"])
                    body = (
                        run.client("s3").get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                    )
                    found.extend(json.loads(line)["event_id"] for line in body.splitlines())
        progress.update(task, completed=len(found))
        return len(found) >= len(flights)

    _await(all_there, "Firehose has not delivered every row")
    run.checks.append(
        Check(
            "Firehose",
            "rows in S3",
            len(flights),
            len(found),
            f"{len(seen)} objects of JSON by direct put",
        )
    )
    run.checks.append(
        Check(
            "Firehose", "distinct flights", len({f["event_id"] for f in flights}), len(set(found))
        )
    )


def _status(firehose: Any) -> str:
    answer = firehose.describe_delivery_stream(DeliveryStreamName=DIRECT)
    return str(answer["DeliveryStreamDescription"]["DeliveryStreamStatus"])


def _await(condition: Any, complaint: str) -> None:
    deadline = time.monotonic() + STAGE_WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise StageError(f"{complaint} after {STAGE_WITHIN_S:.0f} s.")
        time.sleep(LOOK_EVERY_S)


def submit_here(run: Run, events: list[dict[str, Any]], progress: Progress) -> pd.DataFrame:
    """Run the job with this machine's `spark-submit` on the cloud's stream; compare its windows with pandas."""
    task = progress.add_task("Spark: departures by hour, here", total=1)
    folder = run.data_dir / "spark"
    environment = {
        **run.environment,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]",
            "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false",
            str(ROOT / "spark_jobs" / "departures.py"),
            "--stream", run.output("ingest", "EnrichedStreamName"), "--region", run.region,
            "--output", f"{(folder / 'departures').as_uri()}/",
            "--checkpoint", f"{(folder / 'checkpoint').as_uri()}/",
        ],
        cwd=run.data_dir, env=environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    progress.update(task, completed=1)
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
        raise StageError(f"The Spark job failed:\n{words}")
    names = [path.as_posix() for path in (folder / "departures" / "windows").rglob("*")]
    frames = [
        pq.read_table(io.BytesIO(Path(name).read_bytes())).to_pandas()
        for name in reference.table_files(names, lambda name: Path(name).read_bytes())
    ]
    if not frames:
        raise StageError("The Spark job left no table.")
    rows = reference.latest_rows(pd.concat(frames, ignore_index=True), reference.WINDOW_KEY)
    windows = reference.sort_windows(rows)
    expected = reference.hourly_departures(events)
    run.checks.append(
        Check(
            "Spark",
            "hourly windows",
            len(expected),
            len(windows),
            "by spark-submit on this machine",
        )
    )
    run.checks.append(Check("Spark", "departures", total(expected), total(windows)))
    run.checks.append(
        Check(
            "Spark", "windows that differ from pandas", 0, reference.differences(expected, windows)
        )
    )
    return windows
