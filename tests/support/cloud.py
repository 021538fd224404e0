"""A cloud in process, and boto3 clients that reach it without a socket."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.server.server import when_done
from headrace.cloud import Cloud
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.testing.clock import WatchedClock
from headrace.testing.in_process import give_tables, keep_tables
from tests.support.clients import client_of

ACCOUNT = "000000000000"
REGION = "us-east-1"


class InProcessCloud:
    """A started `Cloud` on `data_dir`; a context manager that stops it.

    Functions and Spark steps cannot call back into it (there is no socket): use `ServerProcess` for those.
    """

    def __init__(
        self, data_dir: Path, *, clock: Clock | None = None, ids: Ids | None = None, **config: Any
    ) -> None:
        # Functions may write where the data directory lies, so that tests see what they do.
        settings = {"function_folders": (data_dir.parent,), **config}
        data_dir.mkdir(parents=True, exist_ok=True)
        give_tables(data_dir)
        self.cloud = Cloud(
            Config(data_dir=data_dir, account_id=ACCOUNT, region=REGION, **settings),
            clock=clock,
            ids=ids,
            is_temporary=True,
        )
        if isinstance(clock, WatchedClock):
            clock.watch(self.cloud.supervisor)
        keep_tables(data_dir, self.cloud.database)
        self.cloud.start()
        self.cloud.warm_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the cloud."""
        self.cloud.stop()

    def client(
        self,
        service: str,
        *,
        account: str = ACCOUNT,
        region: str = REGION,
        token: str | None = None,
    ) -> Any:
        """Return a boto3 client; it validates nothing itself and never retries."""
        return client_of(service, self.handle, account=account, region=region, token=token)

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a raw request; the body comes back as bytes."""
        answer = self.cloud.handle(request)
        response = answer.result(30) if isinstance(answer, Future) else answer
        response = when_done(response).result(30)
        if isinstance(response.body, FileSlice):
            part = response.body
            data = part.path.read_bytes()
            response.body = data[part.offset_bytes : part.offset_bytes + part.length_bytes]
        elif not isinstance(response.body, bytes):
            response.body = b"".join(response.body)
        if request.method == "HEAD":
            if all(name.lower() != "content-length" for name, _ in response.headers):
                response.headers.append(("Content-Length", str(len(response.body))))
            response.body = b""
        return response

    def json_request(
        self, target: str, body: bytes, *, content_type: str = "application/x-amz-json-1.1"
    ) -> HttpResponse:
        """Send a raw JSON or CBOR body to an operation such as `Kinesis_20131202.PutRecord`."""
        headers = {"x-amz-target": target, "content-type": content_type}
        return self.handle(HttpRequest("POST", "/", "", headers, body))
