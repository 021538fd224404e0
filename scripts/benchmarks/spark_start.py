"""An EMR step from its request to its end, by part: what a person waits for before and after a job's own work.

The job reads one record of a stream by `aws-kinesis` in a Python function, and says when it reaches each part, and how
much processor time its processes (JVMs, driver, planner, workers) have used until then.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import click
from rich.table import Table

from scripts.benchmarks.spark_measures import REGION, WAIT_S, set_credentials

JOB = """\
import glob, os, sys, time

def processor_s():
    total = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == os.getsid(0):
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")

def say(part):
    print("moment", time.monotonic(), processor_s(), part, flush=True)

say("JVM: spark-submit to the job's first line")
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
say("Python: import of PySpark")
spark = SparkSession.builder.getOrCreate()
say("session")
rows = (
    spark.readStream.format("aws-kinesis").option("kinesis.streamName", sys.argv[1])
    .option("kinesis.region", sys.argv[2]).option("kinesis.startingPosition", "TRIM_HORIZON")
    .option("kinesis.endpointUrl", "https://kinesis." + sys.argv[2] + ".amazonaws.com").load()
)
say("source: load()")

def batch(frame, number):
    if number == 0:
        say("first plan: start() to the first micro-batch")
        frame.select(udf(len)("data")).collect()
        say("Python workers: the first micro-batch's rows")

query = rows.writeStream.foreachBatch(batch).trigger(availableNow=True).start()
query.awaitTermination()
say("end of the query")
spark.stop()
say("session's end")
"""
EMPTY = """\
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().stop()
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step: seconds, and processor seconds of all its processes (None outside the job)."""

    name: str
    seconds: float
    processor_s: float | None


def client(endpoint_url: str, service: str) -> Any:
    """Return a client of the cloud."""
    return boto3.client(service, region_name=REGION, endpoint_url=endpoint_url)


def run_step(
    endpoint_url: str, label: str, job: str, *arguments: str
) -> tuple[float, float, float, str]:
    """Run a job as a step of a new cluster; return when it was asked for, RUNNING and ended, and its output."""
    s3, emr = client(endpoint_url, "s3"), client(endpoint_url, "emr")
    s3.create_bucket(Bucket="bench")
    s3.put_object(Bucket="bench", Key="job.py", Body=job.encode())
    cluster = emr.run_job_flow(
        Name="bench", LogUri="s3://bench/logs/", ReleaseLabel=label, ServiceRole="EMR_DefaultRole",
        JobFlowRole="EMR_EC2_DefaultRole",
        Instances={
            "MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": True,
        },
    )["JobFlowId"]  # fmt: skip
    emr.get_waiter("cluster_running").wait(ClusterId=cluster, WaiterConfig={"Delay": 1})
    jar = {"Jar": "command-runner.jar", "Args": ["spark-submit", "s3://bench/job.py", *arguments]}
    began, running, state = time.monotonic(), 0.0, "PENDING"
    step = emr.add_job_flow_steps(
        JobFlowId=cluster,
        Steps=[{"Name": "job", "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}],
    )["StepIds"][0]
    while state in ("PENDING", "RUNNING") and time.monotonic() - began < WAIT_S:
        state = emr.describe_step(ClusterId=cluster, StepId=step)["Step"]["Status"]["State"]
        running = running or (time.monotonic() if state != "PENDING" else 0.0)
        time.sleep(0.02)
    ended = time.monotonic()
    if state != "COMPLETED":
        raise click.ClickException(f"the step is {state}")
    key = f"logs/{cluster}/steps/{step}/stdout.gz"
    log = s3.get_object(Bucket="bench", Key=key)["Body"].read()
    emr.terminate_job_flows(JobFlowIds=[cluster])
    return began, running, ended, gzip.decompress(log).decode()


def parts_of(endpoint_url: str, label: str) -> Iterator[Part]:
    """Run the job on a label; yield its parts in their order."""
    kinesis = client(endpoint_url, "kinesis")
    if "start" not in kinesis.list_streams()["StreamNames"]:
        kinesis.create_stream(StreamName="start", ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName="start", WaiterConfig={"Delay": 1})
        kinesis.put_record(StreamName="start", Data=b"1", PartitionKey="1")
    began, running, ended, output = run_step(endpoint_url, label, JOB, "start", REGION)
    yield Part("AddJobFlowSteps to RUNNING", running - began, None)
    before, before_s = running, 0.0
    for line in output.splitlines():
        if line.startswith("moment "):
            _, at, used_s, name = line.split(" ", 3)
            # What a process has used is not seen any more when it has ended.
            more_s = float(used_s) - before_s
            yield Part(name, float(at) - before, more_s if more_s >= 0 else None)
            before, before_s = float(at), float(used_s)
    yield Part("to COMPLETED", ended - before, None)


def start_table(endpoint_url: str, labels: list[str], rounds: int) -> Table:
    """Return a table of the parts on each label, and of an empty step; each figure is the least of several rounds."""
    set_credentials()
    table = Table("label", "part", "s", "processor s")
    for label in labels:
        # Spark, and what the connector needs, are installed before.
        list(parts_of(endpoint_url, label))
        turns = [list(parts_of(endpoint_url, label)) for _ in range(rounds)]
        for same in zip(*turns, strict=True):
            used = [part.processor_s for part in same if part.processor_s is not None]
            least_s = min(part.seconds for part in same)
            table.add_row(label, same[0].name, f"{least_s:.2f}", f"{min(used):.2f}" if used else "")
        whole_s = min(
            ended - began
            for began, _, ended, _ in (run_step(endpoint_url, label, EMPTY) for _ in range(rounds))
        )
        table.add_row(label, "an empty step, from its request to COMPLETED", f"{whole_s:.2f}", "")
    return table
