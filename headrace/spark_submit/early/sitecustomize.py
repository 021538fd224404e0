"""Runs first in every Python of a local job on Spark 4: connects to Spark before the process has loaded its modules.

Spark starts a Python process for a data source's planner, and waits ten seconds for its connection, which PySpark makes
only after all imports: on a busy machine that fails the job. So this module connects and authenticates at once, and
PySpark gets that connection when it asks for one. Python imports a module of this name at its start; this one then also
runs the next one of that name on the path.

It also has PySpark imported from its folder instead of Spark's zips of the same modules. There Python keeps compiled
code; in a zip it compiles 150 modules again in each of a job's processes, for half a second of processor time.

Before each task PySpark has Python forget where modules are, and then Python reads the index of each zip again, for as
long. So Spark's jar goes as well: Spark puts it on the path, and it has no module.
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
_IN_ZIPS = ("pyspark", "py4j")
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


class _Unzipped(MetaPathFinder):
    """Finds the packages of Spark's zips in a folder, before all that is on the path, as the zips are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [self._folder]) if fullname in _IN_ZIPS else None


def _import_from_folder(home: Path) -> None:
    """Take Spark's zips and jar off the path, and find their packages beside SPARK_HOME, if that is pip's PySpark."""
    zips = [entry for entry in sys.path if Path(entry).parent == home / "python" / "lib"]
    whole = home.name == "pyspark" and all((home.parent / name).is_dir() for name in _IN_ZIPS)
    if zips and whole:
        # By its name alone, for SPARK_HOME may be a link.
        zips += [entry for entry in sys.path if Path(entry).match("jars/spark-core_*.jar")]
        sys.path[:] = [entry for entry in sys.path if entry not in zips]
        for entry in zips:
            sys.path_importer_cache.pop(entry, None)
        sys.meta_path.insert(0, _Unzipped(str(home.parent)))


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


if "SPARK_HOME" in os.environ:
    _import_from_folder(Path(os.environ["SPARK_HOME"]))
if _PORT in os.environ and _SECRET in os.environ:
    _connection = _connect(os.environ[_PORT], os.environ[_SECRET])
    if _connection is not None:
        sys.meta_path.insert(0, _Finder(_connection))
_run_the_next()
