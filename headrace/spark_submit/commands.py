"""Turns a parsed submission into a command line, an environment and a filled folder on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore, any_secret
from headrace.spark_submit.arguments import (
    LOGGING,
    Submission,
    local_arguments,
    properties_file,
    spark_properties,
)
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.spark_home import find_java, find_spark_home
from headrace.spark_submit.ui import events_folder, ui_logging, ui_properties
from headrace.spark_submit.utf8 import require_utf8, utf8_environment

AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Command:
    """What a job's process is started with: its arguments, its environment, and the folder it starts in."""

    arguments: list[str]
    environment: dict[str, str]
    cwd: Path


@dataclass(frozen=True, slots=True)
class JobContext:
    """What this cloud gives to every job.

    Attributes:
        objects: where `s3://` URIs lead.
        endpoint_url: this cloud's.
        cores: how many tasks a Spark job runs at a time.
        secret_of: gives the secret with which a job of an account signs what it asks of this cloud.
    """

    objects: ObjectStore
    endpoint_url: Callable[[], str]
    cores: int
    secret_of: Callable[[str], str] = any_secret


def make_folders(folder: Path) -> Path:
    """Make the folders that a job's process needs below the job's own; return the one it starts in."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return work


def job_environment(
    context: JobContext, folder: Path, *, account: str, region: str
) -> dict[str, str]:
    """Return what every job's environment holds: credentials, region and endpoint; nothing of the cloud's own."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TZ", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        "PATH": os.defpath,
        **kept,
        **utf8_environment(os.environ),
        # The account travels as the access key; the secret is checked with `--auth`.
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": context.secret_of(account),
        "AWS_ENDPOINT_URL": context.endpoint_url(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
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
    *,
    defaults: Mapping[str, str],
    logging: Mapping[str, str],
) -> tuple[list[str], dict[str, str]]:
    """Return `spark-submit` as it runs here, and what it needs of the environment.

    Args:
        context: what this cloud gives to every job.
        submission: what follows `spark-submit`.
        folder: the job's own.
        defaults: the classification `spark-defaults`; it wins over headrace's settings.
        logging: the classification `spark-log4j2`.

    Raises:
        JobRefused: Spark or Java is missing, or a file cannot be fetched.
    """
    home, java_home = find_spark_home(), find_java()
    require_utf8(os.environ, folder, home, *context.objects.buckets().values())

    def local(uri: str) -> str:
        """Fetch `s3://bucket/key#name`; anything else stays as it is."""
        path, mark, name = uri.partition("#")
        if not path.startswith(("s3://", "s3a://", "s3n://")):
            return uri
        return f"{fetch(context.objects, path, folder / 'work')}{mark}{name}"

    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    properties = spark_properties(buckets=context.objects.buckets(), cores=context.cores)
    properties.update(ui_properties(folder))
    properties.update(defaults)
    events_folder(folder).mkdir(exist_ok=True)
    (conf / "spark-defaults.conf").write_text(properties_file(properties), encoding="ascii")
    # Later lines win, so the job's own settings are added to ours.
    given = properties_file(logging, separator=" = ")
    (conf / "log4j2.properties").write_text(LOGGING + ui_logging(folder) + given, encoding="ascii")
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        # spark-submit is a short JVM that starts the job's: compiling it well would not pay.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # The Kinesis source announces itself from `autoload`; jobs need not know of it.
        "PYTHONPATH": os.pathsep.join((str(AUTOLOAD), str(PACKAGE_ROOT))),
        "PYTHONUNBUFFERED": "1",
        # pyspark warns of pandas 3 at every start, whether or not the job uses it.
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
    }
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    arguments = [str(home / "bin" / "spark-submit"), *local_arguments(submission, local)]
    return arguments, environment
