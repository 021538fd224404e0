"""The wire over a socket that a test plays: answers in pieces, closed connections, clocks, keys, streams."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.client import cbor
from headrace.client.access import AwsAccess
from headrace.client.wire import CBOR, JSON, NotSent, ServiceError, Target, Wire, WireError

TARGET = Target("http://kinesis.test/", "eu-west-1", "kinesis", "Kinesis_20131202.")


class FakeSocket:
    """Gives the pieces of one connection; an exception is raised, None is a closed connection."""

    def __init__(self, *pieces: bytes | BaseException | None) -> None:
        self.pieces, self.sent, self.is_closed = list(pieces), b"", False

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, _: int) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else None
        if isinstance(piece, BaseException):
            raise piece
        return piece or b""

    def settimeout(self, _: float) -> None: ...
    def shutdown(self, _: int) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def answer(body: bytes, status: int = 200, **headers: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return head.encode() + b"\r\n" + body


def refusal(code: str, **headers: str) -> bytes:
    return answer(json.dumps({"__type": code, "message": "no"}).encode(), 400, **headers)


def wire_of(*sockets: FakeSocket | BaseException, token: str | None = None) -> Wire:
    session = boto3.Session("AKID", "secret", token)
    wire = Wire(AwsAccess(session=session, region="eu-west-1"), TARGET)
    left = list(sockets)

    def dial() -> Any:
        item = left.pop(0)
        if isinstance(item, BaseException):
            raise item
        return item

    wire._dial = dial  # type: ignore[method-assign]
    return wire


def test_an_answer_in_pieces_and_a_kept_connection():
    whole = answer(b'{"a": 1}')
    connection = FakeSocket(*(whole[i : i + 1] for i in range(len(whole))), answer(b"{}"))
    wire = wire_of(connection)
    assert wire.call("ListStreams", b"{}") == b'{"a": 1}'
    assert wire.call("ListStreams", b"{}") == b"{}"


@pytest.mark.parametrize("size", [0, 1, (1 << 16) - 1, 1 << 16, 1 << 20])
def test_a_request_of_any_size_is_sent_whole(size: int):
    socket = FakeSocket(answer(b"{}"))
    body = b"x" * size
    wire_of(socket).call("PutRecords", body)
    head, _, rest = socket.sent.partition(b"\r\n\r\n")
    assert rest == body
    assert b"Content-Length: %d" % size in head


def test_an_answer_in_chunks():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = wire_of(FakeSocket(head + b"3\r\nabc\r\n", b"2;x=y\r\nde", b"\r\n0\r\n\r\n"))
    assert wire.call("ListStreams", b"{}") == b"abcde"


@pytest.mark.parametrize("token", [None, "session-token"])
def test_the_signature_is_botocores(token: str | None, monkeypatch: pytest.MonkeyPatch):
    connection = FakeSocket(answer(b"{}"))
    wire = wire_of(connection, token=token)
    wire.call("PutRecords", b'{"StreamName":"s"}', CBOR)
    head, _, body = connection.sent.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    signed = {
        name: value for name, value in headers.items() if name not in ("Authorization", "User-Agent", "Content-Length")
    }  # fmt: skip
    request = AWSRequest("POST", TARGET.url, headers=signed, data=body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials("AKID", "secret", token), "kinesis", "eu-west-1")
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert headers["Authorization"].endswith(f"Signature={auth.signature(text, request)}")


def test_a_kept_connection_that_was_closed_is_opened_again_once():
    first = FakeSocket(answer(b"1"), None)
    wire = wire_of(first, FakeSocket(answer(b"2")), FakeSocket(answer(b"3")))
    assert [wire.call("A", b""), wire.call("A", b"")] == [b"1", b"2"]
    assert first.is_closed


def test_an_answer_that_stops_is_not_asked_again():
    wire = wire_of(
        FakeSocket(answer(b"1"), b"HTTP/1.1 200 OK\r\nConte", None), FakeSocket(answer(b"2"))
    )
    wire.call("A", b"")
    with pytest.raises(WireError, match="closed the connection within an answer"):
        wire.call("A", b"")
    assert wire.call("A", b"") == b"2"


def test_a_timeout_closes_the_connection_so_that_no_late_answer_is_taken():
    late = FakeSocket(answer(b"1"), TimeoutError("timed out"))
    wire = wire_of(late, FakeSocket(answer(b"3")))
    wire.call("A", b"")
    with pytest.raises(WireError, match=r"no answer from http://kinesis\.test/: timed out"):
        wire.call("A", b"")
    assert late.is_closed
    assert wire.call("A", b"") == b"3"


def test_without_a_connection_nothing_was_sent():
    with pytest.raises(NotSent, match="Connection refused"):
        wire_of(ConnectionRefusedError(111, "Connection refused")).call("A", b"")


@pytest.mark.parametrize(
    "body",
    [
        b'{"__type":"com.amazonaws.kinesis#ResourceNotFoundException","message":"no"}',
        b'{"__type":"ResourceNotFoundException","Message":"no"}',
        b"\xa2" + cbor.text("__type") + cbor.text("ResourceNotFoundException") + cbor.text("message") + cbor.text("no"),
    ],
)  # fmt: skip
def test_refusals_have_awss_code_and_sentence(body: bytes):
    with pytest.raises(ServiceError) as caught:
        wire_of(FakeSocket(answer(body, 400))).call("A", b"", JSON)
    assert (caught.value.code, caught.value.message, caught.value.is_passing) == (
        "ResourceNotFoundException", "no", False,
    )  # fmt: skip


def test_a_page_of_a_proxy_is_an_error_of_the_service_that_passes():
    with pytest.raises(ServiceError) as caught:
        wire_of(FakeSocket(answer(b"<html>", 503))).call("A", b"")
    assert caught.value.is_passing


def test_a_clock_that_is_wrong_is_set_by_the_servers():
    later_s = time.time_ns() // 1_000_000_000 + 7200
    connection = FakeSocket(
        refusal("InvalidSignatureException", Date=formatdate(later_s, usegmt=True)), answer(b"1")
    )
    assert wire_of(connection).call("A", b"") == b"1"
    stamps = [line for line in connection.sent.split(b"\r\n") if line.startswith(b"X-Amz-Date")]
    assert len(set(stamps)) == 2


def test_a_wrong_signature_stays_wrong():
    now = formatdate(usegmt=True)
    with pytest.raises(ServiceError, match="InvalidSignatureException"):
        wire_of(FakeSocket(refusal("InvalidSignatureException", Date=now))).call("A", b"")


def test_keys_that_have_expired_are_looked_up_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OLD")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "old")
    access = AwsAccess(region="eu-west-1")
    connection = FakeSocket(refusal("ExpiredTokenException"), answer(b"1"))
    wire = Wire(access, TARGET)
    wire._dial = lambda: connection  # type: ignore[method-assign,assignment,return-value]
    assert access.keys().access_key == "OLD"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEW")
    assert wire.call("A", b"") == b"1"
    assert b"Credential=NEW/" in connection.sent


def test_a_stream_of_bytes():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = wire_of(FakeSocket(head, b"3\r\nabc\r\n", b"0\r\n\r\n"))
    read = wire.open("SubscribeToShard", b"{}")
    assert [read(), read(), read()] == [b"abc", b"", b""]


def test_a_stream_that_is_refused():
    with pytest.raises(ServiceError, match="ResourceInUseException"):
        wire_of(FakeSocket(refusal("ResourceInUseException"))).open("SubscribeToShard", b"{}")
