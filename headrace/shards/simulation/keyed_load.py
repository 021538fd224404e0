"""A load of keys over time, generated or recorded, in columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.client.hash_keys import hash_key_of
from headrace.shards.loads import weight_of

Floats = npt.NDArray[np.float64]
_DAY_S = 86_400.0
# A generated key has at most this share of a shard, but for the hot ones.
_MOST_OF_A_SHARD = 0.3
_HOT_OF_A_SHARD = 0.85
_HOT_FOR_S = 7200.0
_WEEKEND = 0.6


@dataclass(slots=True)
class KeyedLoad:
    """Records of keys, step by step.

    Attributes:
        step_s: the seconds of a step.
        hashes: the keys' hash keys, ascending.
        names: the keys.
        record_bytes: of each record.
        scales: for each step, what its rates are multiplied by.
        rates: records per second of each key; one row for each step that `row_of` names.
        row_of: for each step, its row in `rates`.
    """

    step_s: float
    hashes: list[int]
    names: list[str]
    record_bytes: float
    scales: Floats
    rates: Floats
    row_of: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.scales)

    @property
    def shard_records_per_s(self) -> float:
        """What a shard takes of these records."""
        return 1 / weight_of(round(self.record_bytes))


def generate_load(
    *,
    shards: int,
    days: float,
    step_s: float,
    peak: float,
    swing: float,
    skew: float,
    hot_keys: int,
    seed: int,
    record_bytes: int = 1024,
    keys_per_shard: int = 20,
) -> KeyedLoad:
    """Return a load with days, nights, a weekend, uneven keys, and keys that become hot for two hours.

    Args:
        shards: how many shards the load is made for.
        days: how long it lasts; it begins on a Monday at midnight.
        step_s: the seconds of a step.
        peak: the highest load as a share of what these shards take.
        swing: the highest load of a day over its lowest.
        skew: the exponent of Zipf's law for the keys; 0: all are alike.
        hot_keys: how often a key becomes hot.
        seed: of all that is random.
        record_bytes: of each record.
        keys_per_shard: how many keys there are.
    """
    chance = np.random.default_rng(seed)
    count = max(50, shards * keys_per_shard)
    names = [f"key-{i}" for i in range(count)]
    names.sort(key=hash_key_of)
    hashes = [hash_key_of(name) for name in names]
    shard_rate = 1 / weight_of(record_bytes)
    total = peak * shards * shard_rate
    weights: Floats = chance.permutation(np.arange(1, count + 1) ** -skew)
    rates: Floats = total * weights / weights.sum()
    for _ in range(20):
        rates = np.minimum(rates, _MOST_OF_A_SHARD * shard_rate)
        rates *= total / rates.sum()
    steps = max(1, round(days * _DAY_S / step_s))
    at_s: Floats = np.arange(steps, dtype=np.float64) * step_s
    scales = _days(at_s, swing) * chance.normal(1, 0.02, steps).clip(0.9, 1.1)
    starts = np.sort(chance.uniform(0, max(1.0, days * _DAY_S - _HOT_FOR_S), hot_keys))
    which = chance.integers(0, count, hot_keys)
    is_hot = (at_s >= starts[:, None]) & (at_s < starts[:, None] + _HOT_FOR_S)
    patterns, row_of = np.unique(is_hot.T, axis=0, return_inverse=True)
    rows = np.tile(rates, (len(patterns), 1))
    for row, pattern in enumerate(patterns):
        rows[row, which[pattern]] = _HOT_OF_A_SHARD * shard_rate
    return KeyedLoad(step_s, hashes, names, record_bytes, scales, rows, row_of.reshape(-1))


def _days(at_s: Floats, swing: float) -> Floats:
    """Return the load at times since Monday's midnight, 1 at most: highest at 15:00, less on the weekend."""
    low = 1 / swing
    wave = (1 - np.cos(2 * np.pi * (at_s / _DAY_S - 0.125))) / 2
    weekend = np.where((at_s // _DAY_S) % 7 >= 5, _WEEKEND, 1.0)
    result: Floats = (low + (1 - low) * wave) * weekend
    return result


def read_load(
    rows: Iterable[tuple[float, str, int]], *, step_s: float, speed: float = 1.0
) -> KeyedLoad:
    """Return the load of records: when each came (in seconds), its key and its bytes. Raises ValueError without any.

    `speed` times as fast as they came.
    """
    taken = sorted(rows)
    if not taken:
        raise ValueError("there are no records")
    names = sorted({key for _, key, _ in taken}, key=hash_key_of)
    place_of = {name: index for index, name in enumerate(names)}
    first_s = taken[0][0]
    at = np.array([(at_s - first_s) / speed for at_s, _, _ in taken])
    steps = int(at[-1] // step_s) + 1
    cells = (at // step_s).astype(np.int64) * len(names) + [place_of[key] for _, key, _ in taken]
    counts = np.bincount(cells, minlength=steps * len(names)).reshape(steps, len(names))
    return KeyedLoad(
        step_s=step_s,
        hashes=[hash_key_of(name) for name in names],
        names=names,
        record_bytes=sum(bytes_ for _, _, bytes_ in taken) / len(taken),
        scales=np.ones(steps),
        rates=counts / step_s,
        row_of=np.arange(steps),
    )
