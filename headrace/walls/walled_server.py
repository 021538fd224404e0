"""Starts a server behind walls, and says whether this machine permits them. The program that does it is `server`.

The command that runs a launcher: a module's `main` in a Python of its own, without site-packages.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_RUN = (
    "import importlib, sys; sys.path.append(sys.argv[1]);"
    " sys.exit(importlib.import_module(sys.argv[2]).main())"
)
_ROOT = str(Path(__file__).resolve().parents[2])


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command. The module imports only the standard library and `headrace.walls`."""
    return [sys.executable, "-I", "-S", "-c", _RUN, _ROOT, module, *arguments]


_SERVER = "headrace.walls.server"
# Any id but root's.
_USER = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """What a server sees and runs.

    Attributes:
        stage: an existing empty folder, where its root directory is built, for itself only.
        seen: pairs of a path that it sees, read-only, and the machine's file or folder.
        folders: folders that it may change, from which no program and no library can be run.
        arguments: the command; the first is the program's path.
        environment: its environment variables.
        stop_signal: the number of the signal that asks it to end.
        user: its user and group id, as it sees them.
        memory_mib: the size of its /dev/shm; its /tmp is read-only.
    """

    stage: str
    seen: Sequence[tuple[str, str]]
    folders: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    stop_signal: int
    user: int = _USER
    memory_mib: int = 256


def build_command(plan: Plan) -> list[str]:
    """Return the command that runs the plan's server until its standard input closes."""
    return command_of(_SERVER, json.dumps(asdict(plan)))


@functools.cache
def refusal() -> str:
    """Return why this machine permits no walls around servers; empty when it does. Asks the machine once."""
    if not sys.platform.startswith("linux"):
        return "walls need Linux"
    with tempfile.TemporaryDirectory(prefix="headrace-walls-") as folder:
        # A server that cannot be run behind walls ends with another status than one whose program is missing.
        program = str(Path(sys.executable).resolve())
        libraries = libraries_of(program)
        plan = Plan(
            stage=folder,
            seen=[(path, path) for path in (program, *libraries)],
            folders=[],
            arguments=[program, "--version"],
            environment={},
            stop_signal=15,
        )
        tried = subprocess.run(
            build_command(plan), capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    if tried.returncode == 0:
        return ""
    lines = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("walls: ") if lines else f"status {tried.returncode}"


def libraries_of(program: str) -> list[str]:
    """Return the shared libraries that a program loads, and its loader, as `ldd` lists them; [] when it cannot."""
    listed = subprocess.run(["ldd", program], capture_output=True, check=False, text=True)
    words = (line.partition("=>")[2] or line for line in listed.stdout.splitlines())
    paths = (text.split()[0] for text in words if text.split())
    return sorted({path for path in paths if path.startswith("/")})
