"""Keeps the app from running again when none of its inputs has changed: its last cloud assembly is still right.

The CDK CLI runs an app for each of its commands, and the CDK takes most of a command's time, also where nothing has
changed. So the app notes a digest of its inputs beside its assembly, as build tools do: the files of `INPUTS`, the
environment (with the context, which the CLI puts there), the installed packages, and the interpreters that it looks
for. It runs again when the digest or a file of the assembly differs. Standard library alone: the CDK's import is
what this saves.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# What the app reads: a construct that reads another folder adds it here.
INPUTS = ("cdk", "firehose", "headrace", "lambdas", "spark_jobs")
_NO_INPUTS = {"__pycache__", "cdk.out", "node_modules"}
_NOTE = "inputs.json"
# What differs between the commands of one shell, and what only a terminal reads.
_NOT_READ = {"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL"}
# Names of files that the CLI writes for the app, deletes and reads.
_OF_THE_CLI = ("CDK_ERROR_FILE", "CDK_PERF_COUNTERS_FILE")
# The CLI writes a context that is too long for a variable to a file with another name each time.
_CONTEXT_FILE = "CONTEXT_OVERFLOW_LOCATION_ENV"


class Assembly:
    """The cloud assembly of an app in the folder that the CDK CLI names.

    Make it before the app reads anything: what changes while the app runs then counts as changed.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._inputs = digest_inputs(_ROOT, environment)

    def is_current(self) -> bool:
        """Whether the folder has what the app would write."""
        try:
            noted = json.loads((self._folder / _NOTE).read_text())
        except (OSError, ValueError):
            return False
        return noted == {"inputs": self._inputs, "files": self._list_files()}

    def forget(self) -> None:
        """Note that the app is about to write the folder."""
        (self._folder / _NOTE).unlink(missing_ok=True)

    def keep(self) -> None:
        """Note that the app has written the folder."""
        note = {"inputs": self._inputs, "files": self._list_files()}
        (self._folder / _NOTE).write_text(json.dumps(note))

    def _list_files(self) -> dict[str, list[int]]:
        """Return the size and the time of each file that the manifest leads to."""
        of_the_cli = {self._environment.get(name) for name in _OF_THE_CLI}
        return {
            str(path.relative_to(self._folder)): [path.stat().st_size, path.stat().st_mtime_ns]
            for pattern in ("cdk.out", "*.json", "asset.*", "asset.*/**/*")
            for path in sorted(self._folder.glob(pattern))
            if path.is_file() and path.name != _NOTE and str(path) not in of_the_cli
        }


def digest_inputs(root: Path, environment: Mapping[str, str]) -> str:
    """Return a digest of all that the app's assembly depends on."""
    digest = hashlib.sha256()
    for part in _inputs(root, environment):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


def _inputs(root: Path, environment: Mapping[str, str]) -> Iterator[bytes]:
    for name in sorted(environment.keys() - _NOT_READ - {_CONTEXT_FILE}):
        yield os.fsencode(f"{name}={environment[name]}")
    if context := environment.get(_CONTEXT_FILE):
        yield Path(context).read_bytes()
    yield os.fsencode(f"{sys.version} {sys.executable} {root}")
    for folder in INPUTS:
        yield from _files(root / folder)
    # An installer writes a package's RECORD anew.
    records = (
        path for place in sys.path for path in sorted(Path(place).glob("*.dist-info/RECORD"))
    )
    for path in (*list_interpreters(environment), *records):
        found = path.stat()
        yield os.fsencode(f"{path} {path.resolve()} {found.st_size} {found.st_mtime_ns}")


def list_interpreters(environment: Mapping[str, str]) -> list[Path]:
    """Return the Nodes on PATH, and every Python that `headrace.spark_submit.environments` may find."""
    home = Path(environment.get("HOME") or "/")
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv")
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    on_path = (Path(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder)
    found = [
        path for folder in on_path for name in ("node", "python3*") for path in folder.glob(name)
    ]
    found += [*Path(sys.base_prefix).glob("bin/python3*"), *pyenv.glob("versions/*/bin/python3*")]
    found += data.glob("uv/python/*/bin/python3*")
    return sorted(path for path in found if path.is_file())


def _files(folder: Path) -> Iterator[bytes]:
    """Yield the path, the mode and the content of each file below a folder."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(set(folders) - _NO_INPUTS)
        yield os.fsencode(parent)
        for path in sorted(Path(parent, name) for name in files):
            yield os.fsencode(f"{path} {path.stat().st_mode if path.exists() else 0:o}")
            yield path.read_bytes() if path.is_file() else b""
