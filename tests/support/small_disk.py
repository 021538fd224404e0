"""A disk of a chosen size for tests: a file system in memory, in a mount namespace that ends with the test.

Works as root and, where the kernel lets users make namespaces, without. Nothing has to be cleaned up: when the
process that holds the namespace ends, however it ends, the mount is gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

_PAGE_BYTES = 4096


class NoSmallDisk(Exception):
    """This machine does not let us mount; the text says what is missing."""


def own_namespace() -> list[str]:
    """Return what to put before a command, so that it may mount where nobody else sees it. Raises NoSmallDisk."""
    missing = [tool for tool in ("unshare", "mount") if shutil.which(tool) is None]
    if missing:
        raise NoSmallDisk(f"{', '.join(missing)} (util-linux) is not installed")
    prefix = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if done.returncode:
        raise NoSmallDisk(f"a namespace of its own is refused: {done.stderr.strip()}")
    return prefix


class SmallDisk:
    """A tmpfs at `inside`, seen only by processes that `command` wraps. A context manager.

    Attributes:
        inside: the folder as the wrapped processes name it.
        outside: the same folder for the process that made it.
    """

    def __init__(self, folder: Path, size_bytes: int, *, in_own_namespace: bool = False) -> None:
        """Describe a disk; with `in_own_namespace` this process is in one already: see `own_namespace`."""
        self._in_own_namespace = in_own_namespace
        self.inside = folder
        self.size_bytes = size_bytes
        self._is_root = os.geteuid() == 0
        self._holder: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        missing = [tool for tool in ("unshare", "nsenter", "mount") if shutil.which(tool) is None]
        if missing:
            raise NoSmallDisk(f"{', '.join(missing)} (util-linux) is not installed")
        self.inside.mkdir(parents=True, exist_ok=True)
        if self._in_own_namespace:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={self.size_bytes}", "tmpfs"]
            done = subprocess.run([*mount, str(self.inside)], capture_output=True, text=True)
            if done.returncode:
                raise NoSmallDisk(f"a mount is refused: {done.stderr.strip()}")
            return self
        user = [] if self._is_root else ["--map-root-user"]
        script = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo ready && exec cat'
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *user, "sh", "-c", script, "sh",
             str(self.size_bytes), str(self.inside)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        if self._holder.stdout.readline().strip() != "ready":
            _, said = self._holder.communicate()
            raise NoSmallDisk(f"a namespace with a mount of its own is refused: {said.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()

    @property
    def outside(self) -> Path:
        """The folder, through the holder's view of the file system. SQLite cannot open files there."""
        if self._holder is None:
            return self.inside
        return Path(f"/proc/{self._holder.pid}/root{self.inside}")

    def command(self, *arguments: str) -> list[str]:
        """Return a command that runs `arguments` where the disk is mounted."""
        if self._holder is None:
            return list(arguments)
        user = [] if self._is_root else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self._holder.pid), "--mount", *user,
                f"--wdns={Path.cwd()}", "--", *arguments]  # fmt: skip

    def resize(self, size_bytes: int) -> None:
        """Make the disk larger, or smaller, but never smaller than what lies on it."""
        subprocess.run(
            self.command("mount", "-o", f"remount,size={size_bytes}", str(self.inside)),
            check=True, capture_output=True,
        )  # fmt: skip

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Make the disk just large enough for what lies on it and `leave_bytes` more; `resize` undoes it.

        Where it is being written to, a little more is left with each try: who writes fills that at once.
        """
        for tries in range(40):
            status = os.statvfs(self.outside)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            try:
                pages = leave_bytes // _PAGE_BYTES + tries * tries
                self.resize(used + pages * _PAGE_BYTES)
            except subprocess.CalledProcessError:
                continue  # written to since it was measured
            return
        raise AssertionError("the disk fills faster than it can be measured")

    @property
    def free_bytes(self) -> int:
        """How much may be written."""
        status = os.statvfs(self.outside)
        return status.f_bavail * status.f_frsize
