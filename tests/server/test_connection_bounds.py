"""The bounds of connections and requests: their number, their pace, and the time that they may take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated
from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import BytesMessage, TextMessage

from headrace.aws.calls.http import HttpRequest, HttpResponse, WebSocket
from headrace.aws.server.request_body import Bounds
from headrace.aws.server.server import Server
from tests.server.test_bounds import echo, put, until
from tests.support.frames import HELLO, body_of, headers
from tests.support.wire import Wire, server_at, settle


def test_past_the_bound_the_longest_idle_connection_makes_room(tmp_path: Path):
    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=Bounds(connections=4, busy_s=0.0))
        wires = [Wire(server) for _ in range(4)]
        busy, *idle = wires
        busy.send(put(10))
        server.look(1)
        idle[0].send(put(1) + b"x")  # used later than the others
        new = Wire(server)
        await settle()
        assert not busy.closed
        assert not idle[0].closed
        assert idle[1].closed != idle[2].closed
        new.send(put(1) + b"x")
        await settle()
        assert new.took.startswith(b"HTTP/1.1 200")

    asyncio.run(story())


def test_a_connection_that_was_just_used_is_not_closed_for_another(tmp_path: Path):
    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=Bounds(connections=2))
        used = [Wire(server) for _ in range(2)]
        server.look(4)
        used[0].send(put(1) + b"x")
        server.look(4)
        new = Wire(server)
        assert (used[0].closed, used[1].closed) == (False, True)
        server.look(0.5)
        refused = Wire(server)
        refused.send(put(1) + b"x")
        await settle()
        assert refused.took.startswith(b"HTTP/1.1 503")
        for wire in (used[0], new):
            wire.send(put(1) + b"x")
            await settle()
            assert wire.took.endswith(b"x")

    asyncio.run(story())


def overfull(tmp_path: Path) -> tuple[Server, list[Wire]]:
    """Return a server, and the busy connections that are all it takes."""
    server = server_at(echo, tmp_path, bounds=Bounds(connections=4, surplus=2))
    busy = [Wire(server) for _ in range(4)]
    for wire in busy:
        wire.send(put(10))
    return server, busy


def test_when_all_are_busy_a_new_connection_is_refused_in_its_protocols_words(tmp_path: Path):
    kinesis = b"POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: Kinesis_20131202.ListStreams\r\n"
    kinesis += b"Content-Type: application/x-amz-json-1.1\r\nContent-Length: 2\r\n\r\n{}"

    async def story() -> None:
        server, busy = overfull(tmp_path)
        for request, words in (
            (put(1) + b"x", b"<Code>SlowDown</Code>"),
            (kinesis, b'"__type":"ServiceUnavailable"'),
        ):
            new = Wire(server)
            await settle()
            assert new.took == b""
            for byte in request:
                new.send(bytes([byte]))
            await settle()
            assert new.took.startswith(b"HTTP/1.1 503 Service Unavailable")
            assert b"Connection: close" in new.took
            assert words in new.took
            assert new.sent_eof
        for wire in busy:
            wire.send(b"x" * 10)
            await settle()
            assert wire.took.startswith(b"HTTP/1.1 200")

    asyncio.run(story())


def test_http2_is_told_to_come_back_on_another_connection(tmp_path: Path):
    async def story() -> None:
        server, _ = overfull(tmp_path)
        new = Wire(server)
        client = H2Connection()
        client.initiate_connection()
        sent = client.data_to_send()
        new.send(sent[:10])
        new.send(sent[10:])
        await settle()
        goaway = [
            e for e in client.receive_data(bytes(new.took)) if isinstance(e, ConnectionTerminated)
        ]
        assert [(e.error_code, e.last_stream_id) for e in goaway] == [
            (ErrorCodes.ENHANCE_YOUR_CALM, 0)
        ]
        assert new.sent_eof

    asyncio.run(story())


def test_refused_connections_that_ask_nothing_do_not_pile_up(tmp_path: Path):
    async def story() -> None:
        server, _ = overfull(tmp_path)
        silent = [Wire(server) for _ in range(2)]
        for _ in range(3):
            new = Wire(server)
            await settle()
            assert new.took.startswith(b"HTTP/1.1 503 Service Unavailable")
            assert new.sent_eof
        assert len(server._connections) <= 7
        server.look(3)
        await settle()
        assert all(wire.closed for wire in silent)
        assert len(server._connections) == 4

    asyncio.run(story())


def test_past_the_bound_of_requests_the_next_is_told_to_come_back(tmp_path: Path):
    go = threading.Event()

    def handle(request: HttpRequest) -> HttpResponse:
        assert go.wait(10)
        return HttpResponse(200, body=b"done")

    async def story() -> None:
        server = server_at(handle, tmp_path, inline=False, bounds=Bounds(requests=3))
        wires = [Wire(server) for _ in range(4)]
        for wire in wires:
            wire.send(put(1) + b"x")
            await settle(5)
        assert wires[3].took.startswith(b"HTTP/1.1 503")
        assert b"SlowDown" in wires[3].took
        go.set()
        for wire in wires[:3]:
            await until(lambda wire=wire: wire.took.endswith(b"done"), "the answer")

    asyncio.run(story())


def test_one_connection_holds_some_of_the_threads(tmp_path: Path):
    """Of an HTTP/2 connection's requests, so many run at a time; another's are not behind them."""
    go, running = threading.Event(), []

    def handle(request: HttpRequest) -> HttpResponse:
        if request.path == "/slow":
            running.append(1)
            assert go.wait(10)
        return HttpResponse(200, body=request.path.encode())

    async def story() -> None:
        bounds = Bounds(threads=6, service_threads=6, connection_threads=4)
        server = server_at(handle, tmp_path, inline=False, bounds=bounds)
        greedy = Wire(server)
        greedy.send(HELLO + b"".join(headers(n, path="/slow") for n in range(1, 101, 2)))
        await until(lambda: len(running) == 4, "the first requests")
        other = Wire(server)
        other.send(b"GET /quick HTTP/1.1\r\nHost: t\r\n\r\n")
        await until(lambda: other.took.endswith(b"/quick"), "another's answer")
        assert len(running) == 4
        go.set()
        await until(lambda: body_of(greedy.took, 99) == (b"/slow", True), "the last answer")
        # Three others may run beside it.
        await until(lambda: len(running) == 50, "all requests")

    asyncio.run(story())


def test_one_service_holds_some_of_the_threads(tmp_path: Path):
    """Invocations of a slow function, from as many connections as you like, leave threads to others."""
    go, running = threading.Event(), []

    def handle(request: HttpRequest) -> HttpResponse:
        if request.path == "/lambda":
            running.append(1)
            assert go.wait(10)
        return HttpResponse(200, body=request.path.encode())

    async def story() -> None:
        server = server_at(
            handle, tmp_path, inline=False, service_of=lambda request: request.path,
            bounds=Bounds(threads=6, service_threads=4, connection_threads=2),
        )  # fmt: skip
        slow = [Wire(server) for _ in range(20)]
        for wire in slow:
            wire.send(b"GET /lambda HTTP/1.1\r\nHost: t\r\n\r\n")
        await until(lambda: len(running) == 4, "the first invocations")
        other = Wire(server)
        other.send(b"GET /s3 HTTP/1.1\r\nHost: t\r\n\r\n")
        await until(lambda: other.took.endswith(b"/s3"), "another service's answer")
        go.set()
        for wire in slow:
            await until(lambda wire=wire: wire.took.endswith(b"/lambda"), "the answer")

    asyncio.run(story())


def test_a_request_that_is_left_in_line_is_not_run(tmp_path: Path):
    go, paths = threading.Event(), []

    def handle(request: HttpRequest) -> HttpResponse:
        paths.append(request.path)
        assert go.wait(10)
        return HttpResponse(200)

    async def story() -> None:
        bounds = Bounds(threads=1, service_threads=1, connection_threads=1)
        server = server_at(handle, tmp_path, inline=False, bounds=bounds)
        first, second, third = (Wire(server) for _ in range(3))
        for name, wire in (("/1", first), ("/2", second), ("/3", third)):
            wire.send(f"GET {name} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
            await settle(5)
        await until(lambda: paths, "the first request")
        second.leave()
        await settle()
        go.set()
        await until(lambda: third.took, "the third's answer")
        assert paths == ["/1", "/3"]
        assert server._answering == 0

    asyncio.run(story())


# --- WebSockets -------------------------------------------------------------------------------


class Listener:
    """Takes what a WebSocket's client sends, one message each time that the test lets it."""

    def __init__(self) -> None:
        self.socket: WebSocket | None = None
        self.messages: list[str | bytes] = []
        self.may_run = asyncio.Semaphore(0)

    def opened(self, socket: WebSocket) -> None:
        self.socket = socket

    def received(self, message: str | bytes) -> None:
        self.messages.append(message)

    def closed(self, code: int, reason: str) -> None:
        pass

    async def run(self, owner: object, service: str, call: Callable[[], None]) -> None:
        await self.may_run.acquire()
        call()


async def open_websocket(tmp_path: Path) -> tuple[Server, Wire, Listener, Callable[..., None]]:
    """Return a server, an open WebSocket, who listens to it, and a function that sends an event of the client's."""
    listener = Listener()
    server = server_at(
        lambda _: HttpResponse(101, [("Upgrade", "websocket")], websocket=listener),
        tmp_path,
        inline=False,
    )
    server.run = listener.run  # type: ignore[method-assign] - instead of its threads
    wire = Wire(server)
    wire.send(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    await until(lambda: listener.socket, "the WebSocket")
    frames = Connection(ConnectionType.CLIENT)
    return server, wire, listener, lambda event: wire.send(frames.send(event))


def test_a_websockets_messages_wait_at_its_client_when_many_are_here(tmp_path: Path):
    async def story() -> None:
        _, wire, listener, send = await open_websocket(tmp_path)
        for number in range(100):
            send(TextMessage(str(number)))
        await settle()
        for served in range(100):
            waiting = len(wire.protocol._calls)  # type: ignore[attr-defined]
            assert wire.is_reading() == (waiting <= 32), waiting
            listener.may_run.release()
            await until(lambda served=served: len(listener.messages) > served, "a message")
            await settle(5)
        assert listener.messages == [str(number) for number in range(100)]

    asyncio.run(story())


def test_empty_fragments_of_a_websockets_message_are_not_kept(tmp_path: Path):
    async def story() -> None:
        _, wire, listener, send = await open_websocket(tmp_path)
        for data in ("", b""):
            send(TextMessage(data) if isinstance(data, str) else BytesMessage(data))
        for _ in range(1000):
            send(TextMessage("", message_finished=False))
        assert len(wire.protocol._message) == 0  # type: ignore[attr-defined]
        send(TextMessage("end"))
        for _ in range(3):
            listener.may_run.release()
        await until(lambda: len(listener.messages) == 3, "the messages")
        assert listener.messages == ["", b"", "end"]

    asyncio.run(story())


def test_a_websocket_that_ends_does_not_wait_for_ever_for_its_client(tmp_path: Path):
    async def story() -> None:
        server, wire, listener, _ = await open_websocket(tmp_path)
        assert listener.socket is not None
        wire.stop_reading()
        listener.socket.send("never read")
        listener.socket.end()
        await settle()
        server.look(Bounds().answer_idle_s)
        await settle()
        assert (wire.closed, wire.lost) == (True, False)
        server.look(1)
        await settle()
        assert wire.lost
        assert not server._connections

    asyncio.run(story())
