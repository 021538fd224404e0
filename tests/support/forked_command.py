"""`headrace`, or another command of Python, in a child of the process of the test, which has imported it already."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping

from headrace.cli.main import main

# From linux/capability.h: reading and writing whatever the mode says, which root may.
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
# A command that does not end is killed.
_LONGEST_S = 120


def obey_modes() -> None:
    """Take from this process what lets root pass over files' modes."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    for word in (0, 1):  # effective and permitted
        data[word] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    assert libc.capset(header, data) == 0


def run(
    *arguments: str,
    prepare: Callable[[], object] = obey_modes,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    command: Callable[[], object] = main,
) -> tuple[int, str, str]:
    """Run the command in a child of this process; return its exit code and what it printed.

    Args:
        arguments: what follows the command's name.
        prepare: called in the child first.
        stdin: what the command reads.
        environment: its variables instead of this process's.
        command: what is run; it raises SystemExit with its exit code.
    """
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(_LONGEST_S)
                for descriptor, file in enumerate((given, out, err)):
                    os.dup2(file.fileno(), descriptor)
                sys.stdin = open(0, closefd=False)  # noqa: SIM115
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
                # What pytest has set for the test is none of the command's.
                warnings.simplefilter("ignore")
                logging.getLogger().handlers.clear()
                if environment is not None:
                    os.environ.clear()
                    os.environ.update(environment)
                prepare()
                sys.argv = ["headrace", *arguments]
                command()
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException:  # noqa: BLE001 - what the test looks for
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def run_headrace(
    *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command with this user's rights, as `subprocess.run` would in a process of its own."""
    code, out, err = run(*arguments, prepare=list, stdin=stdin, environment=environment)
    return subprocess.CompletedProcess(("headrace", *arguments), code, out, err)
