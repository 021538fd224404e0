"""`headrace up` that reports its memory: each connection to the Unix socket `HEADRACE_MEASURES` gets a report."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import socket
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

SOCKET = "HEADRACE_MEASURES"


@dataclass(frozen=True)
class Measures:
    """A process's memory after garbage collection.

    `rss_bytes`: resident, after the C allocator has returned what it can. `malloc_bytes`: in use by C's allocator, by
    all its arenas; Python's small objects are not part of it. `blocks`: Python's live small objects. `objects`: the
    live containers, by type.
    """

    rss_bytes: int
    malloc_bytes: int
    blocks: int
    objects: dict[str, int]


class _Mallinfo2(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def measures() -> Measures:
    """Return this process's memory; `malloc_bytes` is 0 without glibc."""
    # More than once: a finalizer can leave garbage.
    for _ in range(3):
        gc.collect()
    libc, used_bytes = ctypes.CDLL(None), 0
    if hasattr(libc, "mallinfo2"):
        libc.malloc_trim(0)
        libc.mallinfo2.restype = _Mallinfo2
        report = libc.mallinfo2()
        used_bytes = report.uordblks + report.hblkhd
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    objects = Counter(type(one).__qualname__ for one in gc.get_objects())
    return Measures(
        pages * os.sysconf("SC_PAGE_SIZE"), used_bytes, sys.getallocatedblocks(), dict(objects)
    )


def _answer(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps(asdict(measures())).encode())


def main() -> None:
    """Run `headrace` with this process's arguments."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ[SOCKET])
    listener.listen()
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()
    runpy.run_module("headrace.cli.main", run_name="__main__")


if __name__ == "__main__":
    main()
