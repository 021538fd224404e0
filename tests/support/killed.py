"""Runs something in a child of this process that is killed before its n-th change to the file system."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.copyfile",
            "shutil.copymode", "shutil.rmtree", "sqlite3.connect")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR


def run_killed(action: Callable[[], object], changes: int) -> bool:
    """Let `action` make so many changes, then kill it; return whether it came to its end before."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            sys.addaudithook(_Killer(changes))
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - told, and the child must not go on as the test
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), f"the child ended with {status}"
    return status == 0


class _Killer:
    def __init__(self, changes: int) -> None:
        self._left = changes

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHANGES and not (event == "open" and (arguments[2] or 0) & _WRITING):
            return
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
