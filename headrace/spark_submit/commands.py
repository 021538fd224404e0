"""Turns a parsed submission into a command line, an environment and a filled folder on this machine.

`--master` and `--deploy-mode` are replaced by `local[*]` in client mode, whatever the job's properties say of them;
URIs of the application, `--py-files`, `--files`, `--jars` and `--archives` are replaced by local copies; the rest is
passed on.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import headrace
from headrace.spark_submit import connector
from headrace.spark_submit.access import CLASSES
from headrace.spark_submit.arguments import Submission, option_values, properties_of
from headrace.spark_submit.configuration import spark_properties, write_configuration
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.local_files import local_copy, local_submission
from headrace.spark_submit.spark_versions import SparkTraits
from headrace.spark_submit.sparks import JobSpark, python_settings
from headrace.spark_submit.utf8 import require_utf8

AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent

_REPLACED = frozenset({"--master", "--deploy-mode"})


def spark_command(
    context: JobContext,
    submission: Submission,
    folder: Path,
    spark: JobSpark,
    *,
    defaults: Mapping[str, str],
    logging: Mapping[str, str],
    exported: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, str], JobSpark]:
    """Return `spark-submit` as it runs here, what it needs of the environment, and `spark` with what the job adds.

    Args:
        context: what this cloud gives to every job.
        submission: what follows `spark-submit`.
        folder: the job's own.
        spark: what the job is run with.
        defaults: the classification `spark-defaults`; it wins over headrace's settings.
        logging: the classification `spark-log4j2`, or `spark-log4j` of a Spark before 3.3.
        exported: what `spark-env` exports; None: nothing.

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

    local = functools.partial(local_copy, context.objects, folder / "work")
    submission = local_submission(submission, local)
    if spark.environment is not None and connector.names_connector(submission, given_properties):
        has_it = spark.traits.minor >= connector.OLDEST_SPARK
        note = connector.NOTE if has_it else connector.NOTE_TOO_OLD
        spark = replace(spark, connector=has_it, notes=(*spark.notes, note))
    options = spark_arguments(connector.without_jar(submission), spark.traits)
    arguments = [str(spark.home / "bin" / "spark-submit"), *options]
    environment = _spark_environment(spark, folder, exported or {})
    if context.file_system:
        # Not `spark.driver.extraClassPath`, which jobs set themselves.
        environment["SPARK_DIST_CLASSPATH"] = str(CLASSES)
    return arguments, environment, spark


def spark_arguments(submission: Submission, spark: SparkTraits) -> list[str]:
    """Return the arguments of `spark-submit` on this machine, of a Spark, for a submission of local files."""
    # Given as options, for a property `spark.submit.deployMode` would win over their absence.
    arguments = ["--master", "local[*]", "--deploy-mode", "client"]
    if option_values(submission, "--properties-file") and spark.loads_defaults:
        # Otherwise Spark would not read the file with headrace's settings, which lead `s3://` to this cloud.
        arguments.append("--load-spark-defaults")
    for name, value in submission.options:
        if name not in _REPLACED:
            arguments += [name] if value is None else [name, value]
    return [*arguments, submission.application, *submission.arguments]


def _spark_environment(
    spark: JobSpark, folder: Path, exported: Mapping[str, str]
) -> dict[str, str]:
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
    else:
        # Interpreters that are not the image's: a bootstrap action may have made them.
        named = python_settings({}, exported).items()
        environment.update((n, value) for n, value in named if not spark.interpreter_for(value))
        if spark.connector:
            packages = connector.packages_folder(spark.environment.python)
            folders = (connector.stand_in(spark.traits.minor), packages)
            environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    if spark.java_home is not None:
        environment["JAVA_HOME"] = str(spark.java_home)
    return environment
