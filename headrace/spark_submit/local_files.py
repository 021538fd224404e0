"""Copies a submission's files from S3 to this machine, and replaces their URIs by the copies' paths."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.spark_submit.arguments import Submission
from headrace.spark_submit.errors import JobRefused

_FILE_LISTS = frozenset({"--py-files", "--files", "--jars", "--archives"})


def local_submission(
    submission: Submission, local: Callable[[str], str], local_archive: Callable[[str], str]
) -> Submission:
    """Return a submission with local paths; `local` and `local_archive` fetch a URI and return its path."""
    options: list[tuple[str, str | None]] = []
    for name, value in submission.options:
        if name in _FILE_LISTS and value is not None:
            fetched = local_archive if name == "--archives" else local
            value = ",".join(fetched(item) for item in value.split(",") if item)
        options.append((name, value))
    return Submission(options, local(submission.application), submission.arguments)


def local_copy(objects: ObjectStore, folder: Path, uri: str) -> str:
    """Fetch `s3://bucket/key#name` into a folder and return its local path; return any other value unchanged."""
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
