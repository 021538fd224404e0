"""Measures a start of headrace: until Kinesis answers, and the memory once it is quiet, when moto is loaded too.

    scripts/bench start [--before ../before]

The first start of each checkout compiles its modules, and does not count.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.report import US
from scripts.benchmarks.servers import PROGRAMS, checkout, running

BEFORE = "headrace-before"
# It is quiet when so many looks in a row, each after so long, see less work than this.
QUIET_LOOKS, LOOK_EVERY_S, QUIET_S = 6, 0.5, 0.02
QUIET_WITHIN_S = 120.0


def one_start(name: str) -> tuple[float, float, float]:
    """Return the seconds and the processor time until Kinesis answers, and the megabytes once it is quiet."""
    began_s = time.perf_counter()
    with running(name) as server:
        answered_s = time.perf_counter() - began_s
        used_s = _used_s(server.pid)
        _wait_for_quiet(server.pid)
        return answered_s, used_s, server.rss_mb()


def _used_s(pid: int) -> float:
    """Return a process's processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for_quiet(pid: int) -> None:
    """Wait until a process has done next to nothing for a while: on a busy machine its start takes long."""
    deadline_s = time.monotonic() + QUIET_WITHIN_S
    quiet, before_s = 0, _used_s(pid)
    while quiet < QUIET_LOOKS:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"process {pid} was still busy after {QUIET_WITHIN_S:.0f} s")
        time.sleep(LOOK_EVERY_S)
        now_s = _used_s(pid)
        quiet = quiet + 1 if now_s - before_s <= QUIET_S else 0
        before_s = now_s


@click.command()
@click.option("--before", type=click.Path(exists=True, file_okay=False), help="Another checkout.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Starts.")
def main(before: str | None, rounds: int) -> None:
    """Measure starts, of another checkout too, in turn."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    names = [US]
    if before is not None:
        PROGRAMS[BEFORE] = checkout(before)
        names.insert(0, BEFORE)
    for name in names:
        one_start(name)
    measured = [{name: one_start(name) for name in names} for _ in range(rounds)]
    table = Table("", "answers after", "processor time", "memory when quiet")
    for name in names:
        answered_s, used_s, memory_mb = (
            statistics.median(start[name][at] for start in measured) for at in range(3)
        )
        table.add_row(name, f"{answered_s:.2f} s", f"{used_s:.2f} s", f"{memory_mb:.0f} MB")
    console = Console()
    console.print(table)
    console.print(f"Medians of {rounds} starts; load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
