"""One PostgreSQL for all tests of a process, of the extra `redshift`."""

from __future__ import annotations

import functools
import shutil
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg

from headrace.aws.server.tls import Tls
from headrace.services.redshift.postgres import HOST, SUPERUSER, PostgresServer


def tls_in(folder: Path) -> Callable[[], ssl.SSLContext]:
    """Return what makes a server's TLS, whose certificate and `trusted.pem` lie in the folder."""
    tls = Tls(folder, lambda: HOST)
    return tls.context


class SharedPostgres:
    """A server that is made when the first test asks for its URL: a developer's own, with a superuser who logs in."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self._server = PostgresServer(self._folder / "server", 25439, tls_in(self._folder / "tls"))

    @functools.cached_property
    def url(self) -> str:
        """Its developer's URL."""
        self._server.start()
        port, word = self._server.port, self._server.password()
        with psycopg.connect(
            host=str(self._server.socket_folder),
            port=self._server.inner_port,
            user=SUPERUSER,
            dbname="postgres",
        ) as connection:
            connection.execute(f"create role developer superuser login password '{word}'".encode())
        return f"postgresql://developer:{word}@{HOST}:{port}/postgres"

    def stop(self) -> None:
        """Stop it and remove its files."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
