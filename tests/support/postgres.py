"""One PostgreSQL for all tests of a process, of the extra `redshift`."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from headrace.services.redshift.clusters.postgres import HOST, SUPERUSER, PostgresServer


class SharedPostgres:
    """A server that is made when the first test asks for its URL."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self._server = PostgresServer(self._folder / "server", 25439)

    @functools.cached_property
    def url(self) -> str:
        """The superuser's URL of it."""
        self._server.start()
        return f"postgresql://{SUPERUSER}:{self._server.password()}@{HOST}:{self._server.port}/postgres"

    def stop(self) -> None:
        """Stop it and remove its files."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
