"""Finds an interpreter of a Python version on this machine: headrace's own, on PATH, pyenv's, uv's."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.core.minor_versions import Minor, format_minor

_ASK_WITHIN_S = 30
_ASK = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


@functools.cache
def find_python(version: Minor) -> Path | None:
    """Return an interpreter of exactly that version that can create virtual environments, or None."""
    for candidate in _candidates(format_minor(version)):
        if _version(candidate) == format_minor(version):
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    if version == format_minor(sys.version_info[:2]):
        yield Path(sys.base_prefix) / "bin" / name
    # pyenv has shims for missing versions too, so run the interpreter to get its version.
    for folder in os.get_exec_path():
        path = shutil.which(name, path=folder)
        if path is not None:
            yield Path(path)
    home = Path(os.environ.get("HOME") or "/")
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/{name}"), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    yield from sorted(data.glob(f"uv/python/cpython-{version}.*/bin/{name}"), reverse=True)


def _version(python: Path) -> str | None:
    """Return the version that an interpreter prints; None when it cannot run, or lacks the module `venv`."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _ASK],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
