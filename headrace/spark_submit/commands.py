"""Turns a parsed submission into a command line, an environment and a folder of files on this machine.

`--master` and `--deploy-mode` become `local[*]` in client mode, whatever the job's properties are; the URIs of the
application, `--py-files`, `--files`, `--jars` and `--archives` become local copies; other options stay unchanged.
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
from headrace.spark_submit.containers import driver_environment, place_files
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.glue_catalog import check_catalog
from headrace.spark_submit.local_files import local_copy, local_submission
from headrace.spark_submit.spark_versions import SparkTraits
from headrace.spark_submit.sparks import JobSpark, python_settings
from headrace.spark_submit.utf8 import require_utf8

AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent

# For every Python of a job on Spark 4, whose planners have ten seconds to connect.
_EARLY = Path(__file__).parent / "early"
_FIRST_WITH_PLANNERS = (4, 0)

REPLACED = frozenset({"--master", "--deploy-mode"})


def spark_command(
    context: JobContext,
    submission: Submission,
    folder: Path,
    spark: JobSpark,
    *,
    defaults: Mapping[str, str],
    logging: Mapping[str, str],
    exported: Mapping[str, str] | None = None,
    hive_site: Mapping[str, str] | None = None,
    in_container: bool = False,
    hdfs: Path | None = None,
) -> tuple[list[str], dict[str, str], JobSpark]:
    """Return this machine's `spark-submit` command, its environment variables, and `spark` with the job's additions.

    Args:
        context: how jobs reach this cloud.
        submission: the arguments of `spark-submit`.
        folder: the job's folder.
        spark: the Spark that runs the job.
        defaults: the classification `spark-defaults`; it overrides headrace's settings.
        logging: the classification `spark-log4j2`, or `spark-log4j` for a Spark before 3.3.
        exported: the variables that `spark-env` exports, or None.
        hive_site: the classification `spark-hive-site`, or None.
        in_container: whether the driver runs in a YARN container, as in cluster mode.
        hdfs: the folder of `hdfs:///`; None without one.

    Raises:
        JobRefused: a file cannot be fetched, the image has no such Python, or the job needs Glue's catalog.
    """
    work = folder / "work"
    buckets = context.objects.buckets()
    require_utf8(os.environ, folder, spark.home, *buckets.values())
    properties = spark_properties(
        buckets=buckets,
        cores=context.cores,
        spark=spark.traits,
        file_system=context.file_system,
        hdfs=hdfs,
    )
    submission = write_configuration(
        submission, folder, spark, properties, defaults=defaults, logging=logging
    )
    given_properties = properties_of(submission, defaults)

    local = functools.partial(local_copy, context.objects, work)
    # Not into the working directory, where the unpacked archive may have the file's name.
    archive = functools.partial(local_copy, context.objects, folder / "archives")
    submission = local_submission(submission, local, archive)
    if spark.environment is not None and connector.names_connector(submission, given_properties):
        has_it = spark.release is not None and spark.release.has_kinesis_connector
        note = connector.NOTE if has_it else connector.NOTE_TOO_OLD
        spark = replace(spark, connector=has_it, notes=(*spark.notes, note))
    notes = check_catalog(submission, given_properties, hive_site or {})
    spark = replace(spark, notes=(*spark.notes, *notes))
    for_spark = place_files(connector.without_jar(submission), work)
    arguments = [
        str(spark.home / "bin" / "spark-submit"),
        *spark_arguments(for_spark, spark.traits),
    ]
    environment = _spark_environment(spark, folder, exported or {})
    if in_container:
        environment |= driver_environment(
            submission, defaults, work, {**(exported or {}), **environment}
        )
    if context.file_system:
        # Not `spark.driver.extraClassPath`, which jobs set themselves.
        environment["SPARK_DIST_CLASSPATH"] = str(CLASSES)
    return arguments, environment, spark


def spark_arguments(submission: Submission, spark: SparkTraits) -> list[str]:
    """Return the arguments of `spark-submit` for this machine and a Spark, for a submission with local files."""
    # Given as options, because a property `spark.submit.deployMode` would override a missing option.
    arguments = ["--master", "local[*]", "--deploy-mode", "client"]
    if option_values(submission, "--properties-file") and spark.loads_defaults:
        # Otherwise Spark would not read the file with headrace's settings, which map `s3://` to this cloud.
        arguments.append("--load-spark-defaults")
    for name, value in submission.options:
        if name not in REPLACED:
            arguments += [name] if value is None else [name, value]
    return [*arguments, submission.application, *submission.arguments]


def _spark_environment(
    spark: JobSpark, folder: Path, exported: Mapping[str, str]
) -> dict[str, str]:
    environment = {
        "SPARK_HOME": str(spark.home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        # spark-submit is a short-lived JVM that starts the job's JVM, so optimizing it is not worth the time.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(spark.python),
        "PYSPARK_DRIVER_PYTHON": str(spark.python),
        "PYTHONUNBUFFERED": "1",
        # PySpark warns about pandas 3 at every start, even if the job does not use it.
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
    }
    folders = [_EARLY] if spark.traits.minor >= _FIRST_WITH_PLANNERS else []
    if spark.environment is None:
        # The installed Spark runs with headrace's own packages, among them the Kinesis source, which registers itself.
        folders += [AUTOLOAD, connector.stand_in(spark.traits.minor), PACKAGE_ROOT]
    else:
        # Interpreters that are not in the image: a bootstrap action may have created them.
        named = python_settings({}, exported).items()
        environment.update((n, value) for n, value in named if not spark.interpreter_for(value))
        if spark.connector:
            folders += [
                connector.stand_in(spark.traits.minor),
                connector.source_folder(folder),
                connector.packages_folder(spark.environment),
            ]
    if folders:
        own = exported.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([own] if own else [])])
    if spark.java_home is not None:
        environment["JAVA_HOME"] = str(spark.java_home)
    return environment
