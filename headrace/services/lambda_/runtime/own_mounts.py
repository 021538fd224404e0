"""Gives a function its own `/opt` and `/tmp` where the machine does not permit walls (see `walls`).

Walls need a recent Linux and a complete /proc. Without walls, a process still enters its own user and mount namespace,
and mounts the two folders there, where no other process sees them. Where the machine forbids that too, functions find
layers only through path variables, and `/tmp` is the machine's.
"""

from __future__ import annotations

import functools
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.services.lambda_.runtime.environment import OPT

log = logging.getLogger(__name__)

TMP = Path("/tmp")
_PROBE_S = 10.0
_PROBE = "mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp && mount --bind -o ro /tmp /tmp"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The folders that only one process has.

    Attributes:
        opt: the directory that is mounted at its `/opt`; None when it has no `/opt`.
        tmp: the directory for its temporary files: `/tmp`, or a directory of its own elsewhere.
        tmp_mib: the size of `tmp`; None when the size cannot be limited.
    """

    opt: Path | None
    tmp: Path
    tmp_mib: int | None

    def wrap(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs `arguments` with these directories."""
        tool = _find_entering_command()
        if tool is None or (self.opt is None and self.tmp_mib is None):
            return list(arguments)
        mount = shlex.quote(str(shutil.which("mount")))
        steps: list[str] = []
        if self.opt is not None:
            steps.append(f"{mount} --bind -o ro {shlex.quote(str(self.opt))} {OPT}")
        if self.tmp_mib is not None:
            tmp = shlex.quote(str(self.tmp))
            steps.append(f"{mount} -t tmpfs -o size={self.tmp_mib}m,mode=1777 tmpfs {tmp}")
        script = " && ".join((*steps, 'exec "$@"'))
        return [*tool, script, "sh", *arguments]


def plan(*, opt: Path | None, own_tmp: Path, storage_mib: int, needed: Sequence[Path]) -> Isolation:
    """Return the folders that a process can have for itself on this machine.

    Args:
        opt: the merged layers; None without layers.
        own_tmp: the directory for temporary files if the process cannot have its own `/tmp`.
        storage_mib: the size limit of the temporary files.
        needed: paths that the process must see, so that nothing may be mounted over them.
    """
    if _find_entering_command() is None:
        return Isolation(None, own_tmp, None)
    seen = [*needed, *_list_interpreters()]
    if opt is not None and (not OPT.is_dir() or _covers(OPT, seen)):
        opt = None
    tmp = own_tmp if _covers(TMP, seen) else TMP
    return Isolation(opt, tmp, storage_mib)


def _covers(folder: Path, paths: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for path in paths)


@functools.cache
def _list_interpreters() -> tuple[Path, ...]:
    programs = [sys.executable, sys.prefix, sys.base_prefix, shutil.which("node")]
    # The process needs headrace's own files too, such as the Node.js client.
    paths = [Path(p) for p in programs if p] + [Path(__file__)]
    return tuple({*paths, *(path.resolve() for path in paths)})


@functools.cache
def _find_entering_command() -> tuple[str, ...] | None:
    """Return the command that enters new namespaces and runs a shell script there, or None where that fails."""
    tools = [shutil.which(name) for name in ("unshare", "sh", "mount")]
    if not sys.platform.startswith("linux") or None in tools:
        return None
    enter = (
        str(tools[0]),
        "--user",
        "--map-current-user",
        "--keep-caps",
        "--mount",
        "--",
        str(tools[1]),
        "-c",
    )
    try:
        probe = subprocess.run(
            [*enter, _PROBE],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("functions have no /opt and /tmp of their own: %s", error)
        return None
    if probe.returncode != 0:
        why = probe.stderr.decode("utf-8", "replace").strip()
        log.info("functions have no /opt and /tmp of their own: %s", why)
        return None
    return enter
