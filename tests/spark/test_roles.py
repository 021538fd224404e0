"""What a Spark job does in S3 is judged as its role: in enforce mode it fails as on EMR, in report mode it is named."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.adapters.job_credentials import RoleCredentials
from headrace.spark_submit.configuration import spark_properties
from headrace.spark_submit.emr_releases import traits_of
from headrace.spark_submit.job_context import CLASSES, FILE_SYSTEM
from headrace.spark_submit.sparks import find_spark_home
from headrace.testing.clouds import ServedCloud
from tests.support.emr import cluster_request
from tests.support.iam import ACCOUNT, REGION, allow, statements, trust
from tests.support.server import wait_until

pytestmark = pytest.mark.spark

LAKE = "arn:aws:s3:::lake"
SERVICE_ROLE = "EMR_DefaultRole_V2"
JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.read.text("s3://lake/in/").write.mode("overwrite").text("s3://lake/out/")
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[ServedCloud]:
    with ServedCloud(account=ACCOUNT, iam="enforce", spark="installed") as cloud:
        s3 = cloud.client("s3")
        for bucket in ("lake", "logs"):
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket="lake", Key="in/a b.txt", Body=b"1\n2\n")
        s3.put_object(Bucket="lake", Key="job.py", Body=JOB.encode())
        starts = allow(["ec2:RunInstances", "iam:PassRole"], ["*"])
        make_role(cloud, SERVICE_ROLE, starts, trusts="elasticmapreduce.amazonaws.com")
        yield cloud


def make_role(cloud: ServedCloud, name: str, *allowed: dict[str, Any], trusts: str) -> str:
    """Make a role with its instance profile; return its ARN."""
    iam = cloud.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust(trusts)))
    document = json.dumps(statements(*allowed))
    iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document)
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return role["Role"]["Arn"]


class Shell:
    """`hadoop fs` with the FileSystem of jobs, as a role: what one does of it costs a second, and a Spark job ten."""

    def __init__(self, cloud: ServedCloud, role: str, folder: Path) -> None:
        inner = cloud.cloud
        properties = spark_properties(
            buckets=inner.objects.buckets(),
            cores=1,
            spark=traits_of((4, 3)),
            file_system=FILE_SYSTEM,
        )
        site = "".join(
            f"<property><name>{name.removeprefix('spark.hadoop.')}</name><value>{value}</value></property>"
            for name, value in properties.items()
            if name.startswith("spark.hadoop.")
        )
        (folder / "core-site.xml").write_text(f"<configuration>{site}</configuration>")
        give = RoleCredentials(inner.sessions, inner.moto.warm_up, inner.clock, lambda _: "secret")
        self._classes = f"{folder}:{CLASSES}:{find_spark_home() / 'jars'}/*"
        self._environment = {
            "PATH": os.environ["PATH"],
            **give(ACCOUNT, role, "i-1"),
            "AWS_ENDPOINT_URL": cloud.endpoint_url,
            "AWS_REGION": REGION,
            "HEADRACE_IAM": inner.config.iam,
        }

    def __call__(self, *arguments: str) -> str:
        """Run a command; return what it printed, output and errors."""
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._classes]
        command = [*java, "org.apache.hadoop.fs.FsShell"]
        ended = subprocess.run(
            [*command, *arguments], env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip
        return ended.stdout + ended.stderr


def test_each_access_of_a_job_is_judged(cloud: ServedCloud, tmp_path: Path) -> None:
    reads = (allow("s3:ListBucket", LAKE), allow("s3:GetObject", f"{LAKE}/in/*"))
    make_role(cloud, "reader", *reads, trusts="ec2.amazonaws.com")
    shell = Shell(cloud, "reader", tmp_path)
    # To find what the pattern means is to list.
    assert shell("-cat", "s3://lake/in/a*").startswith("1\n2\n")
    denied = shell("-cp", "s3://lake/in/a b.txt", "s3a://lake/in/b")
    assert (
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/reader/i-1 is not authorized to perform: s3:PutObject on"
        f' resource: "{LAKE}/in/b' in denied
    )
    assert "s3:DeleteObject" in shell("-rm", "-skipTrash", "s3://lake/in/a b.txt")
    assert "s3:PutObject" in shell("-mv", "s3://lake/in/a b.txt", "s3://lake/in/c")
    assert "s3:GetObject" in shell("-cat", "s3://lake/job.py")
    keys = [o["Key"] for o in cloud.client("s3").list_objects_v2(Bucket="lake")["Contents"]]
    assert keys == ["in/a b.txt", "job.py"]


def run_step(cloud: ServedCloud, role: str) -> dict[str, Any]:
    """Run the job as a step of a cluster of the role; return the step's status at its end."""
    emr = cloud.client("emr")
    cluster = emr.run_job_flow(
        **cluster_request(
            kept=False,
            LogUri="s3://logs/",
            JobFlowRole=role,
            ServiceRole=SERVICE_ROLE,
            Steps=[
                {
                    "Name": "job",
                    "ActionOnFailure": "CONTINUE",
                    "HadoopJarStep": {
                        "Jar": "command-runner.jar",
                        "Args": ["spark-submit", "s3://lake/job.py"],
                    },
                }
            ],
        )
    )["JobFlowId"]

    def ended() -> Any:
        (step,) = emr.list_steps(ClusterId=cluster)["Steps"]
        return step["Status"] if step["Status"]["State"] in ("COMPLETED", "FAILED") else None

    return wait_until(ended, within_s=180)


@pytest.mark.slow
def test_a_step_fails_where_its_role_may_not_write_and_passes_where_it_may(
    cloud: ServedCloud,
) -> None:
    reads = (
        allow(["s3:ListBucket"], [LAKE, "arn:aws:s3:::logs"]),
        allow("s3:GetObject", f"{LAKE}/*"),
    )
    make_role(cloud, "no-put", *reads, trusts="ec2.amazonaws.com")
    failed = run_step(cloud, "no-put")
    assert failed["State"] == "FAILED"
    assert "AccessDeniedException" in failed["FailureDetails"]["Message"]
    assert "s3:PutObject" in failed["FailureDetails"]["Message"]
    # Its logs could not be put either.
    assert "Contents" not in cloud.client("s3").list_objects_v2(Bucket="logs")
    writes = allow(
        ["s3:PutObject", "s3:DeleteObject"], [f"{LAKE}/out/*", f"{LAKE}/out", "arn:aws:s3:::logs/*"]
    )
    make_role(cloud, "puts", *reads, writes, trusts="ec2.amazonaws.com")
    assert run_step(cloud, "puts")["State"] == "COMPLETED"
    assert "Contents" in cloud.client("s3").list_objects_v2(Bucket="logs")


def test_a_script_that_the_role_may_not_read_is_not_run(cloud: ServedCloud) -> None:
    make_role(cloud, "nothing", allow("sts:GetCallerIdentity", "*"), trusts="ec2.amazonaws.com")
    failed = run_step(cloud, "nothing")
    assert failed["State"] == "FAILED"
    assert "s3:GetObject" in failed["FailureDetails"]["Message"]
