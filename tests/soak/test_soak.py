"""A cloud's memory does not rise under mixed load; and what `scripts/soak` takes for rising."""

from __future__ import annotations

import random

import pytest

from scripts.memory_soak import MOST_MB_AN_HOUR, soak, trend


def samples(mb_an_hour: float, noise_mb: float, seed: int = 1) -> list[tuple[float, float]]:
    """Return an hour's samples, one every 15 seconds."""
    chosen = random.Random(seed)
    return [
        (s, 200 + mb_an_hour * s / 3600 + chosen.gauss(0, noise_mb))
        for s in map(float, range(0, 3600, 15))
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("mb_an_hour", "noise_mb", "rises"),
    [(0, 0, False), (0, 5, False), (5, 1, False), (15, 1, True), (30, 10, True), (-20, 3, False)],
)
def test_what_rising_is(mb_an_hour: float, noise_mb: float, rises: bool, seed: int):
    found = trend(samples(mb_an_hour, noise_mb, seed))
    assert found.rises is rises
    assert found.low <= found.slope <= found.high
    assert found.slope == pytest.approx(mb_an_hour, abs=3 + noise_mb)


def test_a_few_high_samples_are_not_a_rise():
    series = samples(0, 1)
    series[-3:] = [(s, mb + 100) for s, mb in series[-3:]]
    assert not trend(series).rises


@pytest.mark.slow
def test_memory_is_flat_after_ten_minutes_of_an_hour():
    report = soak(minutes=60, seed=1)
    assert report.done.total() > 10_000
    assert not report.failed
    found = report.trend
    assert not found.rises, (
        f"{found.slope:.1f} MB an hour, at least {found.low:.1f} > {MOST_MB_AN_HOUR}"
    )
