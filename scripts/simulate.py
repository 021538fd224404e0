"""Simulates the flights pipeline once for each seed; stops at the first seed that breaks a promise, and names it.

Exit code 0: every seed kept every promise. 1: one did not. 2: the arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from scripts.simulated_flights import run_each


def main() -> int:
    """Run the seeds that the arguments name."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=200, help="how many seeds to run (default: 200)"
    )
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--history", action="store_true", help="print the seed's history")
    asked = parser.parse_args()
    if asked.seeds < 1:
        parser.error("--seeds must be at least 1")
    # A simulated cloud logs errors about its own crashes.
    logging.disable(logging.CRITICAL)
    seeds = (
        [asked.seed]
        if asked.seed is not None
        else range(asked.first_seed, asked.first_seed + asked.seeds)
    )
    began_cpu_s = time.process_time()
    began_s, done, crashes, steps, acknowledged = time.perf_counter(), 0, 0, 0, 0
    outcomes = run_each(seeds)
    for seed in seeds:
        try:
            outcome = next(outcomes)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            print(f"To repeat it: scripts/simulate --seed {seed} --history")
            if asked.history:
                raise
            return 1
        done, crashes = done + 1, crashes + outcome.crashes
        steps, acknowledged = steps + outcome.steps, acknowledged + outcome.acknowledged
        if asked.history:
            print("\n".join(outcome.history))
            print(f"seed {seed}: history {outcome.digest}")
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    print(
        f"{done} seeds kept every promise: {acknowledged} flights acknowledged, {crashes} crashes, {steps} steps and"
        f" requests; {done / took_s:.1f} seeds a second, {done / cpu_s:.1f} a second of one core's time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
