"""What a step runs: from its jar and arguments to a command line, an environment and a folder.

`command-runner.jar` runs any command on the path, as on EMR; `spark-submit` is the one that pyspark carries.
`script-runner.jar` runs a shell script from S3. There is no Hadoop here to run other jars.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.services.emr.errors import StepRefused
from headrace.services.emr.members import structure, structures
from headrace.services.emr.model import Cluster, Step
from headrace.services.emr.spark_home import find_java, find_spark_home
from headrace.services.emr.spark_submit import (
    LOGGING,
    Submission,
    local_arguments,
    parse_submission,
    properties_file,
    spark_properties,
)

AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Command:
    """What is started: the argument vector, the environment, and where."""

    arguments: list[str]
    environment: dict[str, str]
    cwd: Path


@dataclass(frozen=True, slots=True)
class Workshop:
    """What steps are made with.

    Attributes:
        objects: where `s3://` URIs lead.
        endpoint_url: this cloud's.
        cores: how many tasks a Spark step runs at a time.
    """

    objects: ObjectStore
    endpoint_url: Callable[[], str]
    cores: int


def prepare(workshop: Workshop, cluster: Cluster, step: Step, folder: Path) -> Command:
    """Fill the step's folder and return its command. Raises StepRefused."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    environment = _environment(workshop, cluster, step, folder)
    jar = step.jar.rpartition("/")[2]
    if jar == "command-runner.jar":
        arguments = list(step.args)
    elif jar == "script-runner.jar":
        arguments = ["bash", *step.args]
    else:
        raise StepRefused(
            f"headrace has no Hadoop to run the jar {step.jar!r}: it runs command-runner.jar (spark-submit and "
            "other commands) and script-runner.jar."
        )
    if len(arguments) < (1 if jar == "command-runner.jar" else 2):
        raise StepRefused(f"The step gives {jar} no command to run.")
    if jar == "script-runner.jar" or arguments[0] in ("bash", "sh"):
        arguments = [_fetched(workshop.objects, argument, work) for argument in arguments]
    elif arguments[0] == "spark-submit":
        submission = parse_submission(arguments[1:])
        arguments, more = _spark(workshop, cluster, submission, folder)
        environment.update(more)
    else:
        program = shutil.which(arguments[0], path=environment["PATH"])
        if program is None:
            raise StepRefused(
                f'Cannot run program "{arguments[0]}" (in directory "."): error=2, No such file or directory'
            )
        arguments[0] = program
    return Command(arguments, environment, work)


def _environment(workshop: Workshop, cluster: Cluster, step: Step, folder: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        "PATH": os.defpath,
        **kept,
        # The account travels as the access key; nothing checks the secret.
        "AWS_ACCESS_KEY_ID": cluster.account,
        "AWS_SECRET_ACCESS_KEY": "headrace",
        "AWS_ENDPOINT_URL": workshop.endpoint_url(),
        "AWS_REGION": cluster.region,
        "AWS_DEFAULT_REGION": cluster.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "EMR_CLUSTER_ID": cluster.id,
        "EMR_STEP_ID": step.id,
        "TMPDIR": str(folder / "tmp"),
        **_classification(cluster, "spark-env", "export"),
    }


def _classification(cluster: Cluster, *path: str) -> dict[str, str]:
    """Return the properties of a nested classification of the cluster's Configurations."""
    configurations = structures(cluster.request, "Configurations")
    properties: dict[str, str] = {}
    for name in path:
        found = [c for c in configurations if c.get("Classification") == name]
        properties = {k: str(v) for c in found for k, v in structure(c, "Properties").items()}
        configurations = [n for c in found for n in structures(c, "Configurations")]
    return properties


def _fetched(objects: ObjectStore, argument: str, work: Path) -> str:
    return str(fetch(objects, argument, work)) if argument.startswith("s3://") else argument


def fetch(objects: ObjectStore, uri: str, folder: Path) -> Path:
    """Copy the object `uri` names into `folder`. Raises StepRefused."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    name = key.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise StepRefused(f"{uri} does not name an object.")
    try:
        source = objects.file(bucket, key)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    except BucketNotFound:
        raise StepRefused(f"{uri} cannot be read: there is no bucket {bucket}.") from None
    except (ObjectNotFound, FileNotFoundError):
        raise StepRefused(f"{uri} cannot be read: there is no such object.") from None
    return folder / name


def _spark(
    workshop: Workshop, cluster: Cluster, submission: Submission, folder: Path
) -> tuple[list[str], dict[str, str]]:
    """Return `spark-submit` as it runs here, and what it needs of the environment."""
    home, java_home = find_spark_home(), find_java()

    def local(uri: str) -> str:
        """Fetch `s3://bucket/key#name`; anything else stays as it is."""
        path, mark, name = uri.partition("#")
        if not path.startswith(("s3://", "s3a://", "s3n://")):
            return uri
        return f"{fetch(workshop.objects, path, folder / 'work')}{mark}{name}"

    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    properties = spark_properties(buckets=workshop.objects.buckets(), cores=workshop.cores)
    properties.update(_classification(cluster, "spark-defaults"))
    (conf / "spark-defaults.conf").write_text(properties_file(properties))
    # Later lines win, so a cluster's own settings are added to ours.
    logging = LOGGING + properties_file(_classification(cluster, "spark-log4j2"), separator=" = ")
    (conf / "log4j2.properties").write_text(logging)
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        # spark-submit is a JVM that starts a JVM: the first is to be quick, not good.
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
