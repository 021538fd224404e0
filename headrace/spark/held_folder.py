"""Temporary folders that are removed when the process that made them ends, in whatever way. Standard library only.

The process holds a lock on its folder, which the kernel drops at its end. Whoever makes the next folder of that name
removes those that nobody holds: what a `kill -9` has left stays no longer than until then.
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

# Names that another process takes away between making and locking: each time it must be the fastest.
_TRIES = 100


class HeldFolder:
    """A folder of this process's own.

    Processes may make, close and sweep folders side by side. A child that inherits `descriptor` holds the folder too.

    Attributes:
        path: where it is.
        descriptor: holds the lock; not inherited unless it is passed on.
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
        """Make a folder whose name begins with `prefix`, by default where temporary files go. Raises OSError.

        Removes the folders of that prefix that nobody holds; `before_removal` is called with each of them.
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
        """Remove the folder with all that is in it. Whoever writes there meanwhile gets an OSError."""
        if self.descriptor >= 0:
            _remove(self.path)
            os.close(self.descriptor)
            self.descriptor = -1

    def close_at_sigterm(self) -> None:
        """Have SIGTERM remove the folder before it ends the process.

        Does nothing in a process that has its own use for the signal, or on another thread than the main one.
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
    # Spark sends it more than once: the second must not end a removal half-way.
    signal.signal(number, signal.SIG_IGN)
    for folder in _closed_at_sigterm:
        folder.close()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def sweep(
    prefix: str, parent: Path, before_removal: Callable[[Path], object] = lambda _: None
) -> list[Path]:
    """Remove this user's folders in `parent` whose names begin with `prefix` and that nobody holds; return them."""
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
    """Return a descriptor that holds a folder; None when it is held, gone, or not this user's.

    Where the file system has no locks, nothing is known to be nobody's: a sweep leaves it.
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
    """Whether a descriptor is of what is still at `path`, and belongs to this user."""
    held = os.fstat(descriptor)
    try:
        return held.st_uid == os.getuid() and os.path.samestat(held, path.lstat())
    except OSError:
        return False


def _remove(path: Path) -> None:
    # Under another name nobody can add to it, and a removal that is cut short is found by the next sweep.
    gone = path.with_name(f"{path.name}.gone")
    with contextlib.suppress(OSError):
        path = path.rename(gone)
    shutil.rmtree(path, ignore_errors=True)
