"""Puts mixed load on a real cloud for some time, and decides whether its memory still rises after the warm-up.

The decision uses the slope of the samples (the Theil-Sen estimator: the median of the slopes between all pairs of
samples) with its 95 % confidence interval (by Kendall's variance): memory rises if even the interval's lower end is
above `MOST_MB_AN_HOUR`. A single high sample, such as before a garbage collection, has little influence.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.memory_soak_load import Cloud, Load

MOST_MB_AN_HOUR = 10.0
# In a run of less than 20 minutes, its half.
WARM_UP_S = 600.0
SAMPLES = 240
FILL_FROM_MINUTES = 10
Z_95 = 1.959964

# --- the judgement ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trend:
    """The slope of a series of samples in MB per hour, and the ends of its 95 % interval."""

    slope: float
    low: float
    high: float

    @property
    def rises(self) -> bool:
        """Whether memory certainly rises by more than allowed."""
        return self.low > MOST_MB_AN_HOUR


def trend(samples: Sequence[tuple[float, float]]) -> Trend:
    """Return the trend of at least three (second, MB) samples."""
    slopes = sorted(
        (later_mb - mb) / (later_s - s) * 3600
        for (s, mb), (later_s, later_mb) in itertools.combinations(samples, 2)
    )
    count = len(samples)
    # Kendall's variance of the number of rising pairs minus the number of falling pairs.
    spread = Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = round((len(slopes) - spread) / 2)
    high = round((len(slopes) + spread) / 2)
    last = len(slopes) - 1
    return Trend(statistics.median(slopes), slopes[max(low, 0)], slopes[min(high, last)])


# --- the run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The results of a soak: (second, MB of memory) samples, the calls made, and the data directory's final size."""

    samples: list[tuple[float, float]]
    done: Counter[str]
    failed: Counter[str]
    data_mb: float

    @property
    def warm_up_s(self) -> float:
        """How long the warm-up is."""
        return min(WARM_UP_S, self.samples[-1][0] / 2)

    @property
    def settled(self) -> list[tuple[float, float]]:
        """The samples after the warm-up."""
        start_s = self.warm_up_s
        return [sample for sample in self.samples if sample[0] >= start_s]

    @property
    def trend(self) -> Trend:
        """The trend of memory after the warm-up."""
        return trend(self.settled)


def soak(minutes: float, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    """Load a cloud for this long; return the results."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, Cloud(Path(folder)) as cloud:
        load = Load(cloud, random.Random(seed))
        load.make()
        if minutes >= FILL_FROM_MINUTES:
            say("filling a table's stream")
            load.fill()
        threads = load.threads()
        for thread in threads:
            thread.start()
        samples: list[tuple[float, float]] = []
        started_s = time.monotonic()
        while (passed_s := time.monotonic() - started_s) < minutes * 60:
            samples.append((passed_s, cloud.rss_mb()))
            say(
                f"{passed_s / 60:.1f} of {minutes:g} minutes, {samples[-1][1]:.0f} MB, {load.done.total():,} rounds"
            )
            time.sleep(minutes * 60 / SAMPLES)
        load.stop.set()
        for thread in threads:
            thread.join(60)
        return Report(samples, load.done, load.failed, cloud.data_mb())


@click.command()
@click.option("--minutes", default=2.0, show_default=True, type=click.FloatRange(0.1))
@click.option("--seed", default=1, show_default=True)
def main(minutes: float, seed: int) -> None:
    """Load a real cloud with all kinds of requests, and report whether its memory rises."""
    console = Console()
    with console.status("") as status:
        report = soak(minutes, seed, status.update)
    table = Table(title=f"{minutes:g} minutes of mixed load, seed {seed}")
    for name in ("minute", "MB"):
        table.add_column(name, justify="right")
    for at_s, mb in report.samples[:: max(1, len(report.samples) // 12)]:
        table.add_row(f"{at_s / 60:.1f}", f"{mb:.1f}")
    console.print(table)
    for name, count in sorted(report.done.items()):
        console.print(f"{name}: {count:,} rounds")
    for name, count in sorted(report.failed.items()):
        console.print(f"refused {name}: {count:,}", markup=False)
    found = report.trend
    console.print(
        f"memory: {report.samples[0][1]:.0f} MB at first, {report.samples[-1][1]:.0f} MB at last;"
        f" after {report.warm_up_s / 60:.1f} minutes {found.slope:+.1f} MB an hour"
        f" (95 %: {found.low:+.1f} to {found.high:+.1f});"
        f" data directory {report.data_mb:.1f} MB"
    )
    if found.rises:
        raise click.ClickException(f"memory rises by more than {MOST_MB_AN_HOUR:g} MB an hour")


if __name__ == "__main__":
    main()
