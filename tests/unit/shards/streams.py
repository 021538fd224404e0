"""Loads for the policy's tests."""

from __future__ import annotations

from typing import Any

from headrace.client.hash_keys import HASH_KEYS, ShardRange
from headrace.shards.loads import KeySketch, StreamLoad


def equal_shards(count: int) -> list[ShardRange]:
    bounds = [HASH_KEYS * i // count for i in range(count + 1)]
    return [ShardRange(f"shard-{i}", bounds[i], bounds[i + 1] - 1) for i in range(count)]


def load_of(*utilisation: float, **more: Any) -> StreamLoad:
    return StreamLoad(equal_shards(len(utilisation)), utilisation, **more)


def sketch_of(*loads: tuple[int, float]) -> KeySketch:
    """Return a sketch with a key for each hash key and load."""
    sketch = KeySketch()
    for hash_key, load in loads:
        sketch.add(hash_key, f"key-{hash_key}", load)
    return sketch
