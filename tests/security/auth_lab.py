"""A cloud with --auth, and one without, whose clock can be set, and clients with the keys of one's choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config as BotocoreConfig
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.signatures.auth_errors import UTC, datetime
from headrace.testing.in_process import aws_response, http_request_of
from tests.support.clients import ENDPOINT_URL
from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud

HOST = urlsplit(ENDPOINT_URL).netloc


class Guarded:
    """A cloud, by default with --auth."""

    def __init__(self, data_dir: Path, *, auth: bool = True, **config: Any) -> None:
        self.clock = ShiftedClock()
        self.cloud = InProcessCloud(
            data_dir,
            clock=self.clock,
            auth=auth,
            allow_origins=("http://localhost:3000",),
            **config,
        )
        # moto is one in a process: it becomes this cloud's now, not in the middle of some test.
        self.cloud.cloud.moto.warm_up()
        if self.cloud.cloud.keys is not None:
            (self.key,) = self.cloud.cloud.keys.operators

    def client(
        self, service: str, key: str | None = None, secret: str | None = None,
        token: str | None = None, **config: Any,
    ) -> Any:  # fmt: skip
        client = boto3.client(
            service,
            region_name="us-east-1",
            endpoint_url=ENDPOINT_URL,
            aws_access_key_id=key or self.key.id,
            aws_secret_access_key=secret or self.key.secret,
            aws_session_token=token,
            config=BotocoreConfig(
                retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **config
            ),
        )
        client.meta.events.register_first("before-send.*", self._send)
        return client

    def _send(self, request: Any, **_: Any) -> Any:
        ours = http_request_of(request)
        ours.headers.setdefault("host", urlsplit(request.url).netloc)
        return aws_response(request.url, self.cloud.handle(ours))

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        path, _, query = path.partition("?")
        named = {"host": "127.0.0.1:4566", **(headers or {})}
        return self.cloud.handle(HttpRequest(method, path, query, named, body))

    def credentials(self) -> Credentials:
        return Credentials(self.key.id, self.key.secret)


def refused(call: Any, **params: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    found = caught.value.response
    error = found["Error"]
    return error["Code"], error["Message"], found["ResponseMetadata"]["HTTPStatusCode"]


def sign_at(guarded: Guarded, request: HttpRequest, credentials: Credentials, service: str) -> None:
    """Sign a request with the clock of the cloud."""
    now = datetime.fromtimestamp(guarded.clock.now_ms() / 1000, UTC)
    made = AWSRequest(
        request.method, f"{ENDPOINT_URL}{request.path}", headers=request.headers, data=request.body
    )
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        SigV4Auth(credentials, service, "us-east-1").add_auth(made)
    request.headers = http_request_of(made.prepare()).headers
    request.headers.setdefault("host", HOST)
