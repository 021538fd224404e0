"""Shows the figures of a run as a table: ratios to the best peer, and whether each goal is met."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from scripts.benchmarks.servers import version
from scripts.benchmarks.workloads import RESIDENT_RECORDS

US = "headrace"
# What one Python process can do with the same log, by `scripts.benchmarks.bare`: no peer, but a measure.
CEILING = "bare"
# By workload, then by target: the figures, or {"error": sentence}.
Medians = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Goal:
    """A metric's goal: `text` describes it, `is_met` decides from all targets' figures, None without peers."""

    text: str
    is_met: Callable[[Mapping[str, float]], bool | None]


def times_the_best(factor: float, **than: float) -> Goal:
    """At least `factor` times the best peer's rate, and `than[peer]` times each named peer's rate."""

    def is_met(values: Mapping[str, float]) -> bool | None:
        best = best_peer(values, higher_is_better=True)
        if best is None:
            return None
        if values[US] < factor * values[best]:
            return False
        return all(
            values[US] >= times * values[peer]
            for name, times in than.items()
            if (peer := name.replace("_", "-")) in values
        )

    more = "".join(f", {times:g}x {name.replace('_', '-')}" for name, times in than.items())
    return Goal(f">= {factor:g}x best{more}", is_met)


def at_most(value: float, unit: str) -> Goal:
    """At most this value."""
    return Goal(f"< {value:g} {unit}", lambda values: values[US] < value)


def no_slower_than_any() -> Goal:
    """At most the quickest peer's value."""

    def is_met(values: Mapping[str, float]) -> bool | None:
        best = best_peer(values, higher_is_better=False)
        return None if best is None else values[US] <= values[best]

    return Goal("<= every peer", is_met)


def share_of(other: str, factor: float) -> Goal:
    """`other` has at least `factor` times our rate."""
    return Goal(
        f"{other} >= {factor:g}x", lambda values: values.get(other, 0.0) >= factor * values[US]
    )


def of_the_ceiling(share: float, *, higher_is_better: bool = True) -> Goal:
    """At least this share of what the bare engine does; None without it."""

    def is_met(values: Mapping[str, float]) -> bool | None:
        if CEILING not in values:
            return None
        ours, ceiling = values[US], values[CEILING]
        return ours >= share * ceiling if higher_is_better else ceiling >= share * ours

    return Goal(f">= {share:g} of the ceiling", is_met)


def all_of(*goals: Goal) -> Goal:
    """Meets each of these goals; None when nothing is missed and one cannot be decided."""

    def is_met(values: Mapping[str, float]) -> bool | None:
        met = [goal.is_met(values) for goal in goals]
        return False if False in met else None if None in met else True

    return Goal(", ".join(goal.text for goal in goals), is_met)


def best_peer(values: Mapping[str, float], *, higher_is_better: bool) -> str | None:
    """Return the peer with the best figure; None if no peer has a figure."""
    peers = [name for name in values if not name.startswith((US, CEILING))]
    if not peers:
        return None
    return (max if higher_is_better else min)(peers, key=lambda name: values[name])


def median_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the medians of the successful rounds, or the error if none succeeded."""
    sound = [one for one in found if "error" not in one]
    if not sound:
        return dict(found[0]) if found else {}
    return {metric: statistics.median(one[metric] for one in sound) for metric in sound[0]}


def is_rate(metric: str) -> bool:
    """Whether a greater value is better."""
    return metric.endswith("/s")


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    workload: str
    metric: str
    goal: Goal | None


def outcome(line: Line, medians: Medians) -> dict[str, Any]:
    """Return our ratios to the best peer and to the ceiling, the peer's name, the goal, and whether it is met."""
    values = _values(line, medians)
    best = best_peer(values, higher_is_better=is_rate(line.metric))
    met = None if line.goal is None or US not in values else line.goal.is_met(values)
    return {
        "best peer": best,
        "ratio": _ratio(line.metric, values, best),
        "of the ceiling": _ratio(line.metric, values, CEILING),
        "goal": line.goal.text if line.goal else None,
        "met": met,
    }


def _ratio(metric: str, values: Mapping[str, float], other: str | None) -> float | None:
    """Return our figure as a multiple of another target's, above 1 in our favour; None when one of them has none."""
    if other is None or min(values.get(US, 0), values.get(other, 0)) <= 0:
        return None
    ours, theirs = values[US], values[other]
    return ours / theirs if is_rate(metric) else theirs / ours


def _values(line: Line, medians: Medians) -> dict[str, float]:
    return {
        target: figures[line.metric]
        for target, figures in medians[line.workload].items()
        if line.metric in figures
    }


def table(lines: Sequence[Line], targets: Sequence[str], medians: Medians, title: str) -> Table:
    """Return the report; a ratio above 1 is in headrace's favour."""
    report = Table(title=f"{title}, {os.cpu_count()} CPUs")
    report.add_column("workload")
    report.add_column("metric")
    for target in targets:
        report.add_column(f"{target} {version(target)}", justify="right")
    report.add_column("vs best", justify="right", style="bold")
    if CEILING in targets:
        report.add_column("of the ceiling", justify="right")
    report.add_column("goal")
    report.add_column("met")
    shown = ""
    for line in lines:
        result = outcome(line, medians)
        ratio, share = result["ratio"], result["of the ceiling"]
        report.add_row(
            line.workload if line.workload != shown else "",
            line.metric,
            *(_cell(medians[line.workload].get(target), line.metric) for target in targets),
            "" if ratio is None else f"{ratio:.1f}x",
            *(["" if share is None else f"{share:.2f}"] if CEILING in targets else []),
            result["goal"] or "",
            {True: "yes", False: "NO", None: ""}[result["met"]],
        )
        shown = line.workload
    return report


def markdown(lines: Sequence[Line], medians: Medians) -> str:
    """Return the table of docs/performance.md: our figure, the best peer's, the ceiling's, and our share of that."""
    rows = [
        "| work | | headrace | best peer | ceiling | of the ceiling |",
        "|---|---|---|---|---|---|",
    ]
    shown = ""
    for line in lines:
        result, by_target = outcome(line, medians), medians[line.workload]
        best, share = result["best peer"], result["of the ceiling"]
        ours, ceiling = (_cell(by_target.get(target), line.metric) for target in (US, CEILING))
        peer = "" if best is None else f"{_cell(by_target[best], line.metric)} {best}"
        cells = (
            line.workload if line.workload != shown else "",
            line.metric,
            ours if result["met"] is not False else f"{ours} (goal {line.goal and line.goal.text})",
            peer if result["ratio"] is None else f"{peer} ({result['ratio']:.1f}x)",
            ceiling,
            "" if share is None else f"{share:.2f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
        shown = line.workload
    return "\n".join(rows)


def _cell(figures: Mapping[str, Any] | None, metric: str) -> str:
    if figures is None:
        return ""
    if "error" in figures:
        return "failed"
    value = figures.get(metric)
    if value is None:
        return ""
    # Extrapolated from fewer records, not measured.
    about = "~" if metric == "MB" and figures["records"] < RESIDENT_RECORDS else ""
    return about + (f"{value:,.0f}" if is_rate(metric) or metric == "MB" else f"{value:.2f}")


def errors(medians: Medians) -> list[str]:
    """Return a sentence for each target that failed a workload."""
    return [
        f"{target} failed {workload}: {figures['error']}"
        for workload, by_target in medians.items()
        for target, figures in by_target.items()
        if "error" in figures
    ]
