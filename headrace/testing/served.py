"""Serves a cloud of this process on a socket too: for the AWS CLI, other processes and clients without botocore."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from headrace.aws.server.server import bind
from headrace.cloud import server_for
from headrace.core.config import DEFAULT_ACCOUNT_ID
from headrace.testing.clouds import LocalCloud
from headrace.testing.in_process import check_options

_STARTS_WITHIN_S = 30.0


class ServedCloud(LocalCloud):
    """A `LocalCloud` on a free port of 127.0.0.1."""

    def __init__(self, *, account: str = DEFAULT_ACCOUNT_ID, **options: Any) -> None:
        """Start the cloud and listen. Raises UnknownOption, OSError."""
        check_options(account, {k: v for k, v in options.items() if k not in _OF_THE_CLOUD})
        bound = bind("127.0.0.1", 0)
        super().__init__(port=int(bound.getsockname()[1]), account=account, **options)
        self._server = server_for(self.cloud)
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        listening = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.start(bound)
            listening.set()
            await self._stop.wait()
            await self._server.stop()

        self._thread = threading.Thread(
            target=asyncio.run, args=(serve(),), name="headrace", daemon=True
        )
        self._thread.start()
        if not listening.wait(_STARTS_WITHIN_S):
            raise OSError(f"The cloud did not listen within {_STARTS_WITHIN_S:.0f} s.")

    def close(self) -> None:
        """See `LocalCloud.close`."""
        self.cloud.prepare_stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STARTS_WITHIN_S)
        super().close()


_OF_THE_CLOUD = ("region", "data_dir", "seed")
