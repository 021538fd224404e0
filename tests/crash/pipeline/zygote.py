"""A process that has imported the whole cloud and forks one on demand, so that a start takes a quarter of a second.

Speaks JSON lines: {"start": [arguments], "log": path} is answered with {"pid": n}, {"wait": n} with {"status": n} once
that process has ended. The forked clouds read the time through an offset that lies in a file, which is how the tests
make clocks jump: nothing in the product knows of it.
"""

from __future__ import annotations

import gc
import importlib
import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

from tests.support.warm_server import become_cloud

OFFSET = struct.Struct("<q")
_IMPORTED_EARLY = (
    "headrace.cloud", "moto.dynamodb.responses", "moto.dynamodb.models", "moto.sqs.responses",
    "moto.sqs.models", "moto.iam.responses", "pyarrow",
)  # fmt: skip
_MODELS = ("kinesis", "lambda", "firehose", "s3", "sqs", "dynamodb")


def use_clock(path: Path) -> None:
    """Let the system's clock in this process run with the milliseconds of offset that `path` holds."""
    from headrace.core.clock import SystemClock

    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), OFFSET.size)

    def now_ms(_: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + OFFSET.unpack_from(shared)[0]

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


def _load() -> None:
    from headrace.aws.calls.operation import service_model
    from headrace.aws.protocols.moto_imports import load_moto

    load_moto()
    for name in _IMPORTED_EARLY:
        importlib.import_module(name)
    for name in _MODELS:
        service_model(name)
    # A channel's data freshness of five minutes would leave no delivery under way at a kill.
    importlib.import_module("headrace.services.kinesis.actions.channels").MIN_FRESHNESS_S = 0  # type: ignore[attr-defined]
    gc.freeze()


def _say(value: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def serve(clock_file: Path) -> None:
    """Answer the test's wishes until it goes away."""
    _load()
    use_clock(clock_file)
    _say({"ready": os.getpid()})
    parent = os.getpid()
    for line in sys.stdin:
        wish = json.loads(line)
        if "start" in wish:
            pid = os.fork()
            if pid == 0:
                become_cloud(wish["start"], wish["log"], parent)
            answer = {"pid": pid}
        else:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(wish["wait"], 0)[1])}
        _say(answer)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
