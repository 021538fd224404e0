"""Turns a parsed submission into a command line, an environment and a folder of files on this machine.

`--master` and `--deploy-mode` become `local[*]` in client mode, whatever the job's properties are; the URIs of the
application, `--py-files`, `--files`, `--jars` and `--archives` become local copies; other options stay unchanged.

Prepares a job's working directory as in YARN or EMR Serverless: files, unpacked archives, the driver's environment.

In the working directory, files are links and archives are folders, with the name after `#` or else the file's name
(Spark, "Running Spark on YARN"). The driver and the tasks share it, so a driver in client mode sees what on a cluster
only its executors see.

Refuses jobs that would use the Glue Data Catalog as Spark's catalog, which headrace's Spark does not have.

A cluster's `spark-hive-site`, or a job's property, names Amazon's factory of Hive metastore clients. Spark here would
ignore it in silence: tables would not be found, and new ones would be lost. A job that uses no tables runs as on EMR.
"""

from __future__ import annotations

import ast
import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import headrace
from headrace.spark_submit import JobRefused, making
from headrace.spark_submit.arguments import (
    Submission,
    file_items,
    local_copy,
    local_submission,
    option_values,
    properties_of,
)
from headrace.spark_submit.class_archive import archive_options, jars_of
from headrace.spark_submit.configuration import spark_properties, write_configuration
from headrace.spark_submit.emr_releases import SparkTraits
from headrace.spark_submit.job_context import CLASSES, JobContext, require_utf8
from headrace.spark_submit.sparks import JobSpark, python_settings
from headrace.spark_submit.unpacked_archives import kind_of, unpack

_ENVIRONMENT = "spark.yarn.appMasterEnv."
_MODULES = "__pyfiles__"
# Paths of EMR's machines do not exist here, so only a Python that the job brings in an archive is used.
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def place_files(submission: Submission, work: Path) -> Submission:
    """Put the files and the unpacked archives of a submission with local paths into `work`, under their names.

    Return the submission for Spark: each file under its name in `work`, because Spark's local mode knows no names after
    `#`, and without the archives, which it would unpack again, to a place where no job looks. Raises JobRefused.
    """
    options: list[tuple[str, str | None]] = []
    for option, value in submission.options:
        if option == "--archives":
            for item in file_items(submission, option):
                source, name = _source(item)
                _unpack(item, source, work / name)
            continue
        if option == "--files":
            value = ",".join(_place(item, work) for item in file_items(submission, option))
        options.append((option, value))
    return Submission(options, submission.application, submission.arguments)


def _place(item: str, work: Path) -> str:
    source, name = _source(item)
    target = work / name
    if source.name == name and source != target:
        _link(source, target)
    elif source != target:
        _require(source)
        target.unlink(missing_ok=True)
        # Spark gives a link its target's name.
        try:
            target.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, target)
    return str(target)


def driver_environment(
    submission: Submission,
    defaults: Mapping[str, str],
    work: Path,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Return the additional variables of a driver in a container, for a submission with local paths.

    Raises JobRefused.
    """
    properties = properties_of(submission, defaults)
    added = {
        name.removeprefix(_ENVIRONMENT): value
        for name, value in properties.items()
        if name.startswith(_ENVIRONMENT)
    }
    for name in _PYTHONS:
        if name in added and (added[name].startswith("/") or "/" not in added[name]):
            del added[name]
    if "PYSPARK_PYTHON" in added:
        # Otherwise the driver would keep this machine's Python.
        added.setdefault("PYSPARK_DRIVER_PYTHON", added["PYSPARK_PYTHON"])
    path = [
        *(
            python_path
            for python_path in (environment.get("PYTHONPATH"), added.get("PYTHONPATH"))
            if python_path
        ),
        *_python_files(submission, work),
    ]
    if path:
        added["PYTHONPATH"] = os.pathsep.join(path)
    return added


def _python_files(submission: Submission, work: Path) -> list[str]:
    """Return PYTHONPATH's entries for `--py-files`, as YARN's client does: archives, and a folder of modules.

    Spark itself gives them to the driver's Python and to tasks, but not to the workers that plan a Python data source.
    """
    python_files: list[str] = []
    for item in file_items(submission, "--py-files"):
        source, name = _source(item)
        if name.endswith(".py"):
            folder = work / _MODULES
            folder.mkdir(exist_ok=True)
            _link(source, folder / name)
            python_files += [] if str(folder) in python_files else [str(folder)]
        else:
            python_files.append(str(source))
    return python_files


def _source(item: str) -> tuple[Path, str]:
    """Return the local path of `uri#name`, and its name in the container."""
    uri, _, alias = item.partition("#")
    path = Path(uri.removeprefix("file://")).absolute()
    name = alias or path.name
    if name in ("", ".", "..") or "/" in name:
        raise JobRefused(f"{item} has no name that a file in a container can have.")
    return path, name


def _link(source: Path, target: Path) -> None:
    _require(source)
    target.unlink(missing_ok=True)
    target.symlink_to(source)


def _require(source: Path) -> None:
    if not source.exists():
        raise JobRefused(f"File {source} does not exist.")


def _unpack(item: str, archive: Path, target: Path) -> None:
    kind = kind_of(archive)
    if kind is None:
        raise JobRefused(f"{item} cannot be unpacked: it is no .zip, .jar, .tar, .tgz or .tar.gz.")
    try:
        unpack(archive, kind, target)
    except OSError as error:
        raise JobRefused(f"{item} cannot be unpacked: {error}.") from None


AUTOLOAD = Path(headrace.__file__).parent / "spark" / "autoload"
PACKAGE_ROOT = Path(headrace.__file__).parent.parent

# For every Python of a job on Spark 4, whose planners have ten seconds to connect.
_EARLY = Path(__file__).parent / "early"
_FIRST_WITH_PLANNERS = (4, 0)

REPLACED = frozenset({"--master", "--deploy-mode"})
# spark-submit is a short-lived JVM that starts the job's JVM, so optimizing it is not worth the time.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
    properties = _own_properties(context, spark, buckets, hdfs)
    submission = write_configuration(
        submission, folder, spark, properties, defaults=defaults, logging=logging
    )
    require_utf8(os.environ, folder, spark.home, *buckets.values())
    given_properties = properties_of(submission, defaults)

    local = functools.partial(local_copy, context.objects, work)
    # Not into the working directory, where the unpacked archive may have the file's name.
    archive = functools.partial(local_copy, context.objects, folder / "archives")
    submission = local_submission(submission, local, archive)
    sources = making.read_sources(submission, given_properties)
    spark, for_spark = making.with_connector(spark, submission, given_properties, sources)
    notes = check_catalog(submission, given_properties, hive_site or {}, sources)
    spark = replace(spark, notes=(*spark.notes, *notes))
    arguments = [
        str(spark.home / "bin" / "spark-submit"),
        *spark_arguments(place_files(for_spark, work), spark.traits),
    ]
    environment = _spark_environment(spark, folder, exported or {})
    if in_container:
        environment |= driver_environment(
            submission, defaults, work, {**(exported or {}), **environment}
        )
    # Not `spark.driver.extraClassPath`, which jobs set themselves.
    environment["SPARK_DIST_CLASSPATH"] = str(CLASSES)
    return arguments, environment, spark


def _own_properties(
    context: JobContext, spark: JobSpark, buckets: Mapping[str, Path], hdfs: Path | None
) -> dict[str, str]:
    """Return headrace's settings for a job."""
    for_archive = archive_options(spark)
    # The archive is for a class path that begins with Spark's jars; Spark begins it with the folder of settings.
    first = {"spark.driver.extraClassPath": jars_of(spark.home)} if for_archive else {}
    properties = spark_properties(
        buckets=buckets,
        cores=context.cores,
        spark=spark.traits,
        file_system=context.file_system,
        hdfs=hdfs,
        java_options=for_archive,
    )
    return {**properties, **first}


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
        "SPARK_LAUNCHER_OPTS": " ".join((_LAUNCHER_OPTIONS, *archive_options(spark))),
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
        folders += [AUTOLOAD, making.stand_in(spark.traits.minor), PACKAGE_ROOT]
    else:
        # Interpreters that are not in the image: a bootstrap action may have created them.
        named = python_settings({}, exported).items()
        environment.update((n, value) for n, value in named if not spark.interpreter_for(value))
        if spark.connector:
            folders += [
                AUTOLOAD,
                making.stand_in(spark.traits.minor),
                making.source_folder(folder),
                making.packages_folder(spark.environment),
            ]
    if folders:
        own = exported.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([own] if own else [])])
    if spark.java_home is not None:
        environment["JAVA_HOME"] = str(spark.java_home)
    return environment


_SETTING = "hive.metastore.client.factory.class"
_FACTORY = "AWSGlueDataCatalogHiveClientFactory"
# The names of PySpark that reach the session's catalog.
_NAMES = frozenset({
    "catalog", "enableHiveSupport", "insertInto", "saveAsTable", "sql", "table", "toTable", "writeTo",
})  # fmt: skip

REFUSAL = (
    "The job uses Spark's catalog, and the cluster's spark-hive-site (or the job's property) says that it is the Glue "
    "Data Catalog, which headrace's Spark does not have: read and write the tables' folders in S3, or leave the "
    "setting out here."
)
NOTE = "the setting for the Glue Data Catalog has no effect: headrace's Spark does not have it"


def names_glue(properties: Mapping[str, str], hive_site: Mapping[str, str]) -> bool:
    """Return whether a job's settings say that its catalog is Glue's."""
    factory = properties.get(f"spark.hadoop.{_SETTING}", hive_site.get(_SETTING, ""))
    return factory.endswith(_FACTORY)


def check_catalog(
    submission: Submission,
    properties: Mapping[str, str],
    hive_site: Mapping[str, str],
    sources: Sequence[bytes],
) -> tuple[str, ...]:
    """Return a note for the log if the setting is there and does not matter. Raises JobRefused if it matters.

    `sources` are those of the job's modules. What a job in Java or Scala uses cannot be seen, so it is refused.
    """
    if not names_glue(properties, hive_site):
        return ()
    is_python = Path(submission.application).suffix in (".py", ".zip", ".egg")
    if not is_python or any(map(_reaches_catalog, sources)):
        raise JobRefused(REFUSAL)
    return (NOTE,)


def _reaches_catalog(source: bytes) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The job itself reports the error.
        return False
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in _NAMES
        # `pyspark.sql.functions` is a module.
        and not (isinstance(node.value, ast.Name) and node.value.id == "pyspark")
        for node in ast.walk(tree)
    )
