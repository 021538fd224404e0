"""Deploys the flights pipeline in a simulation, once for each setting of its trigger; most seeds start from a copy."""

from __future__ import annotations

import compileall
import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.testing import simulation
from headrace.testing.simulated.world import SimulatedCloud

ENRICH = Path(__file__).parents[1] / "lambdas" / "enrich"
ROLE = "arn:aws:iam::000000000000:role/simulated"
FLIGHTS, ENRICHED, BUCKET, FAILURES = "flights", "flights-enriched", "lake", "failures"
PLANES = 40


@dataclass(frozen=True, slots=True)
class Trigger:
    """The settings of the event source mapping, in which the deployments differ."""

    batch_size: int
    window_s: int
    parallelization_factor: int


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="headrace-simulate-")


@functools.cache
def small_enrich() -> Path:
    """Return a folder with the unchanged code of `enrich`, but fewer planes to load at each cold start."""
    folder = Path(_folder().name) / "enrich"
    shutil.copytree(ENRICH, folder, ignore=shutil.ignore_patterns("__pycache__"))
    planes = folder / "reference" / "planes.csv"
    planes.write_text("\n".join(planes.read_text().splitlines()[: PLANES + 1]) + "\n")
    compileall.compile_dir(folder, quiet=2)
    return folder


@functools.cache
def deployed(enrich: Path, trigger: Trigger) -> Path:
    """Return the data directory of a cloud where the pipeline has just been deployed."""
    folder = Path(tempfile.mkdtemp(prefix="deployed-", dir=_folder().name)) / "data"
    with simulation(0) as cloud:
        deploy(cloud, enrich, trigger)
        cloud.save_to(folder)
    return folder


def arn_of(cloud: SimulatedCloud, stream: str) -> str:
    """Return a stream's ARN."""
    return f"arn:aws:kinesis:{cloud.region}:{cloud.account}:stream/{stream}"


def deploy(cloud: SimulatedCloud, enrich: Path, trigger: Trigger) -> None:
    """Create the streams, the function and its trigger, the delivery stream and the bucket."""
    for name in (FLIGHTS, ENRICHED):
        cloud.client("kinesis").create_stream(StreamName=name, ShardCount=2)
    cloud.client("sqs").create_queue(QueueName=FAILURES)
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="flights-to-lake",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={
            "KinesisStreamARN": arn_of(cloud, ENRICHED),
            "RoleARN": ROLE,
        },
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": f"arn:aws:s3:::{BUCKET}",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 1},
        },
    )
    _deploy_function(cloud, enrich, trigger)


def _deploy_function(cloud: SimulatedCloud, enrich: Path, trigger: Trigger) -> None:
    functions: Any = cloud.client("lambda")
    functions.create_function(
        FunctionName="enrich",
        Runtime="python3.13",
        Role=ROLE,
        Handler="handler.handler",
        Code={"S3Bucket": "headrace-local", "S3Key": str(enrich)},
        Timeout=60,
        Environment={"Variables": {"OUTPUT_STREAM": ENRICHED}},
    )
    functions.create_event_source_mapping(
        EventSourceArn=arn_of(cloud, FLIGHTS),
        FunctionName="enrich",
        StartingPosition="TRIM_HORIZON",
        BatchSize=trigger.batch_size,
        MaximumBatchingWindowInSeconds=trigger.window_s,
        ParallelizationFactor=trigger.parallelization_factor,
        BisectBatchOnFunctionError=True,
        # Only poison records shall use up the retries, not a function that dies again and again.
        MaximumRetryAttempts=8,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={
            "OnFailure": {
                "Destination": f"arn:aws:sqs:{cloud.region}:{cloud.account}:{FAILURES}",
            }
        },
    )
