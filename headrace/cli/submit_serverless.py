"""`headrace submit --serverless`: runs the job as a job run of an EMR Serverless application."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headrace.cli.interrupts import StopSignals
from headrace.cli.options import fail
from headrace.cli.submit_logs import JobLogs, follow
from headrace.spark_submit.emr_releases import DEFAULT_LABEL, ReleaseTooOld, check_release

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


def aws_command(
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
        aws_command(application_id, name, driver, log_uri=log_uri, region=region, role=role),
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

    shown = follow(run_id, state, cancel, logs, ended=_ENDED, wait_s=wait_s, asked=asked)
    if run["stateDetails"]:
        click.echo(f"{run_id} {shown}: {run['stateDetails']}", err=True)
    return shown
