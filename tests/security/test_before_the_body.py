"""What may not come in is refused when its headers are there: nobody waits for 5 GiB, or keeps them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import h2.connection
import h2.events
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config as BotocoreConfig
from botocore.credentials import Credentials
from h2.config import H2Configuration

from tests.api.kinesis.live import LiveCloud

FIVE_GIB = 5 * 1024**3
EVIL = [("origin", "http://evil.example"), ("content-type", "text/plain")]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    with LiveCloud(tmp_path_factory.mktemp("live") / "data") as cloud:
        cloud.cloud.moto.warm_up()
        yield cloud


def http1(live: LiveCloud, headers: list[tuple[str, str]], host: str = "localhost") -> bytes:
    """Send the head of a request, and read until the server has closed."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        connection.sendall(f"PUT /bucket/key HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())
        answer = b""
        while data := connection.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize(
    "length", [("content-length", str(FIVE_GIB)), ("transfer-encoding", "chunked")]
)
def test_http1_refuses_before_the_body(live: LiveCloud, length: tuple[str, str]):
    answer = http1(live, [*EVIL, length, ("expect", "100-continue")])
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"--allow-origin http://evil.example" in answer
    assert answer.count(b"HTTP/1.1") == 1
    rebound = http1(live, [length], host="evil.example")
    assert rebound.startswith(b"HTTP/1.1 421 Misdirected Request\r\n")


class Http2:
    """An HTTP/2 client that sends what it is told to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._h2 = h2.connection.H2Connection(H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()

    def close(self) -> None:
        self._socket.close()

    def head_of_answer(self, headers: list[tuple[str, str]], *, end: bool) -> dict[str, str]:
        """Send headers, and return those of the answer."""
        self._h2.send_headers(self._h2.get_next_available_stream_id(), headers, end_stream=end)
        self._socket.sendall(self._h2.data_to_send())
        while True:
            for event in self._h2.receive_data(self._socket.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived):
                    return {str(n): str(v) for n, v in event.headers or []}
            self._socket.sendall(self._h2.data_to_send())


@pytest.fixture
def http2(live: LiveCloud) -> Iterator[Http2]:
    client = Http2(live.port)
    yield client
    client.close()


def head(authority: str) -> list[tuple[str, str]]:
    pseudo = {":method": "PUT", ":path": "/bucket/key", ":scheme": "http", ":authority": authority}
    return list(pseudo.items())


def test_http2_refuses_before_the_body_and_goes_on_with_other_streams(http2: Http2):
    refused = http2.head_of_answer([*head("localhost"), *EVIL], end=False)
    assert refused[":status"] == "403"
    rebound = http2.head_of_answer(head("evil.example"), end=False)
    assert rebound[":status"] == "421"
    health = [(":method", "GET"), (":path", "/_headrace/health"), *head("localhost")[2:]]
    assert http2.head_of_answer(health, end=True)[":status"] == "200"


def test_nothing_is_kept_of_what_was_refused(live: LiveCloud):
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        head = f"PUT /b/k HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {FIVE_GIB}\r\n\r\n"
        connection.sendall(head.encode())
        answer = connection.recv(65536)
        try:
            while connection.send(b"x" * 1024**2):
                pass
        except OSError:
            pass  # the server has hung up
    assert answer.startswith(b"HTTP/1.1 421")
    assert not list((live.cloud.config.data_dir / "tmp").iterdir())


# --- with --auth ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded_live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    with LiveCloud(tmp_path_factory.mktemp("guarded") / "data", auth=True) as cloud:
        cloud.cloud.moto.warm_up()
        yield cloud


def put(live: LiveCloud, path: str, **headers: str) -> bytes:
    """Send the head of a PUT of 5 GiB, and read what comes back."""
    given = {
        "content-length": str(FIVE_GIB),
        **{n.replace("_", "-"): v for n, v in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        connection.sendall(
            f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\n{lines}\r\n".encode()
        )
        return connection.recv(65536)


def signed(live: LiveCloud, secret: str | None = None) -> dict[str, str]:
    """Return the headers of a PUT to /bucket/key whose body is not signed."""
    keys = live.cloud.keys
    assert keys is not None
    (own,) = keys.operators
    request = AWSRequest("PUT", f"http://127.0.0.1:{live.port}/bucket/key")
    request.context["client_config"] = BotocoreConfig(s3={"payload_signing_enabled": False})
    S3SigV4Auth(Credentials(own.id, secret or own.secret), "s3", "us-east-1").add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


def test_who_has_no_key_uploads_nothing(guarded_live: LiveCloud):
    assert b"<Code>AccessDenied</Code>" in put(guarded_live, "/bucket/key")
    wrong = put(guarded_live, "/bucket/key", **signed(guarded_live, "wrong"))
    assert b"<Code>SignatureDoesNotMatch</Code>" in wrong
    nobodys = {**signed(guarded_live)}
    nobodys["authorization"] = nobodys["authorization"].replace("Credential=", "Credential=X")
    assert b"<Code>InvalidAccessKeyId</Code>" in put(guarded_live, "/bucket/key", **nobodys)
    expired = "/bucket/key?AWSAccessKeyId=x&Signature=y&Expires=1"
    assert b"Request has expired" in put(guarded_live, expired)
    target = {"x_amz_target": "Kinesis_20131202.PutRecord"}
    assert b"MissingAuthenticationTokenException" in put(guarded_live, "/", **target)
    assert put(guarded_live, "/_headrace/faults").startswith(b"HTTP/1.1 403")
    assert not list((guarded_live.cloud.config.data_dir / "tmp").iterdir())


def test_who_has_one_does(guarded_live: LiveCloud):
    answer = put(guarded_live, "/bucket/key", **signed(guarded_live), expect="100-continue")
    assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize("path", ["/_headrace/function-url/abc/", "/_headrace/cfn-response/token"])
def test_what_needs_no_key_must_be_small_and_say_so(guarded_live: LiveCloud, path: str):
    assert put(guarded_live, path).startswith(b"HTTP/1.1 413")
    chunked = put(guarded_live, path, content_length="", transfer_encoding="chunked")
    assert chunked.startswith(b"HTTP/1.1 411")
