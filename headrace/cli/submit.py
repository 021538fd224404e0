"""`headrace submit`: run a Spark job as a step of EMR, follow what it prints, and end as it ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headrace.cli import submit_serverless
from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.cli.submit_logs import AWS_LOGS_WITHIN_S, DriverLogs, wait_for

CLUSTER_NAME = "headrace-submit"
_BUCKET_PREFIX = "headrace-submit"
_ENDED = {"COMPLETED", "CANCELLED", "FAILED", "INTERRUPTED"}
_POLL_S = 0.25


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("job", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--cluster", "cluster_id", help="The cluster (j-...); else one that runs, or a new.")
@click.option(
    "--serverless", is_flag=True, help="Run it as a job of EMR Serverless, not as a step."
)
@click.option(
    "--application",
    "application_id",
    help="With --serverless: the application; else headrace-submit.",
)
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A Spark property; repeatable.")
@click.option(
    "--py-files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .py, .zip or .egg that the job imports; repeatable.",
)
@click.option("--bucket", help="The bucket for the job and its --py-files; AWS's must be yours.")
@click.option("--role", "role", help="With --serverless --aws: the ARN of the job's role.")
@click.option("--dry-run", is_flag=True, help="Only print the commands for AWS.")
@endpoint_option
def submit(
    job: Path,
    arguments: tuple[str, ...],
    cluster_id: str | None,
    application_id: str | None,
    conf: tuple[str, ...],
    py_files: tuple[Path, ...],
    bucket: str | None,
    role: str | None,
    *,
    serverless: bool,
    dry_run: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Run JOB, a PySpark program, with ARGUMENTS as a step of EMR; the options come before JOB.

    Uploads it, adds the step, prints its state and its logs, and exits with 0 if the step COMPLETED, else 1.
    Prints the `aws s3 cp` and `aws emr add-steps` commands that do the same on AWS; with --aws, it does it there
    itself. Ctrl-C cancels the step. With --serverless, all the same with a job run of EMR Serverless and
    `aws emr-serverless start-job-run`.
    """
    if (serverless and cluster_id) or (application_id and not serverless):
        raise fail("--cluster goes with steps, --application with --serverless")
    if aws and not dry_run:
        _check_aws(cluster_id, application_id, bucket, role, serverless=serverless)
    named = bucket or ("BUCKET" if dry_run else _bucket(region))
    plan = make_plan(job, arguments, conf=conf, py_files=py_files, bucket=named, region=region)
    if dry_run:
        role = role or submit_serverless.role_arn("ACCOUNT")
        last = (
            plan.serverless_command(application_id or "APPLICATION", role)
            if serverless
            else plan.step_command(cluster_id or "j-CLUSTER")
        )
        click.echo("\n".join([*upload_commands(plan.uris, region), last]))
        return

    def make(service: str) -> Any:
        return client(service, endpoint_url=endpoint_url, region=region, aws=aws)

    try:
        _upload(make("s3"), plan, make_bucket=not aws)
        wait_s = AWS_LOGS_WITHIN_S if aws else 0
        if serverless:
            good = _run_serverless(make, application_id, plan, role, wait_s)
        else:
            good = _run_step(make, cluster_id, plan, wait_s)
    except click.ClickException:
        raise
    except Exception as error:
        raise explain(error) from error
    sys.exit(0 if good else 1)


def _check_aws(
    cluster_id: str | None,
    application_id: str | None,
    bucket: str | None,
    role: str | None,
    *,
    serverless: bool,
) -> None:
    """Fail with a sentence unless everything is named that AWS has no default for."""
    if bucket is None:
        raise fail("--aws needs --bucket: the name of a bucket of yours that the job goes to")
    if serverless and (application_id is None or role is None):
        raise fail(
            "--aws --serverless needs --application and --role: "
            "what runs jobs, and as whom, is made on AWS by its owner"
        )
    if not serverless and cluster_id is None:
        raise fail(
            "--aws needs --cluster: making a cluster takes roles, a network and money, so it is "
            "left to you (aws emr create-cluster)"
        )
    if url := os.environ.get("AWS_ENDPOINT_URL"):
        click.echo(f"AWS_ENDPOINT_URL is set: this talks to {url}, not to AWS", err=True)


# --- what is asked for ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What is uploaded and run, the same here and on AWS.

    Attributes:
        uris: the job and its --py-files, and where each goes.
        args: of the step's `command-runner.jar`.
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
        """Where the logs of what this command makes go."""
        return f"s3://{self.bucket}/logs/"

    def step_command(self, cluster_id: str) -> str:
        """Return the AWS CLI's command that adds the step."""
        return aws_command(cluster_id, self.name, self.args, self.region)

    def serverless_command(self, application_id: str, role: str) -> str:
        """Return the AWS CLI's command that starts the job run."""
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
    py_files: Sequence[Path],
    bucket: str,
    region: str,
) -> Plan:
    """Return what is to be done with a job. Reads its files."""
    uris = {path: _uri(bucket, path) for path in (job, *py_files)}
    beside = [uris[path] for path in py_files]
    return Plan(
        job.name,
        uris,
        step_arguments(uris[job], arguments, conf=conf, py_files=beside),
        submit_serverless.job_driver(uris[job], arguments, conf=conf, py_files=beside),
        bucket,
        region,
    )


def step_arguments(
    job_uri: str, arguments: Sequence[str], *, conf: Sequence[str], py_files: Sequence[str]
) -> list[str]:
    """Return the arguments of `command-runner.jar`, the same here and on AWS."""
    options = ["--deploy-mode", "cluster"]
    for setting in conf:
        options += ["--conf", setting]
    if py_files:
        options += ["--py-files", ",".join(py_files)]
    return ["spark-submit", *options, job_uri, *arguments]


def aws_command(cluster_id: str, name: str, args: Sequence[str], region: str) -> str:
    """Return the AWS CLI's command that adds the step; its `Args` are JSON, for they may hold commas."""
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
    """Return the AWS CLI's commands that bring the job and its files to their URIs."""
    return [
        shlex.join(["aws", "s3", "cp", "--region", region, str(path), uri])
        for path, uri in uris.items()
    ]


def _bucket(region: str) -> str:
    return f"{_BUCKET_PREFIX}-{region}"


def _uri(bucket: str, path: Path) -> str:
    """Return where a file goes: by its content, so that no running step loses what it reads."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return f"s3://{bucket}/code/{digest}/{path.name}"


# --- what is done -----------------------------------------------------------------------------


def _upload(s3: Any, plan: Plan, *, make_bucket: bool) -> None:
    where = (
        {}
        if plan.region == "us-east-1"
        else {"CreateBucketConfiguration": {"LocationConstraint": plan.region}}
    )
    if make_bucket:
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=plan.bucket, **where)
    for path, uri in plan.uris.items():
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    for line in upload_commands(plan.uris, plan.region):
        click.echo(line, err=True)


def _run_serverless(
    make: Callable[[str], Any],
    application_id: str | None,
    plan: Plan,
    role: str | None,
    wait_s: float,
) -> bool:
    return submit_serverless.run_job(
        make("emr-serverless"),
        make("s3"),
        application_id,
        plan.name,
        plan.driver,
        log_uri=plan.log_uri,
        region=plan.region,
        role=role,
        wait_s=wait_s,
    )


def _run_step(
    make: Callable[[str], Any], cluster_id: str | None, plan: Plan, wait_s: float
) -> bool:
    """Add the step, follow it, and return whether it has COMPLETED."""
    emr = make("emr")
    cluster_id = cluster_id or _running_cluster(emr) or _new_cluster(emr, plan.log_uri)
    step_id = _add_step(emr, cluster_id, plan.name, plan.args)
    click.echo(plan.step_command(cluster_id), err=True)
    return _follow(emr, make("s3"), cluster_id, step_id, wait_s) == "COMPLETED"


def _running_cluster(emr: Any) -> str | None:
    """Return a cluster that waits or runs and outlives its steps; the newest first."""
    states = ["WAITING", "RUNNING"]
    for page in emr.get_paginator("list_clusters").paginate(ClusterStates=states):
        for found in page["Clusters"]:
            described = emr.describe_cluster(ClusterId=found["Id"])["Cluster"]
            if not described["AutoTerminate"] and described.get("LogUri"):
                return str(found["Id"])
    return None


def _new_cluster(emr: Any, log_uri: str) -> str:
    made = emr.run_job_flow(
        Name=CLUSTER_NAME,
        LogUri=log_uri,
        # AWS's CLI asks for it before it makes a step of Type=Spark.
        ReleaseLabel=submit_serverless.RELEASE_LABEL,
        Applications=[{"Name": "Spark"}],
        Instances={"KeepJobFlowAliveWhenNoSteps": True},
    )
    click.echo(f"made the cluster {made['JobFlowId']}", err=True)
    return str(made["JobFlowId"])


def _add_step(emr: Any, cluster_id: str, name: str, args: Sequence[str]) -> str:
    step = {
        "Name": name,
        "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": list(args)},
    }
    return str(emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=[step])["StepIds"][0])


def _follow(emr: Any, s3: Any, cluster_id: str, step_id: str, wait_s: float) -> str:
    """Print the step's states and its logs as they come; return the last state. Ctrl-C cancels it.

    Logs that are not there when the step has ended are waited for, `wait_s` at most.
    """
    logs = _logs(emr, s3, cluster_id, step_id)
    shown = ""
    while True:
        try:
            status = emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]["Status"]
            if status["State"] != shown:
                shown = status["State"]
                click.echo(f"{step_id} {shown}", err=True)
            if shown in _ENDED:
                break
            logs.show_new()
            time.sleep(_POLL_S)
        except KeyboardInterrupt:
            emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id])
    wait_for(logs, wait_s)
    logs.show_new(ended=True)
    if details := status.get("FailureDetails"):
        message = details.get("Message", "")
        # In cluster mode, this cloud's message ends with the log that tells the cause.
        where = "" if "(s3://" in message else f" ({details.get('LogFile', 'no log')})"
        click.echo(f"{step_id} {shown}: {message}{where}", err=True)
    return shown


def _logs(emr: Any, s3: Any, cluster_id: str, step_id: str) -> DriverLogs:
    """Return what the step's driver prints, below the cluster's LogUri."""
    uri = emr.describe_cluster(ClusterId=cluster_id)["Cluster"].get("LogUri")
    if not uri:
        click.echo("the cluster has no LogUri: what the step prints is not shown", err=True)
        return DriverLogs(s3, "", "", step_id)
    bucket, _, prefix = uri.partition("://")[2].partition("/")
    prefix = f"{prefix.rstrip('/')}/" if prefix else ""
    return DriverLogs(s3, bucket, f"{prefix}{cluster_id}/", step_id)
