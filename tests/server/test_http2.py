"""HTTP/2 in clear text: frames as a client sends them, to a real server around a handler of the test's own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from pathlib import Path

import pytest

from headrace.aws.calls.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from tests.support.http_server import Client, serving


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, [("X-Path", request.path), ("Connection", "close")], request.body)


@pytest.mark.parametrize("inline", [True, False])
def test_a_request_is_answered(tmp_path: Path, inline: bool):
    with serving(echo, tmp_path, inline=inline) as port, Client(port) as client:
        head, body = client.answer(client.ask("/a?b=c", b"hello"))
    assert (head[":status"], head["x-path"], head["content-length"]) == ("200", "/a", "5")
    assert "connection" not in head
    assert body == b"hello"


def test_streams_are_answered_side_by_side(tmp_path: Path):
    first: Future[HttpResponse] = Future()

    def handle(request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        return first if request.path == "/slow" else HttpResponse(200, body=b"quick")

    with serving(handle, tmp_path) as port, Client(port) as client:
        slow = client.ask("/slow")
        quick = client.ask("/quick")
        assert client.answer(quick)[1] == b"quick"
        assert slow not in client.ended
        first.set_result(HttpResponse(200, body=b"slow"))
        assert client.answer(slow)[1] == b"slow"


def test_bodies_larger_than_every_window(tmp_path: Path):
    data = bytes(range(256)) * 4096 * 20  # 20 MiB: the request is spooled to a file

    def handle(request: HttpRequest) -> HttpResponse:
        assert request.body_file is not None
        return HttpResponse(200, body=request.body_file.read_bytes())

    with serving(handle, tmp_path) as port, Client(port) as client:
        assert client.answer(client.ask("/", data))[1] == data
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_client_that_gives_no_window_gets_no_data(tmp_path: Path):
    with serving(echo, tmp_path) as port, Client(port, window_bytes=0) as client:
        stream = client.ask("/", b"12345")
        while stream not in client.heads:
            client.hear()
        client.h2.increment_flow_control_window(3, stream)
        client.flush()
        while client.bodies.get(stream, b"") != b"123":
            client.hear()
        client.h2.increment_flow_control_window(3, stream)
        client.flush()
        assert client.answer(stream)[1] == b"12345"


def test_a_file_and_an_iterator(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"0123456789" * 200_000)

    def handle(request: HttpRequest) -> HttpResponse:
        if request.path == "/file":
            return HttpResponse(200, body=FileSlice(tmp_path / "f", 5, 1_500_000))
        return HttpResponse(200, body=iter([b"a", b"b"]))

    with serving(handle, tmp_path) as port, Client(port) as client:
        expected = (b"0123456789" * 200_000)[5:1_500_005]
        assert client.answer(client.ask("/file"))[1] == expected
        head, body = client.answer(client.ask("/file", method="HEAD"))
        assert (head["content-length"], body) == ("1500000", b"")
        assert client.answer(client.ask("/parts"))[1] == b"ab"


class Endless:
    """A body that goes on until its client goes away."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def __call__(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            self.closed.set()


def test_a_body_that_comes_as_it_comes_ends_with_its_stream(tmp_path: Path):
    endless = Endless()
    with (
        serving(lambda _: HttpResponse(200, body=endless()), tmp_path) as port,
        Client(port) as client,
    ):
        stream = client.ask("/")
        while client.bodies.get(stream) != b"first":
            client.hear()
        assert not endless.closed.is_set()
        client.h2.reset_stream(stream)
        client.flush()
        assert endless.closed.wait(10)


GOODBYE = bytes((0, 0, 8, 7, 0, 0, 0, 0, 0)) + bytes(8)


def test_a_client_that_says_goodbye_still_gets_what_it_asked_for(tmp_path: Path):
    """So do Node's clients once a subscription has begun."""
    left = threading.Event()

    async def two_parts() -> AsyncGenerator[bytes, None]:
        yield b"first"
        while not left.is_set():
            await asyncio.sleep(0.005)
        yield b", last"

    def handle(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, body=two_parts()) if request.path == "/long" else echo(request)

    with serving(handle, tmp_path, inline=True) as port, Client(port) as client:
        long = client.ask("/long")
        while client.bodies.get(long) != b"first":
            client.hear()
        with client.withheld() as sent:
            short = client.ask("/short", b"x")
        client.socket.sendall(sent + GOODBYE)
        assert b"x" in client.answer(short)[1]
        client.socket.sendall(GOODBYE)
        left.set()
        assert client.answer(long)[1] == b"first, last"
        with pytest.raises(ConnectionError):
            client.hear()


@pytest.mark.parametrize("half", [True, False])
def test_over_http1_it_ends_with_the_connection(tmp_path: Path, half: bool):
    endless = Endless()
    with serving(lambda _: HttpResponse(200, body=endless()), tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            came = b""
            while b"first\r\n" not in came:
                came += connection.recv(4096)
            assert b"Transfer-Encoding: chunked" in came
            if half:
                connection.shutdown(socket.SHUT_WR)
                assert endless.closed.wait(10)
        assert endless.closed.wait(10)


def test_a_dropped_answer_resets_the_stream_or_the_connection(tmp_path: Path):
    with serving(lambda _: HttpResponse(DROPPED), tmp_path) as port:
        with Client(port) as client:
            stream = client.ask("/")
            while stream not in client.reset:
                client.hear()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            assert connection.recv(4096) == b""


def test_the_preface_may_come_in_pieces(tmp_path: Path):
    with serving(echo, tmp_path) as port, Client(port, first_bytes=5) as client:
        assert client.answer(client.ask("/", b"x"))[1] == b"x"


def test_nonsense_after_the_preface_closes_the_connection(tmp_path: Path):
    with (
        serving(echo, tmp_path) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
    ):
        data_on_stream_zero = b"\0\0\1\0\0\0\0\0\0x"
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + data_on_stream_zero)
        came = b""
        while part := connection.recv(4096):
            came += part
        assert came  # our settings and the GOAWAY, then the end
