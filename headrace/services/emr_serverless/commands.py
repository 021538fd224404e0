"""Turns a job run's driver and configurations into a command line, an environment and a folder of files."""

from __future__ import annotations

import shlex
from pathlib import Path

from headrace.aws.shapes.emr_serverless import SparkSubmit
from headrace.core.values import get_list, get_mapping
from headrace.services.emr_serverless.state import Application, JobRun
from headrace.spark_submit.arguments import (
    Submission,
    parse_submission,
    properties_of,
    with_file_options,
)
from headrace.spark_submit.commands import spark_command
from headrace.spark_submit.context import Command, JobContext
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.job_environment import job_environment, make_folders
from headrace.spark_submit.making import with_spark
from headrace.spark_submit.sparks import python_settings

_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."


def submission_of(spark_submit: SparkSubmit) -> Submission:
    """Return the `spark-submit` command line of a sparkSubmit driver. Raises JobRefused."""
    try:
        parameters = shlex.split(spark_submit.get("sparkSubmitParameters") or "")
    except ValueError as error:
        raise JobRefused(f"sparkSubmitParameters cannot be read: {error}.") from None
    entry_point = str(spark_submit["entryPoint"])
    arguments = [str(argument) for argument in spark_submit.get("entryPointArguments") or ()]
    # Parse the parameters with an entry point after them, to find out whether they hold more than options.
    if parse_submission([*parameters, entry_point, entry_point]).arguments != [entry_point]:
        raise JobRefused(
            "sparkSubmitParameters may hold options with their values only, such as --conf a=b."
        )
    return parse_submission([*parameters, entry_point, *arguments])


def classification(application: Application, run: JobRun, name: str) -> dict[str, str]:
    """Return a classification's properties; the job run's override the application's."""
    overrides = get_mapping(run.request, "configurationOverrides")
    properties: dict[str, str] = {}
    for configuration in (
        *get_list(application.request, "runtimeConfiguration"),
        *get_list(overrides, "applicationConfiguration"),
    ):
        if configuration.get("classification") == name:
            properties.update(get_mapping(configuration, "properties"))
    return properties


def log_uri(application: Application, run: JobRun) -> str | None:
    """Return the S3 URI for logs: the job run's, else the application's, else None."""
    overrides = get_mapping(run.request, "configurationOverrides")
    for settings in (overrides, application.request):
        monitoring = get_mapping(settings, "monitoringConfiguration")
        uri = get_mapping(monitoring, "s3MonitoringConfiguration").get("logUri")
        if uri:
            return str(uri)
    return None


def context_of(context: JobContext, run: JobRun) -> JobContext:
    """Return how a run reaches the cloud, with its execution role's credentials."""
    return context.as_role(run.account, _role_of(run), run.id)


def _role_of(run: JobRun) -> str:
    return str(run.request.get("executionRoleArn") or "")


def prepare(context: JobContext, application: Application, run: JobRun, folder: Path) -> Command:
    """Write an attempt's folder and return its command. Raises JobRefused."""
    context = context_of(context, run)
    work = make_folders(folder)
    submission = submission_of(run.request["jobDriver"]["sparkSubmit"])
    defaults = classification(application, run, "spark-defaults")
    settings = properties_of(submission, defaults)
    driver = {
        name.removeprefix(_DRIVER_ENVIRONMENT): value
        for name, value in settings.items()
        if name.startswith(_DRIVER_ENVIRONMENT)
    }
    spark = context.sparks.of(run.release_label, python_settings(settings, driver))
    arguments, more, spark = spark_command(
        context,
        with_file_options(submission, defaults, yarn=False),
        folder,
        spark,
        defaults=defaults,
        logging=classification(application, run, "spark-driver-log4j2"),
    )
    limits = get_mapping(run.request, "executionIamPolicy")
    environment = {
        **job_environment(
            context,
            folder,
            policy=str(limits.get("policy") or ""),
            policy_arns=tuple(str(arn) for arn in get_list(limits, "policyArns")),
            account=run.account,
            region=run.region,
            role=_role_of(run),
            session=run.id,
        ),
        **more,
        **{name: spark.interpreter_for(value) or value for name, value in driver.items()},
    }
    return with_spark(Command(arguments, environment, work), spark, folder)
