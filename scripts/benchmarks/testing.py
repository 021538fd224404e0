"""Measures clouds in process (import, first cloud, later ones, a first call) and simulated seeds a second."""

from __future__ import annotations

import logging
import statistics
import subprocess
import sys
import time
from typing import Any

import boto3

from headrace.testing import cloud
from scripts.simulated_flights import run_each

IMPORTS, LATER = 5, 50
SEEDS = 100


_IMPORT = """
import time
began_s = time.perf_counter()
import headrace.testing
print((time.perf_counter() - began_s) * 1000)
"""


def import_ms() -> float:
    """Return the milliseconds of `import headrace.testing` in a process of its own."""
    program = [sys.executable, "-c", _IMPORT]
    return float(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


def cloud_ms() -> float:
    """Return the milliseconds of entering and leaving a cloud."""
    began_s = time.perf_counter()
    with cloud():
        pass
    return (time.perf_counter() - began_s) * 1000


def first_call_ms() -> float:
    """Return the milliseconds from entering a cloud until its first call is answered."""
    began_s = time.perf_counter()
    with cloud():
        kinesis: Any = boto3.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=1)
        return (time.perf_counter() - began_s) * 1000


def main() -> None:
    """Print the figures, with their goals."""
    importing_ms = min(import_ms() for _ in range(IMPORTS))
    first_ms = cloud_ms()
    later_ms = [cloud_ms() for _ in range(LATER)]
    first_call_ms()
    call_ms = [first_call_ms() for _ in range(LATER)]
    outcomes = run_each(range(SEEDS + 1))
    next(outcomes)
    began_s = time.process_time()
    for _ in outcomes:
        pass
    rate = SEEDS / (time.process_time() - began_s)
    for what, figure, unit, goal in (
        (f"import headrace.testing, least of {IMPORTS}", importing_ms, "ms", "goal 200"),
        ("the first cloud() of a process", first_ms, "ms", "goal 100"),
        (f"later clouds, median of {LATER}", statistics.median(later_ms), "ms", "goal 10"),
        ("the same with a call by boto3", statistics.median(call_ms), "ms", "goal 30"),
        ("simulated seeds a second of a core", rate, "", "goal 20"),
    ):
        print(f"{what:40}{figure:8.1f} {unit:2}   ({goal})")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main()
