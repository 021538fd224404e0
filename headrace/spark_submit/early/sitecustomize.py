"""Runs first in every Python of a local job on Spark 4: connects to Spark before the process has loaded its modules.

Spark starts a Python process for a data source's planner, and waits ten seconds for its connection, which PySpark makes
only after all imports: on a busy machine that fails the job. So this module connects and authenticates at once, and
PySpark gets that connection when it asks for one. Python imports a module of this name at its start; this one then also
runs the next one of that name on the path.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import struct
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = Path(__file__).resolve().parent
_WATCHED = "pyspark.util"
_PORT, _SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"


class _Loader(Loader):
    """Loads a module unchanged, then lets it hand out the connection."""

    def __init__(self, loader: Loader, connection: socket.socket) -> None:
        self._loader = loader
        self._connection = connection

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        connect, connection = module.local_connect_and_auth, self._connection
        port = os.environ[_PORT]
        left = [connection]

        def local_connect_and_auth(to: Any, secret: str) -> tuple[Any, Any]:
            if str(to) != port or not left:
                return connect(to, secret)
            sock = left.pop()
            return sock.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))), sock

        module.local_connect_and_auth = local_connect_and_auth


class _Finder(MetaPathFinder):
    """Finds the one module that is watched, once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._connection)
        return spec


def _connect(port: str, secret: str) -> socket.socket | None:
    """Return an authenticated connection (SocketAuthHelper); None leaves it to PySpark, which reports errors."""
    timeout_s = int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15"))
    is_6 = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
    try:
        connection = socket.create_connection(
            ("::1" if is_6 else "127.0.0.1", int(port)), timeout_s
        )
        key = secret.encode()
        connection.sendall(struct.pack("!i", len(key)) + key)
        length = _read(connection, 4)
        if _read(connection, struct.unpack("!i", length)[0]) == b"ok":
            return connection
        connection.close()
    except OSError:
        return None
    return None


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("Spark closed the connection")
        data += more
    return data


def _run_the_next() -> None:
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if _PORT in os.environ and _SECRET in os.environ:
    _connection = _connect(os.environ[_PORT], os.environ[_SECRET])
    if _connection is not None:
        sys.meta_path.insert(0, _Finder(_connection))
_run_the_next()
