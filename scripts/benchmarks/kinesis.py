"""Measures Kinesis: headrace's throughput and latency beside other emulators and a bare engine in the same run.

One load client on raw sockets with prebuilt bodies, on the second processor; one server at a time on the first,
each in an empty folder. Read ratios rather than figures: machines differ, and are shared.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from headrace.cli.running_cloud import health_at
from scripts.benchmarks import report
from scripts.benchmarks.report import Goal, Line
from scripts.benchmarks.restart import restart
from scripts.benchmarks.servers import PROGRAMS, CannotStart, processors, running, version
from scripts.benchmarks.workloads import (
    CLIENTS,
    MANY_SHARDS,
    READERS,
    SHARDS,
    Load,
    Result,
    drain,
    put_record,
    put_records,
    put_to_seen,
    put_to_subscriber,
    readers_of_one_shard,
    resident,
)

PEERS = ("moto", "ministack", "kinesalite", "kinesis-mock")
FSYNC = "headrace-fsync"
RESTART = "kill -9 and restart"
RESTART_RECORDS = 10_000_000
QUICK_RESTART_RECORDS = 1_000_000
RATE = "records/s"


@dataclass(frozen=True)
class Workload:
    """A workload; `goals` are the metrics to show, with their goals."""

    name: str
    run: Callable[[Load], Result]
    goals: dict[str, Goal | None]
    on_fsync: bool = False
    on_ceiling: bool = True


WORKLOADS = (
    Workload(
        "PutRecords 500 x 100 B",
        lambda load: put_records(load, "small", 100),
        {RATE: report.times_the_best(15, kinesis_mock=500)},
    ),
    Workload(
        "GetRecords drain, 100 B",
        lambda load: drain(load, "small"),
        {RATE: report.times_the_best(10)},
    ),
    Workload(
        f"{READERS} readers of one shard",
        lambda load: readers_of_one_shard(load, "small"),
        {RATE: report.times_the_best(9)},
    ),
    Workload(
        "PutRecords 500 x 1 KiB",
        lambda load: put_records(load, "large", 1024),
        {RATE: report.times_the_best(5)},
    ),
    Workload("GetRecords drain, 1 KiB", lambda load: drain(load, "large"), {RATE: None}),
    Workload(
        "PutRecords 500 x 10 KiB",
        lambda load: put_records(load, "huge", 10 * 1024, bodies=4),
        {RATE: None},
    ),
    Workload(
        "GetRecords drain, 10 KiB",
        lambda load: drain(load, "huge"),
        {RATE: report.of_the_ceiling(0.67)},
    ),
    *(
        Workload(
            f"PutRecords 500 x 100 B, {shards} shard{'s' * (shards > 1)}",
            lambda load, shards=shards: put_records(load, f"wide-{shards}", 100, shards),
            {RATE: goal},
        )
        for shards, goal in (
            (1, None),
            (64, report.of_the_ceiling(0.67)),
            (MANY_SHARDS, report.all_of(report.times_the_best(12), report.of_the_ceiling(0.67))),
        )
    ),
    Workload(
        "PutRecord, 1 client",
        lambda load: put_record(load, "one", 1),
        {RATE: report.times_the_best(3), "p50 ms": None, "p99 ms": report.at_most(1, "ms")},
    ),
    Workload(
        f"PutRecord, {CLIENTS} clients",
        lambda load: put_record(load, "many", CLIENTS),
        {
            RATE: report.all_of(report.times_the_best(6), report.of_the_ceiling(0.6)),
            "p99 ms": None,
        },
    ),
    Workload(
        f"PutRecord, {CLIENTS} clients, 1 shard",
        lambda load: put_record(load, "many-to-one", CLIENTS, 1),
        {RATE: report.share_of(FSYNC, 0.5), "p99 ms": None},
        on_fsync=True,
    ),
    Workload(
        "put to seen, polling",
        lambda load: put_to_seen(load, "seen"),
        {
            "p50 ms": report.all_of(
                report.no_slower_than_any(), report.of_the_ceiling(0.67, higher_is_better=False)
            ),
            "p99 ms": None,
        },
    ),
    Workload(
        "put to seen, SubscribeToShard",
        lambda load: put_to_subscriber(load, "pushed"),
        {"p50 ms": report.at_most(5, "ms"), "p99 ms": None},
        # The bare engine pushes nothing.
        on_ceiling=False,
    ),
)
# Alone, on a fresh server, so that the data of other workloads does not count.
RESIDENT = Workload(
    "1 million records of 100 B",
    lambda load: resident(load, "resident"),
    {"MB": report.at_most(120, "MB")},
)
RESTART_GOALS = {"seconds to healthy": report.at_most(2, "s"), "MB": report.at_most(200, "MB")}

# By workload and target: a result for each round.
Results = dict[str, dict[str, list[dict[str, Any]]]]


@click.command()
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Rounds of the medians."
)
@click.option(
    "--seconds", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Per workload."
)
@click.option("--quick", is_flag=True, help="One short round, and a restart with a million.")
@click.option(
    "--peers",
    default=",".join(PEERS),
    show_default=True,
    help="Comma-separated. Empty: headrace alone.",
)
@click.option("--only", default="", help="Only workloads with this in their name.")
@click.option("--markdown", is_flag=True, help="Print the table of docs/performance.md.")
@click.option(
    "--restart/--no-restart", "with_restart", default=True, help="Kill and restart with 10 million."
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    help="Also write all rounds to this file.",
)
def main(
    rounds: int,
    seconds: float,
    peers: str,
    only: str,
    json_path: Path | None,
    *,
    markdown: bool,
    quick: bool,
    with_restart: bool,
) -> None:
    """Measure Kinesis, and compare headrace with the best of its peers."""
    targets = [report.US, FSYNC, report.CEILING, *filter(None, peers.split(","))]
    unknown = set(targets) - set(PROGRAMS)
    if unknown:
        raise click.UsageError(f"no such target: {', '.join(sorted(unknown))}")
    rounds, seconds = (1, min(seconds, 1.0)) if quick else (rounds, seconds)
    chosen = [each for each in (*WORKLOADS, RESIDENT) if only in each.name]
    # The drains read the records of the puts before them.
    chosen = [*_needed(chosen), *chosen]
    started = time.monotonic()
    results = measure(chosen, targets, rounds, seconds)
    lines = [
        Line(each.name, metric, goal) for each in chosen for metric, goal in each.goals.items()
    ]
    if with_restart and only in RESTART:
        results[RESTART] = {report.US: [_restart(quick=quick)]}
        lines += [Line(RESTART, metric, goal) for metric, goal in RESTART_GOALS.items()]
    medians = {
        workload: {target: report.median_of(found) for target, found in by_target.items()}
        for workload, by_target in results.items()
    }
    # Piped into a file, a table has no terminal width to use.
    console = Console(width=None if sys.stdout.isatty() else 180)
    title = f"Kinesis, {SHARDS} shards, medians of {rounds} x {seconds:g} s"
    if markdown:
        print(report.markdown(lines, medians))
        print(f"\n{title}; load average {os.getloadavg()[0]:.1f}.")
    else:
        console.print(report.table(lines, targets, medians, title))
    for sentence in report.errors(medians):
        console.print(sentence, markup=False, highlight=False)
    console.print(f"{time.monotonic() - started:.0f} s in all")
    if json_path is not None:
        _write(json_path, targets, lines, medians, results, rounds, seconds)


def _needed(chosen: Sequence[Workload]) -> list[Workload]:
    names = {each.name for each in chosen}
    wanted: list[str] = []
    if any(name.startswith(("GetRecords drain, 100 ", str(READERS))) for name in names):
        wanted.append("PutRecords 500 x 100 B")
    if any(name.startswith("GetRecords drain, 1 K") for name in names):
        wanted.append("PutRecords 500 x 1 KiB")
    if any(name.startswith("GetRecords drain, 10 K") for name in names):
        wanted.append("PutRecords 500 x 10 KiB")
    return [
        workload for workload in WORKLOADS if workload.name in wanted and workload.name not in names
    ]


def _write(
    path: Path,
    targets: Sequence[str],
    lines: Sequence[Line],
    medians: report.Medians,
    results: Results,
    rounds: int,
    seconds: float,
) -> None:
    value = {
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": sys.version.split()[0],
        },
        "versions": {target: version(target) for target in targets},
        "rounds": rounds,
        "seconds": seconds,
        "medians": medians,
        "goals": [
            {"workload": line.workload, "metric": line.metric, **report.outcome(line, medians)}
            for line in lines
        ],
        "all": results,
    }
    path.write_text(json.dumps(value, indent=2) + "\n")


def measure(
    workloads: Sequence[Workload], targets: Sequence[str], rounds: int, seconds: float
) -> Results:
    """Run every workload on every target, round after round, one target at a time.

    A failure is a result too: {"error": sentence}.
    """
    results: Results = {workload.name: {} for workload in workloads}
    server_cpu, load_cpu = processors()
    if load_cpu >= 0:
        os.sched_setaffinity(0, {load_cpu})
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=rounds * len(targets) * len(workloads))
        for _ in range(rounds):
            for target in targets:
                mine = [workload for workload in workloads if _has(target, workload)]
                together = [each for each in mine if each is not RESIDENT]
                groups = [together, [each for each in mine if each is RESIDENT]]
                for group in filter(None, groups):
                    for each, result in _run(group, target, seconds, server_cpu):
                        progress.update(bar, description=f"{target}: {each.name}")
                        results[each.name].setdefault(target, []).append(result)
                        progress.advance(bar)
    return results


def _has(target: str, workload: Workload) -> bool:
    """Whether a workload runs on a target."""
    return {FSYNC: workload.on_fsync, report.CEILING: workload.on_ceiling}.get(target, True)


def _run(
    workloads: Sequence[Workload], target: str, seconds: float, server_cpu: int
) -> list[tuple[Workload, dict[str, Any]]]:
    """Run workloads on one server. A server that breaks is not started again: the other workloads fail too."""
    found: list[tuple[Workload, dict[str, Any]]] = []
    try:
        with running(target, server_cpu) as server:
            _wait_until_loaded(server.port)
            load = Load(server.port, seconds, server.rss_mb)
            for workload in workloads:
                try:
                    found.append((workload, dict(workload.run(load))))
                except Exception as error:  # noqa: BLE001 - any answer of a peer is its result
                    found.append((workload, {"error": _sentence(error)}))
    except CannotStart as error:
        found.extend(
            (workload, {"error": _sentence(error)}) for workload in workloads[len(found) :]
        )
    return found


def _wait_until_loaded(port: int) -> None:
    """Wait until headrace has loaded moto, in the background of its first second; others have no such page."""
    while health_at(f"http://127.0.0.1:{port}").get("moto") == "loading":
        time.sleep(0.02)


def _restart(*, quick: bool) -> dict[str, Any]:
    records = QUICK_RESTART_RECORDS if quick else RESTART_RECORDS
    console = Console(stderr=True)
    with console.status("restart") as status:
        try:
            return dict(restart(report.US, records, processors()[0], status.update))
        except (CannotStart, RuntimeError, OSError) as error:
            return {"error": _sentence(error)}


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


if __name__ == "__main__":
    main()
