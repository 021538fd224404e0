"""A cloud in this process on a real socket, for answers that are streams."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config as BotocoreConfig

from headrace.aws.server.server import bind
from headrace.cloud import Cloud, server_for
from headrace.core.clock import Clock
from headrace.core.config import Config
from tests.support.cloud import ACCOUNT, REGION


class LiveCloud:
    """A started cloud whose server runs on a thread's event loop; a context manager that stops both."""

    def __init__(
        self, data_dir: Path, *, clock: Clock | None = None, warms_up: bool = True, **config: Any
    ) -> None:
        self._warms_up = warms_up
        self.cloud = Cloud(
            Config(data_dir=data_dir, account_id=ACCOUNT, region=REGION, **config), clock=clock
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="live")

    def __enter__(self) -> Self:
        bound = bind("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        self.cloud.start(self.port)
        if self._warms_up:
            self.cloud.warm_up()
        self._server = server_for(self.cloud)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(bound), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.cloud.stop()

    async def _stop(self) -> None:
        await self._server.stop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 10)

    def client(self, service: str = "kinesis", **config: Any) -> Any:
        """Return a boto3 client that never retries."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=BotocoreConfig(
                retries={"total_max_attempts": 1}, max_pool_connections=100, **config
            ),
        )
