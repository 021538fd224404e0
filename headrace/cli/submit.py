"""`headrace submit`: runs a Spark job as an EMR step, prints its output, and exits with its result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import urllib.error
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from headrace.cli import submit_plan
from headrace.cli.interrupts import StopSignals, leave
from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.cli.submit_plan import (
    AWS_LOGS_WITHIN_S,
    DriverLogs,
    Plan,
    follow,
    make_plan,
)
from headrace.client.pages import ask
from headrace.spark_submit.emr_releases import DEFAULT_LABEL, ReleaseTooOld, check_release

CLUSTER_NAME = "headrace-submit"
_BUCKET_PREFIX = "headrace-submit"
_ENDED = {"COMPLETED", "CANCELLED", "FAILED", "INTERRUPTED"}
_CLUSTER_ENDS = {"TERMINATING", "TERMINATED", "TERMINATED_WITH_ERRORS"}
# The cloud runs Java to get its version before it answers.
_LOOK_WITHIN_S = 60.0


def _conf(
    _: click.Context, _option: click.Parameter, settings_given: tuple[str, ...]
) -> tuple[str, ...]:
    for setting in settings_given:
        if not setting.partition("=")[0] or "=" not in setting:
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE")
    return settings_given


def _existing(
    _: click.Context, _option: click.Parameter, option_texts: tuple[str, ...]
) -> tuple[str, ...]:
    items = tuple(item for value in option_texts for item in value.split(",") if item)
    for item in items:
        if not Path(item.partition("#")[0]).is_file():
            raise click.BadParameter(f"{item.partition('#')[0]!r} is not a file")
    return items


def _files_option(name: str, about: str) -> Callable[[Any], Any]:
    """Return an option that names local files."""
    return click.option(
        name, multiple=True, metavar="FILE", callback=_existing,
        help=f"{about}; repeatable, or several with commas.",
    )  # fmt: skip


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("job", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--cluster", "cluster_id", help="The cluster (j-...); default: a running one, else a new one."
)
@click.option(
    "--serverless", is_flag=True, help="Run it as a job run of EMR Serverless, not as a step."
)
@click.option(
    "--application",
    "application_id",
    help="With --serverless: the application; default: headrace-submit.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_conf,
    help="A Spark property; repeatable.",
)
@_files_option("--py-files", "A .py, .zip or .egg that the job imports")
@_files_option("--jars", "A .jar for the job's class path")
@_files_option("--files", "A file, or FILE#NAME, for the job's working directory")
@_files_option("--archives", "An archive, or FILE#NAME, to unpack in the job's working directory")
@click.option(
    "--packages",
    multiple=True,
    metavar="GROUP:NAME:VERSION",
    help="Maven coordinates of jars; repeatable.",
)
@click.option("--bucket", help="The bucket for the job and its files; AWS's must be yours.")
@click.option("--role", "role", help="With --serverless --aws: the ARN of the job's role.")
@click.option("--dry-run", is_flag=True, help="Only print the commands for AWS.")
@endpoint_option
def submit(
    job: Path,
    arguments: tuple[str, ...],
    cluster_id: str | None,
    application_id: str | None,
    conf: tuple[str, ...],
    py_files: tuple[str, ...],
    jars: tuple[str, ...],
    files: tuple[str, ...],
    archives: tuple[str, ...],
    packages: tuple[str, ...],
    bucket: str | None,
    role: str | None,
    *,
    serverless: bool,
    dry_run: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
    made_by: str = "",
) -> None:
    """Run JOB, a PySpark program, as a step of EMR. It gets ARGUMENTS; the options come before JOB.

    Uploads it, adds the step, prints its state and its logs, and exits with 0 if the step COMPLETED, else 1. Prints the
    `aws s3 cp` and `aws emr add-steps` commands that do the same on AWS; with --aws, it runs the job on AWS. Ctrl-C
    cancels the step; a second Ctrl-C ends the command at once. SIGTERM ends the command alone: the step goes on. With
    --serverless, it runs a job run of EMR Serverless and prints `aws emr-serverless start-job-run`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    _check_kind(cluster_id, application_id, role, serverless=serverless)
    if aws and not dry_run:
        _check_aws(cluster_id, application_id, bucket, role, serverless=serverless)
    named = bucket or ("BUCKET" if dry_run else _bucket(region))
    brought = {"--py-files": py_files, "--jars": jars, "--files": files, "--archives": archives}
    plan = make_plan(
        job, arguments, conf=conf, packages=packages, files=brought, bucket=named, region=region,
        made_by=made_by,
    )  # fmt: skip
    if dry_run:
        role = role or submit_plan.role_arn("ACCOUNT")
        run = plan.serverless_command(application_id or "APPLICATION", role)
        step = plan.step_command(cluster_id or "j-CLUSTER")
        click.echo("\n".join([*plan.upload_commands(), run if serverless else step]))
        return

    def make(service: str) -> Any:
        return client(service, endpoint_url=endpoint_url, region=region, aws=aws)

    if not aws:
        _check_spark(endpoint_url)
    with StopSignals(signal.SIGINT, signal.SIGTERM, again=leave) as asked:
        try:
            good = _run(
                make, plan, asked, cluster_id=cluster_id, application_id=application_id, role=role,
                serverless=serverless, aws=aws,
            )  # fmt: skip
        except (BotoCoreError, ClientError) as error:
            raise explain(error) from error
    sys.exit(asked.exit_code or (0 if good else 1))


def _check_kind(
    cluster_id: str | None, application_id: str | None, role: str | None, *, serverless: bool
) -> None:
    if (serverless and cluster_id) or (application_id and not serverless):
        raise fail("--cluster is for steps; --application is for --serverless")
    if role and not serverless:
        raise fail("--role is for --serverless; a step has its cluster's roles")


def _run(
    make: Callable[[str], Any],
    plan: Plan,
    asked: StopSignals,
    *,
    cluster_id: str | None,
    application_id: str | None,
    role: str | None,
    serverless: bool,
    aws: bool,
) -> bool:
    """Run the plan, and return whether the job succeeded. All checks come before anything is created."""
    wait_s = AWS_LOGS_WITHIN_S if aws else 0
    job = next(iter(plan.uris))
    try:
        if serverless:
            application_id = submit_plan.find_application(
                make("emr-serverless"), application_id, job
            )
        else:
            cluster_id = _find_cluster(make("emr"), cluster_id, job)
    except (ReleaseTooOld, ValueError) as error:
        raise fail(str(error)) from error
    _upload(make("s3"), plan, make_bucket=not aws)
    if asked:
        return False
    if serverless:
        return _run_serverless(make, application_id, plan, role, wait_s, asked)
    return _run_step(make, cluster_id, plan, wait_s, asked)


def _check_spark(endpoint_url: str) -> None:
    """End the command with a sentence when the cloud cannot run Spark jobs."""
    try:
        with ask(f"{endpoint_url.rstrip('/')}/_headrace/spark", _LOOK_WITHIN_S) as answer:
            page: Any = json.load(answer)
            problem = page["problem"]
    except urllib.error.HTTPError:
        # An older headrace, or another cloud: the step will fail if it has no Spark.
        return
    except OSError as error:
        raise fail(f"No cloud answers at {endpoint_url}; start one: headrace up") from error
    except (ValueError, TypeError, KeyError):
        return
    if problem is not None:
        raise fail(f"The cloud at {endpoint_url} cannot run Spark jobs. {problem}")


def _find_cluster(emr: Any, cluster_id: str | None, job: Path) -> str | None:
    """Return the cluster for a job: the named one, or one that waits or runs; None to create one.

    Ends the command with a sentence when the named cluster cannot take the step. Raises ReleaseTooOld, ValueError.
    """
    if cluster_id is not None:
        cluster = emr.describe_cluster(ClusterId=cluster_id)["Cluster"]
        state = cluster["Status"]["State"]
        if state in _CLUSTER_ENDS:
            raise fail(
                f"The cluster {cluster_id} is {state}, and takes no more steps; name another with --cluster."
            )
        check_release(job, cluster.get("ReleaseLabel", ""))
        return cluster_id
    running_cluster = _find_running_cluster(emr, job)
    if running_cluster is None:
        check_release(job, DEFAULT_LABEL)
    return running_cluster


def _check_aws(
    cluster_id: str | None,
    application_id: str | None,
    bucket: str | None,
    role: str | None,
    *,
    serverless: bool,
) -> None:
    """End the command with a sentence unless all options are given for which AWS has no default."""
    if bucket is None:
        raise fail("--aws needs --bucket: the name of your bucket, to which the job is uploaded")
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


def _bucket(region: str) -> str:
    return f"{_BUCKET_PREFIX}-{region}"


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
    for line in plan.upload_commands():
        click.echo(line, err=True)


def _run_serverless(
    make: Callable[[str], Any],
    application_id: str | None,
    plan: Plan,
    role: str | None,
    wait_s: float,
    asked: StopSignals,
) -> bool:
    return submit_plan.run_job(
        make("emr-serverless"),
        make("s3"),
        application_id,
        plan.name,
        plan.driver,
        log_uri=plan.log_uri,
        region=plan.region,
        role=role,
        wait_s=wait_s,
        asked=asked,
    )


def _run_step(
    make: Callable[[str], Any],
    cluster_id: str | None,
    plan: Plan,
    wait_s: float,
    asked: StopSignals,
) -> bool:
    """Add the step, follow it, and return whether it has COMPLETED."""
    emr = make("emr")
    cluster_id = cluster_id or _new_cluster(emr, plan.log_uri)
    step_id = _add_step(emr, cluster_id, plan.name, plan.args)
    click.echo(plan.step_command(cluster_id), err=True)
    return _follow(emr, make("s3"), cluster_id, step_id, wait_s, asked) == "COMPLETED"


def _find_running_cluster(emr: Any, job: Path) -> str | None:
    """Return the newest cluster that waits or runs, outlives its steps, and has the Spark that a job needs."""
    states = ["WAITING", "RUNNING"]
    for page in emr.get_paginator("list_clusters").paginate(ClusterStates=states):
        for cluster in page["Clusters"]:
            described = emr.describe_cluster(ClusterId=cluster["Id"])["Cluster"]
            if described["AutoTerminate"] or not described.get("LogUri"):
                continue
            with contextlib.suppress(ReleaseTooOld):
                check_release(job, described.get("ReleaseLabel", ""))
                return str(cluster["Id"])
    return None


def _new_cluster(emr: Any, log_uri: str) -> str:
    job_flow = emr.run_job_flow(
        Name=CLUSTER_NAME,
        LogUri=log_uri,
        # The AWS CLI checks for it before it makes a step of Type=Spark.
        ReleaseLabel=DEFAULT_LABEL,
        Applications=[{"Name": "Spark"}],
        # The names of `aws emr create-default-roles`.
        ServiceRole="EMR_DefaultRole",
        JobFlowRole="EMR_EC2_DefaultRole",
        Instances={
            "MasterInstanceType": "m5.xlarge",
            "InstanceCount": 1,
            "KeepJobFlowAliveWhenNoSteps": True,
        },
    )
    click.echo(f"made the cluster {job_flow['JobFlowId']}", err=True)
    return str(job_flow["JobFlowId"])


def _add_step(emr: Any, cluster_id: str, name: str, args: Sequence[str]) -> str:
    step = {
        "Name": name,
        "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": list(args)},
    }
    return str(emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=[step])["StepIds"][0])


def _follow(
    emr: Any, s3: Any, cluster_id: str, step_id: str, wait_s: float, asked: StopSignals
) -> str:
    """Follow the step to its end, and return its last state; see `follow`."""
    status: dict[str, Any] = {}

    def state() -> str:
        step = emr.describe_step(ClusterId=cluster_id, StepId=step_id)["Step"]
        status.update(step["Status"])
        return str(status["State"])

    shown = follow(
        step_id,
        state,
        lambda: emr.cancel_steps(ClusterId=cluster_id, StepIds=[step_id]),
        _logs(emr, s3, cluster_id, step_id),
        ended=_ENDED,
        wait_s=wait_s,
        asked=asked,
        cancelling=f"aws emr cancel-steps --cluster-id {cluster_id} --step-ids {step_id}",
    )
    if details := status.get("FailureDetails"):
        message = details.get("Message", "")
        # In cluster mode, this cloud's message ends with the path of the log that holds the cause.
        where = "" if "(s3://" in message else f" ({details.get('LogFile', 'no log')})"
        click.echo(f"{step_id} {shown}: {message}{where}", err=True)
    return shown


def _logs(emr: Any, s3: Any, cluster_id: str, step_id: str) -> DriverLogs:
    """Return the logs of the step's driver, below the cluster's LogUri."""
    uri = emr.describe_cluster(ClusterId=cluster_id)["Cluster"].get("LogUri")
    if not uri:
        click.echo("the cluster has no LogUri, so the output of the step is not shown", err=True)
        return DriverLogs(s3, "", "", step_id)
    bucket, _, prefix = uri.partition("://")[2].partition("/")
    prefix = f"{prefix.rstrip('/')}/" if prefix else ""
    return DriverLogs(s3, bucket, f"{prefix}{cluster_id}/", step_id)
