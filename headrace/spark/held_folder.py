"""Temporary folders that are removed after their process ends for any reason. Standard library only.

The process holds a lock on its folder, which the kernel releases at the process's end. Creating a folder removes those
of the same prefix without a lock, such as the ones left by `kill -9`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

# How often to retry when another process removes the folder between its creation and its lock.
_TRIES = 100


class HeldFolder:
    """A folder that belongs to this process.

    Processes may create, close and sweep folders concurrently. A child that inherits `descriptor` holds the folder too.

    Attributes:
        path: where it is.
        descriptor: holds the lock; a child inherits it only if it is passed on.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def make(
        cls,
        prefix: str,
        parent: Path | None = None,
        *,
        before_removal: Callable[[Path], object] = lambda _: None,
    ) -> HeldFolder:
        """Create a folder with a name that begins with `prefix`, by default in the temporary folder. Raises OSError.

        Remove the folders of that prefix without a lock; call `before_removal` with each of them.
        """
        parent = parent or Path(tempfile.gettempdir())
        sweep(prefix, parent, before_removal)
        for _ in range(_TRIES):
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            descriptor = _hold(path, even_without_locks=True)
            if descriptor is not None:
                return cls(path, descriptor)
        raise OSError(f"no folder {prefix}* in {parent} can be held: another process removes each")

    def close(self) -> None:
        """Remove the folder and its contents. A concurrent writer gets an OSError."""
        if self.descriptor >= 0:
            _remove(self.path)
            os.close(self.descriptor)
            self.descriptor = -1

    def close_at_sigterm(self) -> None:
        """Make SIGTERM remove the folder before it ends the process.

        Does nothing in a process that handles the signal itself, or on a thread other than the main one.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _close_all_and_end)
        _closed_at_sigterm.append(self)

    def __enter__(self) -> HeldFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_closed_at_sigterm: list[HeldFolder] = []


def _close_all_and_end(number: int, _: FrameType | None) -> None:
    # Spark sends the signal more than once: the second one must not interrupt a removal.
    signal.signal(number, signal.SIG_IGN)
    for folder in _closed_at_sigterm:
        folder.close()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def sweep(
    prefix: str, parent: Path, before_removal: Callable[[Path], object] = lambda _: None
) -> list[Path]:
    """Remove this user's folders in `parent` with a name prefix and without a lock; return them."""
    swept: list[Path] = []
    for path in sorted(parent.glob(f"{prefix}*")):
        descriptor = _hold(path)
        if descriptor is not None:
            before_removal(path)
            _remove(path)
            os.close(descriptor)
            swept.append(path)
    return swept


def _hold(path: Path, *, even_without_locks: bool = False) -> int | None:
    """Lock a folder and return its descriptor; None when it is locked, gone, or another user's.

    On a file system without locks, no folder is known to be unused, so a sweep removes none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    if _is_locked(descriptor, even_without_locks) and _is_this_users(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _is_locked(descriptor: int, even_without_locks: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return even_without_locks
    return True


def _is_this_users(descriptor: int, path: Path) -> bool:
    """Return whether a descriptor is still that of `path`, and belongs to this user."""
    held = os.fstat(descriptor)
    try:
        return held.st_uid == os.getuid() and os.path.samestat(held, path.lstat())
    except OSError:
        return False


def _remove(path: Path) -> None:
    # After a rename nobody can add files, and the next sweep finds an interrupted removal.
    gone = path.with_name(f"{path.name}.gone")
    with contextlib.suppress(OSError):
        path = path.rename(gone)
    shutil.rmtree(path, ignore_errors=True)
