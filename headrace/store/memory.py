"""Tunes the C allocator and the garbage collector, where their defaults cost more than the work itself."""

from __future__ import annotations

import ctypes
import gc
import importlib
import math

from headrace.core.late_dataclasses import compiled_when_used

# mallopt's parameters, from malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGEST_HEAP_BLOCK_BYTES = 32 * 1024 * 1024
_KEPT_BYTES = 64 * 1024 * 1024
_RETURNED_EVERY_S = 60.0
# Python's lock lets one thread run at a time: more arenas than these only scatter what threads free.
_ARENAS = 2


def keep_freed_memory() -> bool:
    """Let the process keep up to 64 MiB of freed memory for a while, in two arenas; return whether the C library can.

    glibc returns large blocks to the kernel at once, and the next answer of 10 MiB faults every page in again: this
    halved the rate at which 1 KiB records are read (measured: 0.8 page faults a record, 2.1 of 3.1 µs). Other C
    libraries have no `mallopt`, and nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_ARENA_MAX, _ARENAS)
        and mallopt(_M_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK_BYTES)
        and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    )


class FreedMemory:
    """A worker that returns freed memory to the kernel once a minute.

    A burst of requests leaves holes between blocks that stay, which glibc by itself keeps for ever: 22 MB an hour under
    mixed load, while what is in use stays the same. Other C libraries have no `malloc_trim`, and nothing happens.
    """

    name = "freed-memory"

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def step(self) -> float:
        """See `headrace.core.workers.Worker`."""
        if self._trim is None:
            return math.inf
        self._trim(0)
        return _RETURNED_EVERY_S


def import_to_stay(module: str) -> None:
    """Import a module and what it imports, without garbage collection, now and later: its objects stay.

    Half a million objects come with a cloud; with few looks at them, a collector still takes a tenth of the import.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with compiled_when_used():
            importlib.import_module(module)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def exclude_from_garbage_collection() -> None:
    """Exclude all objects that exist now from garbage collection, and return what the start has freed to the kernel.

    Modules and service models are never freed; scanning them stops every request for 50 ms (measured: the 99th
    percentile of a PutRecord that waits for its fsync). Nothing is collected before: that stopped every request for
    100 ms, one to two seconds after the start, and found 30 objects.
    """
    gc.freeze()
    FreedMemory().step()
