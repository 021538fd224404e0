"""An engine that answers, is endless, takes memory or ends, as it is asked; it tells its own process's id."""

from __future__ import annotations

import os
import time


def answer(request: bytes) -> bytes:
    """Do what the request says."""
    if request == b"endless":
        while True:
            pass
    if request == b"memory":
        try:
            return b"%d" % len(bytearray(2 << 30))
        except MemoryError:
            return b"no memory"
    if request == b"kept":
        return b"%d" % len(bytearray(b"x" * (160 << 20)))
    if request == b"long":
        return b"x" * (17 << 20)
    if request == b"exit":
        os._exit(3)
    if request.startswith(b"busy"):
        until = time.process_time() + float(request.split()[1])
        while time.process_time() < until:
            pass
    return b"%d" % os.getpid()
