"""One cloud in process for all attacks that change nothing, with what an attacker would want to reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.security.auth_lab import Guarded
from tests.support.cloud import InProcessCloud
from tests.support.policies import TRUST_TEXT

FRIEND = "http://localhost:3000"
ROLE = "arn:aws:iam::000000000000:role/worker"


class Door:
    """A cloud, and requests to it with the headers of one's choice."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Send a request to 127.0.0.1:4566, if its Host is no other."""
        path, _, query = path.partition("?")
        named = {"host": "127.0.0.1:4566", **(headers or {})}
        return self.cloud.handle(HttpRequest(method, path, query, named, body))

    def status(self, method: str, path: str, headers: dict[str, str]) -> int:
        """Return the status of an answer."""
        return self.ask(method, path, headers).status


def header(answer: HttpResponse, name: str) -> str | None:
    """Return an answer's header; None without it."""
    return next((value for key, value in answer.headers if key.lower() == name.lower()), None)


def text(answer: HttpResponse) -> str:
    """Return an answer's body."""
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A cloud that pages of FRIEND may use, with a bucket `plain`, and `shared`, which everybody may read."""
    data_dir = tmp_path_factory.mktemp("door") / "data"
    with InProcessCloud(data_dir, allow_origins=(FRIEND,), allow_hosts=("cloud.test",)) as cloud:
        cloud.cloud.moto.warm_up()
        s3: Any = cloud.client("s3")
        for bucket in ("plain", "shared"):
            s3.create_bucket(Bucket=bucket)
            s3.put_object(Bucket=bucket, Key="page.html", Body=b"<p>", ContentType="text/html")
            s3.put_object(Bucket=bucket, Key="a.png", Body=b"png", ContentType="image/png")
        rules = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://*.readers.example"]}]
        s3.put_bucket_cors(Bucket="shared", CORSConfiguration={"CORSRules": rules})
        yield Door(cloud)


def body_of(answer: HttpResponse) -> Any:
    """Return an answer's JSON."""
    return json.loads(text(answer))


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A cloud that asks for keys, with a role and an object."""
    made = Guarded(tmp_path_factory.mktemp("auth") / "data")
    iam = made.client("iam")
    iam.create_role(RoleName="worker", AssumeRolePolicyDocument=TRUST_TEXT)
    made.client("s3").create_bucket(Bucket="bucket")
    made.client("s3").put_object(Bucket="bucket", Key="a key/with +% é", Body=b"hello")
    yield made
    made.cloud.stop()


@pytest.fixture(scope="package")
def open_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A cloud that asks for no keys."""
    made = Guarded(tmp_path_factory.mktemp("open") / "data", auth=False)
    s3 = made.cloud.client("s3")
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="k", Body=b"hello")
    yield made
    made.cloud.stop()


@pytest.fixture
def later(guarded: Guarded) -> Iterator[Callable[[float], None]]:
    """Sets the clock of the guarded cloud, for one test."""
    moved: list[float] = []

    def move(seconds: float) -> None:
        guarded.clock.advance(seconds)
        moved.append(seconds)

    yield move
    guarded.clock.advance(-sum(moved))
