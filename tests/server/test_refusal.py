"""A request can be refused once its headers are in: before its body is read, and on either protocol."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.http_server import Client, serving

Asked = list[tuple[str, str, str]]


class Door:
    """Refuses what comes for `evil`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: Asked = []

    def __call__(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        self.asked.append((method, path, headers["host"]))
        if headers["host"] == "evil":
            return HttpResponse(403, [("Content-Type", "text/plain")], b"not here\n")
        return None


def echo(request: HttpRequest) -> HttpResponse:
    assert request.headers["host"] != "evil", "the handler must not see it"
    return HttpResponse(200, [], b"echo " + request.body)


def talk(port: int, *pieces: bytes) -> bytes:
    """Send pieces; return all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        came = b""
        while part := connection.recv(65536):
            came += part
        return came


def request(host: str, length: int | None, *more: str) -> bytes:
    lines = ["POST / HTTP/1.1", f"Host: {host}", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


LAST = b"GET /a%20b?c HTTP/1.1\r\nHost: good\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("cut", [10, 30, None])
def test_the_connection_goes_on_after_a_small_body(tmp_path: Path, cut: int | None):
    """In one piece (the short way) or two."""
    door = Door()
    refused = request("evil", 5) + b"hello"
    pieces = (refused + LAST,) if cut is None else (refused[:cut], refused[cut:] + LAST)
    with serving(echo, tmp_path, inline=True, refuse=door) as port:
        came = talk(port, *pieces)
    assert came.startswith(b"HTTP/1.1 403 Forbidden")
    assert came.endswith(b"echo ")
    assert came.count(b"not here") == 1
    assert b"HTTP/1.1 200 OK" in came
    assert door.asked == [("POST", "/?", "evil"), ("GET", "/a%20b?c", "good")]


def test_a_request_that_came_whole_is_refused_too(tmp_path: Path):
    """By the short way."""
    with (
        serving(echo, tmp_path, inline=True, refuse=Door()) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
    ):
        connection.sendall(request("evil", 2) + b"{}")
        assert connection.recv(4096).startswith(b"HTTP/1.1 403")
        connection.sendall(request("good", 2) + b"{}")
        assert connection.recv(4096).endswith(b"echo {}")


@pytest.mark.parametrize(
    "head",
    [
        request("evil", 64 * 1024 + 1),
        request("evil", 5 * 1024**3),
        request("evil", None, "Transfer-Encoding: chunked"),
        request("evil", 2, "Expect: 100-continue"),
    ],
)
def test_a_larger_body_is_not_waited_for(tmp_path: Path, head: bytes):
    with serving(echo, tmp_path, refuse=Door()) as port:
        came = talk(port, head)
    assert came.startswith(b"HTTP/1.1 403 Forbidden")
    assert b"Connection: close" in came
    assert b"100 Continue" not in came
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_refusal_waits_for_the_answers_before_it(tmp_path: Path):
    first: Future[HttpResponse] = Future()

    def handle(request: HttpRequest) -> Future[HttpResponse]:
        return first

    class Telling(Door):
        def __call__(
            self, method: str, path: str, headers: Mapping[str, str]
        ) -> HttpResponse | None:
            refusal = super().__call__(method, path, headers)
            if refusal is not None:
                first.set_result(HttpResponse(200, body=b"first"))
            return refusal

    with serving(handle, tmp_path, inline=True, refuse=Telling()) as port:
        # In one piece: what comes while the first is being answered would be looked at after it.
        came = talk(port, request("good", 0) + request("evil", 1_000_000))
    assert came.startswith(b"HTTP/1.1 200")
    assert came.index(b"first") < came.index(b"HTTP/1.1 403")


def test_a_door_that_fails_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def broken(*_: object) -> HttpResponse:
        raise RuntimeError("broken")

    with serving(echo, tmp_path, refuse=broken) as port:
        assert talk(port, LAST).startswith(b"HTTP/1.1 500")
    assert "could not be told" in caplog.text


@pytest.mark.parametrize("size", [0, 5, 64 * 1024])
def test_over_http2_the_stream_is_answered_and_the_others_go_on(tmp_path: Path, size: int):
    door = Door()
    with serving(echo, tmp_path, refuse=door) as port, Client(port) as client:
        evil = client.ask("/a?b", b"x" * size, authority="evil")
        good = client.ask("/", b"hello")
        head, body = client.answer(evil)
        assert (head[":status"], body) == ("403", b"not here\n")
        assert client.answer(good)[1] == b"echo hello"
        assert client.reset == []
    assert door.asked == [("POST", "/a?b", "evil"), ("POST", "/?", "localhost")]


def test_over_http2_a_larger_body_is_stopped(tmp_path: Path):
    with serving(echo, tmp_path, refuse=Door()) as port, Client(port) as client:
        client.answer(client.ask("/"))  # so that the server's windows are known
        evil = client.ask("/", b"x" * (64 * 1024), authority="evil", end=False)
        assert client.answer(evil)[0][":status"] == "403"
        assert client.reset == []
        client.h2.send_data(evil, b"x")
        client.flush()
        while evil not in client.reset:
            client.hear()
        assert client.answer(client.ask("/", b"hello"))[1] == b"echo hello"
