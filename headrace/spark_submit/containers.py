"""Lays out a driver's folder as a container of YARN or EMR Serverless: files by name, archives unpacked, environment.

Files are links and archives folders in the folder that the driver starts in, named after `#` or else after the file
(Spark, "Running Spark on YARN"). Spark itself unpacks an archive that has no name after `#`.
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
# A path of EMR's machines means nothing here: only a Python that the job brings along is taken.
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def fill_container(
    submission: Submission,
    defaults: Mapping[str, str],
    work: Path,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Lay out `work`, which holds the files fetched from S3; return what the environment gets. Raises JobRefused."""
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
    """Return spark-submit's `arguments` without the archives that `fill_container` has unpacked.

    On this machine Spark would unpack them a second time, where no job looks for them.
    """
    found: list[str] = []
    left = len(option_values(submission, "--archives"))
    words = iter(arguments)
    for word in words:
        if word != "--archives" or not left:
            found.append(word)
            continue
        left -= 1
        # An archive without a name after `#` is Spark's own to unpack.
        kept = ",".join(item for item in next(words).split(",") if "#" not in item)
        found += [word, kept] if kept else []
    return found


def _python_files(submission: Submission, work: Path) -> list[str]:
    """Return what `--py-files` add to a container's PYTHONPATH, as YARN's client does: archives, a folder of modules.

    Spark itself gives them to the driver's Python and to tasks, but not to the workers in which it plans a data source
    that is written in Python.
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
        submission: the job's.
        properties: its Spark properties.
        work: the folder that the driver starts in; it holds the files of `--archives` already.
        fetched: copies what an S3 URI names into `work`.
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
    """Return where the file of `uri#name` is on this machine, and its name in the container."""
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
        # Archived environments hold links to the machine's own Python, which the filter `data` would refuse.
        if kind == "zip":
            shutil.unpack_archive(archive, target, kind)
        else:
            shutil.unpack_archive(archive, target, kind, filter="tar")
    except (shutil.ReadError, OSError) as error:
        raise JobRefused(f"{item} cannot be unpacked: {error}.") from None
