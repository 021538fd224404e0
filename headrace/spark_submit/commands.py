"""Turns a parsed submission into a command line, an environment and a filled folder on this machine.

`--master` and `--deploy-mode` are replaced by `local[*]` in client mode, whatever the job's properties say of them;
URIs of the application, `--py-files`, `--files`, `--jars` and `--archives` are replaced by local copies; the rest is
passed on.
"""

from __future__ import annotations

import logging as logs
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import headrace
from headrace.core.ports import (
    BucketNotFound,
    ObjectNotFound,
    ObjectStore,
)
from headrace.spark_submit import connector
from headrace.spark_submit.access import (
    CLASSES,
    MODE_VARIABLE,
)
from headrace.spark_submit.arguments import Submission, option_values, properties_of
from headrace.spark_submit.configuration import spark_properties, write_configuration
from headrace.spark_submit.context import Command, JobContext
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.logs import CONTROLLER
from headrace.spark_submit.making import command_that_makes, mending
from headrace.spark_submit.spark_versions import SparkTraits
from headrace.spark_submit.sparks import JobSpark
from headrace.spark_submit.utf8 import require_utf8, utf8_environment

log = logs.getLogger(__name__)

AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent

_REPLACED = frozenset({"--master", "--deploy-mode"})
_FILE_LISTS = frozenset({"--py-files", "--files", "--jars", "--archives"})


def make_folders(folder: Path) -> Path:
    """Make the folders that a job's process needs below the job's own; return the one it starts in."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return work


def job_environment(
    context: JobContext,
    folder: Path,
    *,
    account: str,
    region: str,
    role: str,
    session: str,
    policy: str = "",
    policy_arns: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return what every job's environment holds: credentials, region and endpoint; nothing of the cloud's own.

    `role` is the job's, as `JobCredentials` takes it, `session` the name under which it acts, and the policies those
    that limit the role for this job.
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TZ", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        "PATH": os.defpath,
        **kept,
        **utf8_environment(os.environ),
        **context.credentials(account, role, session, policy, policy_arns),
        "AWS_ENDPOINT_URL": context.endpoint_url(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        **({MODE_VARIABLE: context.access.mode} if context.file_system else {}),
        "TMPDIR": str(folder / "tmp"),
    }


def fetch(objects: ObjectStore, uri: str, folder: Path) -> Path:
    """Copy the object `uri` names into `folder`. Raises JobRefused."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    name = key.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise JobRefused(f"{uri} does not name an object.")
    try:
        source = objects.file(bucket, key)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    except BucketNotFound:
        raise JobRefused(f"{uri} cannot be read: there is no bucket {bucket}.") from None
    except (ObjectNotFound, FileNotFoundError):
        raise JobRefused(f"{uri} cannot be read: there is no such object.") from None
    return folder / name


def spark_command(
    context: JobContext,
    submission: Submission,
    folder: Path,
    spark: JobSpark,
    *,
    defaults: Mapping[str, str],
    logging: Mapping[str, str],
) -> tuple[list[str], dict[str, str], JobSpark]:
    """Return `spark-submit` as it runs here, what it needs of the environment, and `spark` with what the job adds.

    Args:
        context: what this cloud gives to every job.
        submission: what follows `spark-submit`.
        folder: the job's own.
        spark: what the job is run with.
        defaults: the classification `spark-defaults`; it wins over headrace's settings.
        logging: the classification `spark-log4j2`, or `spark-log4j` of a Spark before 3.3.

    Raises:
        JobRefused: a file cannot be fetched, or the image has no such Python.
    """
    buckets = context.objects.buckets()
    require_utf8(os.environ, folder, spark.home, *buckets.values())
    properties = spark_properties(
        buckets=buckets, cores=context.cores, spark=spark.traits, file_system=context.file_system
    )
    submission = write_configuration(
        submission, folder, spark, properties, defaults=defaults, logging=logging
    )
    given_properties = properties_of(submission, defaults)

    def local(uri: str) -> str:
        """Fetch `s3://bucket/key#name`; anything else stays as it is."""
        path, mark, name = uri.partition("#")
        if not path.startswith(("s3://", "s3a://", "s3n://")):
            return uri
        return f"{fetch(context.objects, path, folder / 'work')}{mark}{name}"

    options = local_arguments(connector.without_jar(submission), local, spark=spark.traits)
    application = options[-1 - len(submission.arguments)]
    spark = _with_connector(spark, replace(submission, application=application), given_properties)
    arguments = [str(spark.home / "bin" / "spark-submit"), *options]
    environment = _spark_environment(spark, folder)
    if context.file_system:
        # Not `spark.driver.extraClassPath`, which jobs set themselves.
        environment["SPARK_DIST_CLASSPATH"] = str(CLASSES)
    return arguments, environment, spark


def local_arguments(
    submission: Submission, local: Callable[[str], str], *, spark: SparkTraits
) -> list[str]:
    """Return the arguments for this machine and a Spark; `local` fetches a URI and returns its path."""
    # Given as options, for a property `spark.submit.deployMode` would win over their absence.
    arguments = ["--master", "local[*]", "--deploy-mode", "client"]
    if option_values(submission, "--properties-file") and spark.loads_defaults:
        # Otherwise Spark would not read the file with headrace's settings, which lead `s3://` to this cloud.
        arguments.append("--load-spark-defaults")
    for name, value in submission.options:
        if name in _REPLACED:
            continue
        if name in _FILE_LISTS and value is not None:
            value = ",".join(local(item) for item in value.split(",") if item)
        arguments += [name] if value is None else [name, value]
    return [*arguments, local(submission.application), *submission.arguments]


def _with_connector(
    spark: JobSpark, submission: Submission, properties: Mapping[str, str]
) -> JobSpark:
    """Return `spark` with the stand-in for EMR's connector, if the job names it and this Spark can have it."""
    if spark.environment is None or not connector.names_connector(submission, properties):
        return spark
    if spark.traits.minor < connector.OLDEST_SPARK:
        return replace(spark, notes=(*spark.notes, connector.NOTE_TOO_OLD))
    return replace(spark, connector=True, notes=(*spark.notes, connector.NOTE))


def _spark_environment(spark: JobSpark, folder: Path) -> dict[str, str]:
    environment = {
        "SPARK_HOME": str(spark.home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        # spark-submit is a short JVM that starts the job's: compiling it well would not pay.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(spark.python),
        "PYSPARK_DRIVER_PYTHON": str(spark.python),
        "PYTHONUNBUFFERED": "1",
        # pyspark warns of pandas 3 at every start, whether or not the job uses it.
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
    }
    if spark.environment is None:
        # The installed Spark runs with headrace's own packages, and the Kinesis source announces itself.
        folders = (AUTOLOAD, connector.stand_in(spark.traits.minor), PACKAGE_ROOT)
        environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    elif spark.connector:
        packages = connector.packages_folder(spark.environment.python)
        folders = (connector.stand_in(spark.traits.minor), packages)
        environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    if spark.java_home is not None:
        environment["JAVA_HOME"] = str(spark.java_home)
    return environment


def with_spark(command: Command, spark: JobSpark, folder: Path) -> Command:
    """Return the command of a Spark job with its notes, made to make the environment first where there is none."""
    command = replace(command, notes=(*command.notes, *spark.notes))
    if not spark.must_be_made:
        return command
    assert spark.release is not None
    log.info(
        "Spark %s of %s is made first, for %s; once, and it takes minutes (ahead: %s)",
        spark.release.spark_version,
        spark.release.label,
        folder.name,
        mending(spark.release.label),
    )
    arguments, environment = command_that_makes(
        spark, folder / CONTROLLER, command.arguments, command.environment
    )
    return replace(command, arguments=arguments, environment=environment)
