"""The runs of a simulation as a picture. Needs matplotlib."""

# matplotlib is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headrace.shards.simulation.strategies import KeyedLoad, Run


def save_plot(path: Path, load: KeyedLoad, runs: Sequence[Run], title: str) -> None:
    """Write a PNG: the load with each strategy's shards, and the records throttled so far."""
    from matplotlib.figure import Figure

    hours = np.arange(load.steps) * load.step_s / 3600
    needed = load.scales * load.rates.sum(axis=1)[load.row_of] / load.shard_records_per_s
    figure = Figure(figsize=(11, 7), layout="constrained")
    shards, throttled = figure.subplots(2, 1, sharex=True)
    shards.fill_between(hours, needed, color="0.85", label="load, in full shards")
    for run in runs:
        shards.plot(hours, run.shards, label=run.name, linewidth=1.2)
        throttled.plot(hours, np.cumsum(run.throttled), label=run.name, linewidth=1.2)
    shards.set_title(title)
    shards.set_ylabel("open shards")
    shards.set_ylim(bottom=0)
    shards.legend(loc="upper right")
    throttled.set_ylabel("records throttled so far")
    throttled.set_yscale("symlog")
    throttled.set_ylim(bottom=0)
    throttled.set_xlabel("hours")
    figure.savefig(path, format="png", dpi=110)
