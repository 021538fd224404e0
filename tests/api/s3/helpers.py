"""S3 alone behind the gateway: boto3 without a socket and without the other services."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, cast

from botocore.exceptions import ClientError

from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.protocols.service import Profile
from headrace.core.ids import Ids
from headrace.services.s3.api import build_s3, s3_api
from headrace.services.s3.backend import S3Objects
from headrace.store.database import Database
from tests.support.clients import client_of
from tests.support.clock import FakeClock

ACCOUNT = "000000000000"
REGION = "us-east-1"


class NoMoto:
    """No service but S3."""

    profiles: Mapping[str, Profile] = {}

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        raise LookupError(service)

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str,
        region: str,
        is_for_client: bool,
    ) -> dict[str, Any]:
        raise LookupError(service)

    def may_be_quick(self, request: HttpRequest) -> bool:
        return False

    def account_of(self, access_key: str) -> str | None:
        return None


class S3Lab:
    """A started S3 on `data_dir`; `restart` is what a kill -9 and a new start leave."""

    def __init__(
        self, data_dir: Path, clock: FakeClock, durability: Literal["os", "fsync"] = "os"
    ) -> None:
        self.data_dir = data_dir
        self.clock = clock
        self._durability = durability
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        ids = Ids(seed=self._starts)
        self._database = Database(self.data_dir / "state.db")
        self.s3 = build_s3(
            data_dir=self.data_dir,
            clock=self.clock,
            ids=ids,
            database=self._database,
            durability=self._durability,
        )
        self.objects = S3Objects(self.s3)
        self.gateway = Gateway(
            clock=self.clock, ids=ids, account=ACCOUNT, region=REGION, moto=NoMoto()
        )
        self.gateway.register(s3_api(self.s3))
        self.s3.start()

    def restart(self) -> None:
        """Go on from what is on the disk."""
        self.stop()
        self._start()

    def move(self, data_dir: Path) -> None:
        """Go on with another data directory; clients stay."""
        self.stop()
        self.data_dir = data_dir
        self._start()

    def stop(self) -> None:
        """Stop."""
        self.s3.stop()
        self._database.close()

    def folder(self, bucket: str) -> Path:
        """Return where Spark finds a bucket."""
        return self.data_dir / "s3" / bucket

    def client(self, *, account: str = ACCOUNT, region: str = REGION, style: str = "path") -> Any:
        """Return a boto3 client; it validates nothing itself and never retries."""
        virtual = style == "virtual"
        return client_of(
            "s3",
            self._sized,
            account=account,
            region=region,
            endpoint_url="http://s3.localhost:4566" if virtual else "http://127.0.0.1",
            addressing=style,
        )

    def _sized(self, request: HttpRequest) -> HttpResponse:
        answer = self.handle(request)
        if header(answer, "content-length") is None:  # the server adds it
            answer.headers.append(("Content-Length", str(len(cast("bytes", answer.body)))))
        return answer

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a request; the body comes back as bytes."""
        answer = self.gateway.handle(request)
        response = answer.result(30) if isinstance(answer, Future) else answer
        if isinstance(response.body, FileSlice):
            part = response.body
            data = part.path.read_bytes()
            response.body = data[part.offset_bytes : part.offset_bytes + part.length_bytes]
        assert isinstance(response.body, bytes)
        return response

    def request(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        """Send a raw request, unsigned."""
        return self.handle(HttpRequest(method, path, query, dict(headers or {}), body))


def error_of(raised: Any) -> tuple[str, int]:
    """Return the code and status of a ClientError that `pytest.raises` caught."""
    error: ClientError = raised.value
    return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]


def files_under(folder: Path) -> set[str]:
    """Return the relative paths of all files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def header(response: HttpResponse, name: str) -> str | None:
    """Return a response's header."""
    return next((v for n, v in response.headers if n.lower() == name.lower()), None)
