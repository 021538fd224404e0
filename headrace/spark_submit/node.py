"""Runs one of the programs of EMR's machines in a job's process: `python -I -c BOOT ROOT SPEC PROGRAM ARGUMENTS...`.

See `node_programs`. Files in S3 are fetched by requests with the job's credentials.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.spark_submit import JobRefused, making
from headrace.spark_submit.arguments import (
    Submission,
    deploy_mode,
    expanded_by_yarn,
    local_copy,
    parse_submission,
    properties_of,
    with_file_options,
)
from headrace.spark_submit.commands import REFUSAL, REPLACED, names_glue, spark_command
from headrace.spark_submit.configuration import hadoop_site
from headrace.spark_submit.environments import ensure, python_for
from headrace.spark_submit.job_context import CLASSES, JobContext
from headrace.spark_submit.making import build_command
from headrace.spark_submit.node_programs import (
    HADOOP_CLASSES,
    SHELLS,
    STATE_PUSHER,
    NodeSpec,
    copy_files,
    parse_copy,
    read_spec,
    require_program,
    without_cluster,
)
from headrace.spark_submit.sparks import JobSpark, Sparks, python_settings


def main() -> None:
    """Run the program in place of this process; end with a sentence on stderr if it is refused."""
    path, program, *arguments = sys.argv[1:]
    spec = read_spec(Path(path))
    os.environ.update(spec.variables)
    try:
        require_program([program, *arguments])
        if program == "s3-dist-cp":
            copy_files(parse_copy(arguments), _client("s3"), Path(spec.hdfs))
        elif program in ("hadoop", "hdfs"):
            _run_hadoop(spec, program, arguments)
        elif program == STATE_PUSHER:
            sys.stdout.write("headrace shows the states of steps itself: there is none to send.\n")
        else:
            _run_spark(spec, program, arguments)
    except JobRefused as error:
        sys.exit(str(error))


class _FetchedObjects:
    """An `ObjectStore` for the files of a submission: `file` downloads an object."""

    def __init__(self, buckets: Mapping[str, str]) -> None:
        self._buckets = {name: Path(folder) for name, folder in buckets.items()}

    def file(self, bucket: str, key: str) -> Path:
        """Return a copy of the object. Raises BucketNotFound, ObjectNotFound, JobRefused."""
        from botocore.exceptions import ClientError

        # In TMPDIR, which goes with the job.
        target = Path(tempfile.mkdtemp()) / "object"
        try:
            _client("s3").download_file(bucket, key, str(target))
        except ClientError as error:
            code = cast("Any", error).response["Error"]["Code"]
            if code == "NoSuchBucket":
                raise BucketNotFound(bucket) from None
            if code in ("404", "NoSuchKey"):
                raise ObjectNotFound(key) from None
            raise JobRefused(f"s3://{bucket}/{key} cannot be read: {error}") from None
        return target

    def buckets(self) -> Mapping[str, Path]:
        """Return every bucket that was there when the job began, with its folder."""
        return self._buckets


def _client(service: str) -> Any:
    # It takes long to import, and few programs need it.
    return importlib.import_module("boto3").client(service)


def _run_spark(spec: NodeSpec, program: str, arguments: list[str]) -> NoReturn:
    """Run spark-submit or a shell of Spark."""
    is_shell = program in SHELLS
    submission = Submission([], "", []) if is_shell else parse_submission(arguments)
    is_in_cluster = not is_shell and deploy_mode(submission, spec.defaults) == "cluster"
    if is_in_cluster:
        submission = expanded_by_yarn(submission)
    settings = python_settings(properties_of(submission, spec.defaults), spec.exported)
    spark = _spark(spec, settings)
    if is_shell and names_glue(spec.defaults, spec.hive_site):
        raise JobRefused(REFUSAL)
    command, environment, spark = spark_command(
        _context(spec),
        with_file_options(submission, {} if is_shell else spec.defaults, yarn=True),
        Path(spec.folder),
        spark,
        defaults=spec.defaults,
        logging=spec.logging[spark.traits.logging_classification],
        exported=spec.exported,
        hive_site={} if is_shell else spec.hive_site,
        in_container=is_in_cluster,
        hdfs=Path(spec.hdfs),
    )
    if is_shell:
        rest = without_cluster(arguments, dict.fromkeys(REPLACED))
        command = [str(spark.home / "bin" / program), "--master", "local[*]", *rest]
    _make(spark)
    _become(command, environment)


def _run_hadoop(spec: NodeSpec, program: str, arguments: list[str]) -> NoReturn:
    """Run a class of Hadoop's client library; the default file system is HDFS, as on EMR's machines."""
    spark = _spark(spec, {})
    _make(spark)
    folder = Path(spec.folder)
    context = _context(spec)
    site = hadoop_site(
        context.objects.buckets(), context.file_system, Path(spec.hdfs), is_default=True
    )
    conf = folder / "hadoop"
    conf.mkdir(exist_ok=True)
    (conf / "core-site.xml").write_text(site, encoding="utf-8")
    java = "java" if spark.java_home is None else str(spark.java_home / "bin" / "java")
    name = HADOOP_CLASSES[program, arguments[0]]
    rest = arguments[1:]
    if arguments[0] == "jar" and rest:
        rest[0] = local_copy(context.objects, folder / "work", rest[0])
    path = f"{conf}:{CLASSES}:{spark.home / 'jars'}/*"
    _become([java, "-cp", path, name, *rest], {})


def _context(spec: NodeSpec) -> JobContext:
    return JobContext(
        objects=cast("ObjectStore", _FetchedObjects(spec.buckets)),
        endpoint_url=lambda: spec.endpoint_url,
        cores=spec.cores,
        file_system=spec.file_system,
    )


def _spark(spec: NodeSpec, settings: Mapping[str, str]) -> JobSpark:
    return Sparks(installed=spec.installed, strict=spec.strict).of(spec.label, settings)


def _make(spark: JobSpark) -> None:
    """Create the Spark's environment, and the connector's packages, if they are missing."""
    if spark.environment is None or spark.release is None:
        return
    interpreter, _ = python_for(spark.environment.spark, [spark.environment.python])
    mend = f"{build_command(spark.release.label)}."
    ensure(spark.environment, interpreter, say=_say, mend=mend)
    if spark.connector:
        making.make_packages(spark.environment)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], command, {**os.environ, **environment})
