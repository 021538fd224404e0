"""Plans the uploads and the job of `headrace submit`, and makes the AWS CLI commands for them. Calls no cloud."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cli import submit_serverless


@dataclass(frozen=True, slots=True)
class Plan:
    """The uploads and the job, the same on headrace and on AWS.

    Attributes:
        uris: the job and the files of its options, each with its S3 URI.
        args: the arguments of the step's `command-runner.jar`.
        driver: the job run's jobDriver.
    """

    name: str
    uris: dict[Path, str]
    args: list[str]
    driver: dict[str, Any]
    bucket: str
    region: str

    @property
    def log_uri(self) -> str:
        """The LogUri of clusters and job runs that this command creates."""
        return f"s3://{self.bucket}/logs/"

    def step_command(self, cluster_id: str) -> str:
        """Return the AWS CLI command that adds the step."""
        return aws_command(cluster_id, self.name, self.args, self.region)

    def serverless_command(self, application_id: str, role: str) -> str:
        """Return the AWS CLI command that starts the job run."""
        return submit_serverless.aws_command(
            application_id,
            self.name,
            self.driver,
            log_uri=self.log_uri,
            region=self.region,
            role=role,
        )


def make_plan(
    job: Path,
    arguments: Sequence[str],
    *,
    conf: Sequence[str],
    packages: Sequence[str],
    files: Mapping[str, Sequence[str]],
    bucket: str,
    region: str,
) -> Plan:
    """Return the plan for a job. Reads its files.

    Args:
        job: the job's program.
        arguments: its arguments.
        conf: Spark properties, each `NAME=VALUE`.
        packages: the coordinates of `--packages`.
        files: local files by the option of spark-submit that brings them, each `PATH` or `PATH#NAME`.
        bucket: the bucket of all files.
        region: the bucket's region.
    """
    uris = {job: _uri(bucket, job)}
    options = [word for setting in conf for word in ("--conf", setting)]
    if packages:
        options += ["--packages", ",".join(packages)]
    for option, items in files.items():
        names: list[str] = []
        for item in items:
            path, mark, name = item.partition("#")
            uri = uris.setdefault(Path(path), _uri(bucket, Path(path)))
            names.append(f"{uri}{mark}{name}")
        if names:
            options += [option, ",".join(names)]
    return Plan(
        job.name,
        uris,
        ["spark-submit", "--deploy-mode", "cluster", *options, uris[job], *arguments],
        submit_serverless.job_driver(uris[job], arguments, options),
        bucket,
        region,
    )


def aws_command(cluster_id: str, name: str, args: Sequence[str], region: str) -> str:
    """Return the AWS CLI command that adds the step; its `Args` are JSON, since they may contain commas."""
    step = {
        "Type": "CUSTOM_JAR",
        "Name": name,
        "ActionOnFailure": "CONTINUE",
        "Jar": "command-runner.jar",
        "Args": list(args),
    }
    steps = json.dumps([step])
    words = ["aws", "emr", "add-steps", "--region", region]
    return shlex.join([*words, "--cluster-id", cluster_id, "--steps", steps])


def upload_commands(uris: dict[Path, str], region: str) -> list[str]:
    """Return the AWS CLI commands that upload the job and its files to their URIs."""
    return [
        shlex.join(["aws", "s3", "cp", "--region", region, str(path), uri])
        for path, uri in uris.items()
    ]


def _uri(bucket: str, path: Path) -> str:
    """Return a file's URI, which contains its hash, so that no upload changes a file that a running step reads."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return f"s3://{bucket}/code/{digest}/{path.name}"
