"""Prepares a job's working directory as in YARN or EMR Serverless: files, unpacked archives, the driver's environment.

In the working directory, files are links and archives are folders, with the name after `#` or else the file's name
(Spark, "Running Spark on YARN"). The driver and the tasks share it, so a driver in client mode sees what on a cluster
only its executors see.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from headrace.spark_submit.arguments import Submission, file_items, properties_of
from headrace.spark_submit.errors import JobRefused

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
        *(each for each in (environment.get("PYTHONPATH"), added.get("PYTHONPATH")) if each),
        *_python_files(submission, work),
    ]
    if path:
        added["PYTHONPATH"] = os.pathsep.join(path)
    return added


def _python_files(submission: Submission, work: Path) -> list[str]:
    """Return PYTHONPATH's entries for `--py-files`, as YARN's client does: archives, and a folder of modules.

    Spark itself gives them to the driver's Python and to tasks, but not to the workers that plan a Python data source.
    """
    found: list[str] = []
    for item in file_items(submission, "--py-files"):
        source, name = _source(item)
        if name.endswith(".py"):
            folder = work / _MODULES
            folder.mkdir(exist_ok=True)
            _link(source, folder / name)
            found += [] if str(folder) in found else [str(folder)]
        else:
            found.append(str(source))
    return found


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
