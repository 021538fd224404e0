"""Runs an engine in a child process, for `headrace.core.evaluation`: only a kill stops an endless expression.

`python -I child.py ENGINE NICE MEMORY`: ENGINE is a Python file with a function `answer(request: bytes) -> bytes`.
Requests come one after the other from the standard input, each with its processor time; the answers go to the standard
output. A copy of this process (a fork) answers them. A request that takes more processor time, or makes an answer that
is too long, ends the copy; one that takes more memory fails in the engine. Then this process says so, and makes another
copy, which costs a hundredth of a start. It runs without headrace's packages and without an environment, and ends with
its input.
"""

from __future__ import annotations

import os
import resource
import runpy
import signal
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

# The request's seconds and length; the answer's length, and how it went.
REQUEST = struct.Struct("<dI")
ANSWER = struct.Struct("<IB")
ANSWERED, SLOW, CRASHED = range(3)
MOST_ANSWER_BYTES = 16 * 1024 * 1024
# What a copy may keep between requests: above it another one takes its place.
_MOST_KEPT_BYTES = 128 * 1024 * 1024
_GROWN = 77
# The unit of the kernel's figure: bytes on macOS, kilobytes elsewhere.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def _request(stdin: BinaryIO) -> tuple[float, bytes] | None:
    header = stdin.read(REQUEST.size)
    if len(header) < REQUEST.size:
        return None
    seconds, length = REQUEST.unpack(header)
    return seconds, stdin.read(length)


def _answer_all(answer: Callable[[bytes], bytes], output: int) -> bool:
    """Answer requests until the input ends; False when this copy has grown too large before."""
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(output), "wb")
    while (request := _request(stdin)) is not None:
        seconds, body = request
        # Processor time, so that a busy machine does not end a good expression. The signal ends this copy.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answered = answer(body)
        if len(answered) > MOST_ANSWER_BYTES:
            os.kill(os.getpid(), signal.SIGPROF)
        signal.setitimer(signal.ITIMER_PROF, 0)
        stdout.write(ANSWER.pack(len(answered), ANSWERED))
        stdout.write(answered)
        stdout.flush()
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT > _MOST_KEPT_BYTES:
            return False
    return True


def main(engine: str, nice: int, memory_bytes: int) -> None:
    """Have requests answered until the input ends."""
    os.nice(nice)
    # An error of the kernel's here (macOS has no such limit) must not end every evaluation: time is bounded anyway.
    if sys.platform != "darwin":
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = sys.stdout.fileno()
    sys.stdout = sys.stderr  # a library may print warnings
    answer = runpy.run_path(engine)["answer"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    while True:
        copy = os.fork()
        if copy == 0:
            os._exit(0 if _answer_all(answer, output) else _GROWN)
        _, status = os.waitpid(copy, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        if code != _GROWN:
            how = SLOW if code == -signal.SIGPROF else CRASHED
            os.write(output, ANSWER.pack(0, how))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
