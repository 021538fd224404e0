"""The server-sent events of the page: what changed since the last second, for as long as a browser listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from headrace.dashboard.meter import Reading
from headrace.dashboard.sampler import Sample, Sampler

# More browsers than this get a 503.
MOST_WATCHERS = 64
# A comment is sent this often, so that a connection whose other end is gone is noticed.
ALIVE_EVERY_S = 15.0


async def events(sampler: Sampler, stream: str) -> AsyncGenerator[bytes]:
    """Yield an event for each sample. A slow reader misses samples; it never makes the cloud keep them."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    stop = sampler.watch(stream, wake)
    sent: dict[str, Any] = {}
    sent_shards: dict[str, Any] = {}
    number = 0
    try:
        yield b"retry: 1000\n\n"
        while True:
            try:
                await asyncio.wait_for(woken.wait(), ALIVE_EVERY_S)
            except TimeoutError:
                yield b": alive\n\n"
                continue
            woken.clear()
            sample = sampler.latest
            if sample is None or sample.number == number:
                continue
            number = sample.number
            yield _event(sample, stream, sent, sent_shards)
    finally:
        stop()


def _event(sample: Sample, stream: str, sent: dict[str, Any], sent_shards: dict[str, Any]) -> bytes:
    document = {
        "timeMs": sample.time_ms,
        "version": str(sample.version),
        "readings": _changed(sample.readings, sent),
        "shards": _changed(sample.shards.get(stream, {}), sent_shards),
    }
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def _changed(readings: dict[str, Reading], sent: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that differ from those that were sent, and null for those that are gone."""
    rows = {key: reading.row() for key, reading in readings.items()}
    changed: dict[str, Any] = {key: row for key, row in rows.items() if sent.get(key) != row}
    changed.update(dict.fromkeys(sent.keys() - rows.keys()))
    sent.clear()
    sent.update(rows)
    return changed
