"""The allocator's habits, where they cost more than the work itself."""

from __future__ import annotations

import ctypes

# mallopt's parameters, from malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_HEAP_BLOCK_BYTES = 32 * 1024 * 1024
_KEPT_BYTES = 64 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Let the process keep up to 64 MiB that it has freed; returns whether the C library could be told.

    glibc gives large blocks back to the kernel at once, and the next answer of ten mebibytes faults every page
    in again: that halved the rate at which 1 KiB records are drained (measured: 0.8 page faults a record, 2.1 of
    3.1 µs). Other C libraries have no `mallopt`, and nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK_BYTES)
        and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    )
