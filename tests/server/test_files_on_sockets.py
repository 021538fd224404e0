"""Large files go from the disk to a real socket; clients who do not take them hold nothing for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from pathlib import Path
from typing import IO

import pytest

from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.server.http1 import Http1Connection
from headrace.aws.server.server import Server
from tests.support.http_server import Client, on_a_socket
from tests.support.server import wait_until

SIZE = 40_000_000  # more than a piece that is sent at once, and more than sockets hold


class Files:
    """A server whose every answer is a file, and the files that it was given."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "large"
        block = bytes(range(256)) * 4096
        with self.path.open("wb") as file:
            file.writelines([block] * (SIZE // len(block) + 1))
        self.opened: list[IO[bytes]] = []
        self.size = SIZE
        self.server = Server(self.handle, is_inline=lambda _: False, temp_dir=tmp_path / "tmp")

    def handle(self, _: HttpRequest) -> HttpResponse:
        file = self.path.open("rb")
        self.opened.append(file)
        return HttpResponse(200, body=FileSlice(self.path, 3, self.size, file))

    def wait_for_end(self) -> None:
        """Wait until every file is closed and no request is under way."""
        wait_until(lambda: self.opened and all(file.closed for file in self.opened), what="an end")
        wait_until(lambda: not self.server._answering, what="the last request's end")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


GET = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"
HEAD_ONLY = b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n"


def read_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    came = b""
    while b"\r\n\r\n" not in came:
        came += connection.recv(65536)
    head, _, body = came.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    parts = [body]
    left = length - len(body)
    while left:
        parts.append(connection.recv(min(left, 1 << 20)))
        left -= len(parts[-1])
    return head, b"".join(parts)


def test_it_is_sent_whole_and_the_connection_goes_on(files: Files):
    wanted = files.path.read_bytes()[3 : SIZE + 3]
    with (
        on_a_socket(files.server) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
    ):
        connection.sendall(HEAD_ONLY + GET + GET)
        came = b""
        while b"\r\n\r\n" not in came:
            came += connection.recv(1)
        assert f"Content-Length: {SIZE}".encode() in came
        for _ in range(2):
            assert read_answer(connection)[1] == wanted
        files.wait_for_end()


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_client_that_goes_away_in_the_middle(
    files: Files, how: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    with on_a_socket(files.server) as (port, _):
        for _ in range(5):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            connection.sendall(GET)
            assert connection.recv(1000)
            if how == "reset":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        files.wait_for_end()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as other:
            other.sendall(GET)
            assert len(read_answer(other)[1]) == SIZE
    assert caplog.records == [], "nobody needs to hear of it"


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_that_takes_nothing_for_five_minutes(files: Files, version: int):
    def pass_time(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        async def look() -> None:
            files.server.look(seconds)

        asyncio.run_coroutine_threadsafe(look(), loop).result(10)

    with on_a_socket(files.server) as (port, loop):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        if version == 1:
            connection.sendall(GET)
        else:
            client = Client(port)
            client.ask("/")
        wait_until(lambda: files.opened, what="the request")
        pass_time(loop, 290)
        assert not files.opened[0].closed

        def ends() -> bool:
            # The server may have written a little more since: its five minutes begin with that.
            pass_time(loop, 20)
            return files.opened[0].closed

        wait_until(ends, what="an end")
        connection.close()


def test_a_server_that_stops_leaves_nothing_open(files: Files):
    with on_a_socket(files.server) as (port, _):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        connection.sendall(GET)
        assert connection.recv(1000)
    files.wait_for_end()
    connection.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_that_became_shorter(files: Files, version: int, caplog: pytest.LogCaptureFixture):
    """The client must not take what came for the whole."""
    files.path.write_bytes(b"x" * 2_000_000)
    files.size = 5_000_000
    with on_a_socket(files.server) as (port, _):
        if version == 1:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(GET)
                came = 0
                with contextlib.suppress(ConnectionResetError):
                    while part := connection.recv(1 << 20):
                        came += len(part)
                assert 2_000_000 <= came < 2_001_000, "less than the Content-Length said"
        else:
            with Client(port) as client:
                stream = client.ask("/")
                while stream not in client.reset:
                    client.hear()
        files.wait_for_end()
    assert "bytes too soon" in caplog.text
    assert "Traceback" not in caplog.text


def test_the_parts_of_an_answer_do_not_wait_for_each_other(files: Files):
    """Without the option, an event of SubscribeToShard waits 40 ms for the acknowledgement of the one before."""
    with (
        on_a_socket(files.server) as (port, _),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(HEAD_ONLY)
        assert client.recv(65536)
        (accepted,) = files.server._connections
        assert isinstance(accepted, Http1Connection)
        assert accepted._transport is not None
        option = accepted._transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY
        )
        assert option
