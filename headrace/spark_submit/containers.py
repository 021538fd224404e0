"""Prepares a driver's working directory as in YARN or EMR Serverless: files, unpacked archives, environment.

In the working directory, files are links and archives are folders, with the name after `#` or else the file's name
(Spark, "Running Spark on YARN"). Spark itself unpacks an archive without a name after `#`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.spark_submit.arguments import Submission, option_values, properties_of
from headrace.spark_submit.errors import JobRefused

_ENVIRONMENT = "spark.yarn.appMasterEnv."
_MODULES = "__pyfiles__"
# Paths of EMR's machines do not exist here, so only a Python that the job brings in an archive is used.
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def fill_container(
    submission: Submission,
    defaults: Mapping[str, str],
    work: Path,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Prepare `work`, which has the files from S3; return the additional environment variables. Raises JobRefused."""
    for item in _items(submission, "--files"):
        source, name = _source(item, work)
        if name != source.name or source.parent != work:
            _link(source, work / name)
    for item in _items(submission, "--archives"):
        source, name = _source(item, work)
        if name != source.name:
            _unpack(item, source, work / name)
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
        *(each for each in (environment.get("PYTHONPATH"), added.get("PYTHONPATH")) if each),
        *_python_files(submission, work),
    ]
    if path:
        added["PYTHONPATH"] = os.pathsep.join(path)
    return added


def without_unpacked(submission: Submission, arguments: Sequence[str]) -> list[str]:
    """Return spark-submit's `arguments` without the archives that `fill_container` unpacked.

    Spark would unpack them a second time, to a place where no job looks.
    """
    found: list[str] = []
    left = len(option_values(submission, "--archives"))
    words = iter(arguments)
    for word in words:
        if word != "--archives" or not left:
            found.append(word)
            continue
        left -= 1
        # Spark itself unpacks an archive without a name after `#`.
        kept = ",".join(item for item in next(words).split(",") if "#" not in item)
        found += [word, kept] if kept else []
    return found


def _python_files(submission: Submission, work: Path) -> list[str]:
    """Return PYTHONPATH's entries for `--py-files`, as YARN's client does: archives, and a folder of modules.

    Spark itself gives them to the driver's Python and to tasks, but not to the workers that plan a Python data source.
    """
    found: list[str] = []
    for item in _items(submission, "--py-files"):
        source, name = _source(item, work)
        if name.endswith(".py"):
            folder = work / _MODULES
            folder.mkdir(exist_ok=True)
            _link(source, folder / name)
            found += [] if str(folder) in found else [str(folder)]
        else:
            found.append(str(source))
    return found


def unpack_archives(
    submission: Submission,
    properties: Mapping[str, str],
    work: Path,
    fetched: Callable[[str], Path],
) -> None:
    """Unpack `--archives` and `spark.archives` that have a name after `#` into `work`. Raises JobRefused.

    Args:
        submission: the job's submission.
        properties: the job's Spark properties.
        work: the driver's working directory, which already has the files of `--archives`.
        fetched: copies the object of an S3 URI into `work`.
    """
    named = _items(submission, "--archives")
    for item in named or [i for i in properties.get("spark.archives", "").split(",") if i]:
        uri, _, _ = item.partition("#")
        if uri.startswith(("s3://", "s3a://", "s3n://")) and not named:
            fetched(uri)
        source, name = _source(item, work)
        if name != source.name:
            _unpack(item, source, work / name)


def _items(submission: Submission, option: str) -> list[str]:
    return [
        item
        for value in option_values(submission, option)[-1:]
        for item in value.split(",")
        if item
    ]


def _source(item: str, work: Path) -> tuple[Path, str]:
    """Return the local path of `uri#name`, and its name in the container."""
    uri, _, alias = item.partition("#")
    if uri.startswith(("s3://", "s3a://", "s3n://")):
        path = work / uri.rpartition("/")[2]
    else:
        path = Path(uri.removeprefix("file://")).absolute()
    name = alias or path.name
    if name in ("", ".", "..") or "/" in name:
        raise JobRefused(f"{item} has no name that a file in a container can have.")
    return path, name


def _link(source: Path, target: Path) -> None:
    if not source.exists():
        raise JobRefused(f"File {source} does not exist.")
    target.unlink(missing_ok=True)
    target.symlink_to(source)


def _unpack(item: str, archive: Path, target: Path) -> None:
    kinds = {".zip": "zip", ".jar": "zip", ".tar": "tar", ".tgz": "gztar", ".tar.gz": "gztar"}
    kind = next((k for end, k in kinds.items() if archive.name.endswith(end)), None)
    if kind is None:
        raise JobRefused(f"{item} cannot be unpacked: it is no .zip, .jar, .tar, .tgz or .tar.gz.")
    try:
        # Archived environments have links to the machine's Python, which the filter `data` would refuse.
        if kind == "zip":
            shutil.unpack_archive(archive, target, kind)
        else:
            shutil.unpack_archive(archive, target, kind, filter="tar")
    except (shutil.ReadError, OSError) as error:
        raise JobRefused(f"{item} cannot be unpacked: {error}.") from None
