"""Copies the files that a submission names in S3 to this machine, and names the copies in its arguments."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.spark_submit.arguments import Submission, option_values
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.spark_versions import SparkTraits

_REPLACED = frozenset({"--master", "--deploy-mode"})
_FILE_LISTS = frozenset({"--py-files", "--files", "--jars", "--archives"})


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


def local_copy(objects: ObjectStore, folder: Path, uri: str) -> str:
    """Fetch `s3://bucket/key#name` into a folder, and return its path here; anything else stays as it is."""
    path, mark, name = uri.partition("#")
    if not path.startswith(("s3://", "s3a://", "s3n://")):
        return uri
    return f"{fetch(objects, path, folder)}{mark}{name}"


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
