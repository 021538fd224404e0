"""Plans the uploads and the job of `headrace submit`, and makes the AWS CLI commands for them. Calls no cloud.

`headrace submit --serverless`: runs the job as a job run of an EMR Serverless application.

Prints a submitted job's output as it grows, read from its logs in S3.

A step in cluster mode prints into a container of YARN; the report of YARN's client in the step's stderr names it, here
as on AWS.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

from headrace.cli.interrupts import StopSignals
from headrace.cli.options import fail
from headrace.core.clock import SystemClock
from headrace.spark_submit.emr_releases import DEFAULT_LABEL, ReleaseTooOld, check_release


@dataclass(frozen=True, slots=True)
class Plan:
    """The uploads and the job, the same on headrace and on AWS.

    Attributes:
        uris: the job and the files of its options, each with its S3 URI.
        args: the arguments of the step's `command-runner.jar`.
        driver: the job run's jobDriver.
        made_by: the command that makes the job, a file of its name; empty when the job is the user's own.
    """

    name: str
    uris: dict[Path, str]
    args: list[str]
    driver: dict[str, Any]
    bucket: str
    region: str
    made_by: str = ""

    def upload_commands(self) -> list[str]:
        """Return the commands that make the job, if one does, and upload it and its files to their URIs."""
        job, *others = self.uris
        shown = [job.name if self.made_by else str(job), *map(str, others)]
        copies = [
            shlex.join(["aws", "s3", "cp", "--region", self.region, path, uri])
            for path, uri in zip(shown, self.uris.values(), strict=True)
        ]
        return [self.made_by, *copies] if self.made_by else copies

    @property
    def log_uri(self) -> str:
        """The LogUri of clusters and job runs that this command creates."""
        return f"s3://{self.bucket}/logs/"

    def step_command(self, cluster_id: str) -> str:
        """Return the AWS CLI command that adds the step."""
        return aws_command(cluster_id, self.name, self.args, self.region)

    def serverless_command(self, application_id: str, role: str) -> str:
        """Return the AWS CLI command that starts the job run."""
        return aws_command_of_run(
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
    made_by: str = "",
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
        made_by: the command that makes the job, if it is not the user's own file.
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
        job_driver(uris[job], arguments, options),
        bucket,
        region,
        made_by,
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


def _uri(bucket: str, path: Path) -> str:
    """Return a file's URI, which contains its hash, so that no upload changes a file that a running step reads."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return f"s3://{bucket}/code/{digest}/{path.name}"


APPLICATION_NAME = "headrace-submit"
ROLE_NAME = "headrace-submit"
_ENDED = {"SUCCESS", "FAILED", "CANCELLED"}


def job_driver(job_uri: str, arguments: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """Return StartJobRun's jobDriver, with options of spark-submit; the same on headrace and on AWS."""
    driver: dict[str, Any] = {"entryPoint": job_uri}
    if arguments:
        driver["entryPointArguments"] = list(arguments)
    if options:
        driver["sparkSubmitParameters"] = shlex.join(options)
    return {"sparkSubmit": driver}


def log_overrides(log_uri: str) -> dict[str, Any]:
    """Return StartJobRun's configurationOverrides, which send the logs to S3."""
    return {"monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": log_uri}}}


def aws_command_of_run(
    application_id: str,
    name: str,
    driver: dict[str, Any],
    *,
    log_uri: str,
    region: str,
    role: str,
) -> str:
    """Return the AWS CLI command that starts the job run."""
    return shlex.join(
        [
            *("aws", "emr-serverless", "start-job-run", "--region", region),
            *("--application-id", application_id, "--name", name),
            *("--execution-role-arn", role),
            *("--job-driver", json.dumps(driver)),
            *("--configuration-overrides", json.dumps(log_overrides(log_uri))),
        ]
    )


def role_arn(account: str) -> str:
    """Return the ARN of the jobs' role; headrace does not check that the role exists."""
    return f"arn:aws:iam::{account}:role/{ROLE_NAME}"


def run_job(
    emr: Any,
    s3: Any,
    application_id: str | None,
    name: str,
    driver: dict[str, Any],
    *,
    log_uri: str,
    region: str,
    role: str | None,
    wait_s: float,
    asked: StopSignals,
) -> bool:
    """Start the job run, follow it, and return whether it succeeded. Cancel it when `asked`.

    After the job run has ended, wait up to `wait_s` for missing logs.
    """
    application_id = application_id or _new_application(emr)
    if role is None:
        arn = emr.get_application(applicationId=application_id)["application"]["arn"]
        role = role_arn(str(arn.split(":")[4]))
    run_id = str(
        emr.start_job_run(
            applicationId=application_id,
            name=name,
            executionRoleArn=role,
            jobDriver=driver,
            configurationOverrides=log_overrides(log_uri),
        )["jobRunId"]
    )
    click.echo(
        aws_command_of_run(application_id, name, driver, log_uri=log_uri, region=region, role=role),
        err=True,
    )
    url = emr.get_dashboard_for_job_run(applicationId=application_id, jobRunId=run_id)["url"]
    click.echo(f"{run_id} {url}", err=True)
    bucket, _, prefix = log_uri.partition("://")[2].partition("/")
    below = f"{prefix}applications/{application_id}/jobs/{run_id}/SPARK_DRIVER/"
    logs = JobLogs(s3, bucket, below)
    return _follow(emr, logs, application_id, run_id, wait_s, asked) == "SUCCESS"


def find_application(emr: Any, application_id: str | None, job: Path) -> str | None:
    """Return the application for a job: the named one, or one of earlier submissions; None to create one.

    Ends the command with a sentence when the named application cannot run it. Raises ReleaseTooOld, ValueError.
    """
    if application_id is not None:
        application = emr.get_application(applicationId=application_id)["application"]
        if application["state"] == "TERMINATED":
            raise fail(
                f"The application {application_id} is TERMINATED, and takes no more job runs;"
                " name another with --application."
            )
        check_release(job, application["releaseLabel"])
        return application_id
    states = ["CREATED", "STARTED", "STOPPED"]
    for page in emr.get_paginator("list_applications").paginate(states=states):
        for candidate in page["applications"]:
            if candidate.get("name") == APPLICATION_NAME:
                with contextlib.suppress(ReleaseTooOld):
                    check_release(job, candidate["releaseLabel"])
                    return str(candidate["id"])
    check_release(job, DEFAULT_LABEL)
    return None


def _new_application(emr: Any) -> str:
    application = emr.create_application(
        name=APPLICATION_NAME, releaseLabel=DEFAULT_LABEL, type="SPARK"
    )
    click.echo(f"made the application {application['applicationId']}", err=True)
    return str(application["applicationId"])


def _follow(
    emr: Any, logs: JobLogs, application_id: str, run_id: str, wait_s: float, asked: StopSignals
) -> str:
    """Follow the job run to its end, and return its last state; see `follow`."""
    where = {"applicationId": application_id, "jobRunId": run_id}
    run: dict[str, Any] = {}

    def state() -> str:
        run.update(emr.get_job_run(**where)["jobRun"])
        return str(run["state"])

    def cancel() -> None:
        # The job run may have ended meanwhile.
        with contextlib.suppress(emr.exceptions.ValidationException):
            emr.cancel_job_run(**where)

    cancelling = (
        f"aws emr-serverless cancel-job-run --application-id {application_id} --job-run-id {run_id}"
    )
    shown = follow(
        run_id, state, cancel, logs,
        ended=_ENDED, wait_s=wait_s, asked=asked, cancelling=cancelling,
    )  # fmt: skip
    if run["stateDetails"]:
        click.echo(f"{run_id} {shown}: {run['stateDetails']}", err=True)
    return shown


# EMR on EC2 writes logs to S3 every five minutes.
AWS_LOGS_WITHIN_S = 360.0
_POLL_S = 5.0
# How often the state of a running job is checked.
_LOOK_S = 0.25
_SUBMITTED = re.compile(rb"Submitted application (application_\d+_\d+)")
# The first container of the first attempt is the driver's; YARN may put its epoch before the ids.
_DRIVER = re.compile(r"/container_(?:e\d+_)?\d+_\d+_01_000001/")


class JobLogs:
    """Prints a job's logs below `s3://bucket/prefix`: stdout to stdout, stderr to stderr. Without a bucket, nothing."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._etags: dict[str, str] = {}
        self._shown_bytes = {"stdout": 0, "stderr": 0} if bucket else {}

    @property
    def complete(self) -> bool:
        """Whether every log has been found, or there is no bucket for them."""
        return len(self._etags) == len(self._shown_bytes)

    def show_new(self, *, ended: bool = False, cancelled: bool = False) -> None:
        """Print new output; at the end, report missing logs; not what a cancelled job's stderr says of its death."""
        for name in ["stdout"] if cancelled and self._shown_bytes else self._shown_bytes:
            key = f"{self._prefix}{name}.gz"
            etag = _etag(self._s3, self._bucket, key)
            if etag is None and ended and not cancelled:
                click.echo(f"there is no s3://{self._bucket}/{key}", err=True)
            elif etag is not None and etag != self._etags.get(name):
                self._etags[name] = etag
                self._show(name, key)

    def _show(self, name: str, key: str) -> None:
        stream = sys.stderr.buffer if name == "stderr" else sys.stdout.buffer
        packed = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"]
        with packed, gzip.GzipFile(fileobj=packed) as text:
            text.seek(self._shown_bytes[name])
            while piece := text.read(1 << 20):
                stream.write(piece)
                self._shown_bytes[name] += len(piece)
        stream.flush()


class DriverLogs:
    """Prints the output of a step's driver, below `s3://bucket/prefix` of its cluster. Without a bucket, nothing.

    The output comes from the driver's container when the step's stderr names an application in cluster mode, else from
    the step's own logs once it has ended.
    """

    def __init__(self, s3: Any, bucket: str, prefix: str, step_id: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._own = JobLogs(s3, bucket, f"{prefix}steps/{step_id}/")
        self._report = f"{prefix}steps/{step_id}/stderr.gz"
        self._report_etag: str | None = None
        self._application: str | None = None
        self._driver: JobLogs | None = None

    @property
    def complete(self) -> bool:
        """Whether the driver's logs have been found, or will never come: without a bucket or an application."""
        if self._driver is None:
            return not self._bucket or (self._report_etag is not None and self._application is None)
        return self._driver.complete

    def show_new(self, *, ended: bool = False, cancelled: bool = False) -> None:
        """Print new output; at the end, the step's own logs if the driver has none."""
        if self._driver is None and self._bucket:
            self._driver = self._find()
        if self._driver is not None:
            self._driver.show_new(ended=ended, cancelled=cancelled)
        elif ended:
            self._own.show_new(ended=True, cancelled=cancelled)

    def _find(self) -> JobLogs | None:
        """Return the logs of the driver's container, once they exist."""
        if self._application is None:
            etag = _etag(self._s3, self._bucket, self._report)
            if etag is None or etag == self._report_etag:
                return None
            self._report_etag = etag
            packed = self._s3.get_object(Bucket=self._bucket, Key=self._report)["Body"]
            with packed, gzip.GzipFile(fileobj=packed) as text:
                match = _SUBMITTED.search(text.read(1 << 20))
            if match is None:
                return None
            self._application = match[1].decode()
        below = f"{self._prefix}containers/{self._application}/"
        listed = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=below)
        for item in listed.get("Contents", []):
            if match := _DRIVER.search(item["Key"]):
                return JobLogs(self._s3, self._bucket, item["Key"][: match.end()])
        return None


class Logs(Protocol):
    """The logs that `wait_for` can wait for."""

    @property
    def complete(self) -> bool:
        """Whether there is nothing to wait for."""
        ...

    def show_new(self, *, ended: bool = False, cancelled: bool = False) -> None:
        """Print new output."""
        ...


def follow(
    job: str,
    state: Callable[[], str],
    cancel: Callable[[], object],
    logs: Logs,
    *,
    ended: Collection[str],
    wait_s: float,
    asked: StopSignals,
    cancelling: str,
) -> str:
    """Print a job's states and logs as they come; return the last state. Cancel the job, once, at Ctrl-C.

    Another signal ends the command alone, as it ends the AWS CLI's: the job goes on, and `cancelling` is the command
    that cancels it. After the job has ended, wait up to `wait_s` for missing logs.
    """
    shown, cancelled = "", False
    while True:
        if asked and not cancelled:
            if asked.number != signal.SIGINT:
                click.echo(f"{job} goes on; to cancel it: {cancelling}", err=True)
                sys.exit(asked.exit_code)
            cancelled = True
            cancel()
        if (now := state()) != shown:
            shown = now
            click.echo(f"{job} {shown}", err=True)
        if shown in ended:
            break
        logs.show_new(cancelled=cancelled)
        time.sleep(_LOOK_S)
    wait_for(logs, wait_s, asked)
    # A job that ended before it could be cancelled says why.
    logs.show_new(ended=True, cancelled=cancelled and shown == "CANCELLED")
    return shown


def wait_for(logs: Logs, within_s: float, asked: StopSignals) -> None:
    """Print output until the logs are complete or the time is over, since AWS writes them late. Ctrl-C ends this."""
    if not within_s or logs.complete or asked:
        return
    click.echo(f"waiting for the logs, {within_s:.0f} s at most (Ctrl-C: no more)", err=True)
    clock = SystemClock()
    stop, deadline_s = threading.Event(), clock.monotonic_s() + within_s
    asked.call_when_asked(stop.set)
    while not logs.complete and clock.monotonic_s() < deadline_s and not clock.wait(stop, _POLL_S):
        logs.show_new()


def _etag(s3: Any, bucket: str, key: str) -> str | None:
    """Return an object's ETag; None when there is no such object."""
    try:
        return str(s3.head_object(Bucket=bucket, Key=key)["ETag"])
    except s3.exceptions.ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return None
