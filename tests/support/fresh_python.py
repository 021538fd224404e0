"""Programs in processes that have imported nothing but what they are about: forks of one that has, a start at a time.

What a program sees is what it would see in an interpreter of its own that had run the start first; that costs as much
as the program.
"""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

# It imports little: programs look for what is imported.
_FORKING = """
import os, sys, traceback
names = {"__name__": "__main__"}
exec(sys.argv[1], names)
for line in sys.stdin:
    program, arguments, output = eval(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            written = os.open(output, os.O_WRONLY)
            os.dup2(written, 1)
            os.dup2(written, 2)
            sys.argv = ["-c", *arguments]
            exec(program, names)
            sys.stdout.flush()
            code = 0
        except BaseException:
            sys.stdout.flush()
            traceback.print_exc()
        os._exit(code)
    print(os.waitpid(child, 0)[1], flush=True)
"""
# Of a cloud that is not built.
CLOUD = "import sys, headrace.cloud\n"


def run_after(start: str, program: str, *arguments: Path) -> str:
    """Run a program after `start`, whose names it has; return what it prints. It must not fail.

    Args:
        start: a program, which runs once for all that come after it.
        program: its text.
        arguments: what follows in sys.argv.
    """
    process = _process_after(start)
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        process.stdin.write(f"{(program, tuple(map(str, arguments)), output.name)!r}\n")
        process.stdin.flush()
        status = process.stdout.readline()
        printed = output.read()
    assert status == "0\n", f"{status}{printed}"
    return printed


@functools.cache
def _process_after(start: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _FORKING, start],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.communicate()
