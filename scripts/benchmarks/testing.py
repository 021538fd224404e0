"""Measures clouds in process (the first call in the first cloud, and in later ones) and simulated seeds per second."""

from __future__ import annotations

import gc
import logging
import statistics
import time
from typing import Any

import boto3

from headrace.testing import cloud
from scripts.simulated_flights import run

LATER = 50
SEEDS = 100


def first_call_ms() -> float:
    """Return the milliseconds from entering a cloud until its first call is answered."""
    began_s = time.perf_counter()
    with cloud():
        kinesis: Any = boto3.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=1)
        return (time.perf_counter() - began_s) * 1000


def main() -> None:
    """Print the figures, with their goals."""
    first_ms = first_call_ms()
    later_ms = sorted(first_call_ms() for _ in range(LATER))
    run(0)
    gc.freeze()
    began_s = time.process_time()
    for seed in range(SEEDS):
        run(seed)
    rate = SEEDS / (time.process_time() - began_s)
    print(f"first call after entering cloud()   {first_ms:6.0f} ms   (goal 300)")
    print(
        f"later clouds, median of {LATER}          {statistics.median(later_ms):6.0f} ms   (goal 30)"
    )
    print(f"simulated seeds a second of a core  {rate:6.1f}      (goal 20)")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main()
