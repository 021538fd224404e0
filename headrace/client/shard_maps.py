"""Keeps a producer's map of shards up to date."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.client.clock import Clock
from headrace.client.hash_keys import ShardMap
from headrace.client.streams import Streams

_LOG = logging.getLogger("headrace.client")
_AGAIN_S = 1.0


class MapKeeper:
    """The newest map of a stream's shards. Thread-safe; one thread at a time asks the cloud."""

    def __init__(self, streams: Streams, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._streams, self._clock, self._is_stopped = streams, clock, is_stopped
        self._asking = threading.Lock()
        self._map: ShardMap | None = None
        self.refreshes = 0

    def first(self) -> ShardMap:
        """Return the map, from the cloud the first time. Raises botocore's errors."""
        with self._asking:
            if self._map is None:
                self._map = ShardMap(self._streams.open_shards())
            return self._map

    def knowing(self, shard_ids: set[str]) -> ShardMap:
        """Return a map that knows these shards, or that is newer than they are: they may have been split again.

        What fails is logged, and tried again until the producer is stopped.
        """
        with self._asking:
            shards = self._map
            while shards is None or not all(_is_known(shards, shard_id) for shard_id in shard_ids):
                try:
                    shards = self._map = ShardMap(self._streams.open_shards())
                    self.refreshes += 1
                except Exception as error:  # noqa: BLE001 - botocore's errors have no common base
                    _LOG.warning("The shards cannot be listed; it is tried again: %s", error)
                    if self._is_stopped() and shards is not None:
                        return shards
                    pause = threading.Condition()
                    with pause:
                        self._clock.wait(pause, _AGAIN_S)
            return shards


def _is_known(shards: ShardMap, shard_id: str) -> bool:
    return shards.by_id(shard_id) is not None or shard_id < shards.newest_id
