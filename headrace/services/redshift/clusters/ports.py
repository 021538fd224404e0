"""The ports of this process's PostgreSQL servers, which are given out before anything listens on them. Thread-safe."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from headrace.core.ports.warehouses import WarehouseUnavailable

HOST = "127.0.0.1"
# Take any free port: no port has this number, and none follows it.
ANY_PORT = 65536
_PORTS = 200
# The ports of this process's servers, which may not listen yet.
_GIVEN_PORTS: set[int] = set()
_GIVING = threading.Lock()


def take_port(first: int) -> int:
    """Return the first port from `first` on that is free and not reserved in this process, else any free one."""
    with _GIVING:
        for port in _candidates(first):
            if port in _GIVEN_PORTS:
                continue
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
                free_port = int(probe.getsockname()[1])
            _GIVEN_PORTS.add(free_port)
            return free_port
    raise WarehouseUnavailable("There is no free port for PostgreSQL.")


def give_back_port(port: int) -> None:
    """Release a port."""
    with _GIVING:
        _GIVEN_PORTS.discard(port)


def _candidates(first: int) -> Iterator[int]:
    yield from range(first, min(first + _PORTS, 65536))
    yield 0
