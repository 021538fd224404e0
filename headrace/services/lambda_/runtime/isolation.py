"""Gives a function its own `/opt` and `/tmp` where the machine does not permit walls (see `walls`).

Walls need a recent Linux and a whole /proc. Without them a process still enters a user and a mount namespace of its
own and mounts the two folders there, unseen by others. Where the machine forbids that too, functions reach layers
through path variables only, and `/tmp` is the machine's.
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
    """The folders that a process has of its own.

    Attributes:
        opt: the directory that is its `/opt`; None when it has none.
        tmp: where its temporary files are: `/tmp`, or a directory of its own elsewhere.
        tmp_mib: the size of `tmp`; None when that cannot be limited.
    """

    opt: Path | None
    tmp: Path
    tmp_mib: int | None

    def wrap(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs `arguments` with these directories."""
        tool = _entering()
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
    """Return the folders that a process can have of its own.

    Args:
        opt: the unpacked layers, None without any.
        own_tmp: a directory of its own, for where `/tmp` cannot be.
        storage_mib: the size of its temporary files.
        needed: paths that it must still see, so that nothing is mounted over them.
    """
    if _entering() is None:
        return Isolation(None, own_tmp, None)
    seen = [*needed, *_interpreters()]
    if opt is not None and (not OPT.is_dir() or _covers(OPT, seen)):
        opt = None
    tmp = own_tmp if _covers(TMP, seen) else TMP
    return Isolation(opt, tmp, storage_mib)


def _covers(folder: Path, paths: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for path in paths)


@functools.cache
def _interpreters() -> tuple[Path, ...]:
    programs = [sys.executable, sys.prefix, sys.base_prefix, shutil.which("node")]
    # headrace itself, whose files the Node.js client is among.
    given = [Path(p) for p in programs if p] + [Path(__file__)]
    return tuple({*given, *(path.resolve() for path in given)})


@functools.cache
def _entering() -> tuple[str, ...] | None:
    """Return the command that enters namespaces and runs the script after it, None where that fails."""
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
