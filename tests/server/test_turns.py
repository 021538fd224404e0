"""One client's bytes never hold the event loop: between its turns the others have theirs. Counted, not timed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.http2 import HEADERS_TURNS
from headrace.aws.server.request_body import Bounds
from tests.support.frames import (
    HEADERS,
    HELLO,
    RST_STREAM,
    SETTINGS,
    encoded,
    frame,
    headers,
    number,
)
from tests.support.wire import Wire, server_at, settle

BOUNDS = Bounds()
GET = b"GET /bad HTTP/1.1\r\nHost: t\r\n\r\n"
GOOD = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n"
RESETS = b"".join(
    headers(stream, path="/bad") + frame(RST_STREAM, number(8), stream=stream)
    for stream in range(1, 1000, 2)
)


class Work:
    """Counts what is done for clients, at each of the event loop's turns."""

    def __init__(self, count: Callable[[], int]) -> None:
        self.turns: list[int] = []
        self._count = count
        self._before = 0
        self._going = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now = self._count()
        self.turns.append(now - self._before)
        self._before = now
        if self._going:
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._going = False


def requests_of(count: int) -> bytes:
    return GET * count


@pytest.mark.parametrize("kind", ["requests", "frames"])
def test_a_burst_in_one_read_is_taken_in_turns(tmp_path: Path, kind: str):
    """A quarter of a megabyte holds 8,000 requests, or as many resets."""
    done: list[str] = []

    def handle(request: HttpRequest) -> HttpResponse:
        done.append(request.path)
        return HttpResponse(200)

    async def story() -> None:
        server = server_at(handle, tmp_path)
        work = Work(lambda: len(done))
        burst = requests_of(5000) if kind == "requests" else HELLO + RESETS
        for _ in range(3):
            Wire(server).send(burst)
        good = Wire(server)
        before = len(done)
        good.send(GOOD)
        await settle(2000)
        work.stop()
        most = 3 * (BOUNDS.turn_requests if kind == "requests" else BOUNDS.turn_frames)
        assert before <= most, "done before the good client's request"
        assert max(work.turns) <= most + 1
        assert len(done) > 1000 or kind == "frames"

    asyncio.run(story())


def test_a_large_header_block_takes_several_turns(tmp_path: Path):
    """Taking HPACK's code apart costs a millisecond for each kilobyte or two."""
    fields = [(":method", "GET"), (":scheme", "http"), (":path", "/bad"), (":authority", "t")]
    block = encoded([*fields, ("x", "y" * 15_000)])
    done: list[str] = []

    def handle(request: HttpRequest) -> HttpResponse:
        done.append(request.path)
        return HttpResponse(200)

    async def story() -> None:
        server = server_at(handle, tmp_path)
        work = Work(lambda: len(done))
        wire = Wire(server)
        blocks = b"".join(frame(HEADERS, block, flags=5, stream=n) for n in range(1, 41, 2))
        wire.send(HELLO + blocks)
        await settle(200)
        work.stop()
        assert len(done) == 20
        assert max(work.turns) <= 1

    asyncio.run(story())


def test_a_small_request_over_http2_counts_as_several_frames(tmp_path: Path):
    """With its reset, of a rapid reset: HPACK, routing and an answer cost more than any other frame."""
    done: list[str] = []

    def handle(request: HttpRequest) -> HttpResponse:
        done.append(request.path)
        return HttpResponse(200)

    async def story() -> None:
        server = server_at(handle, tmp_path)
        work = Work(lambda: len(done))
        Wire(server).send(HELLO + b"".join(headers(n) for n in range(1, 401, 2)))
        await settle(400)
        work.stop()
        assert len(done) == 200
        assert max(work.turns) <= 1 + BOUNDS.turn_frames // (1 + HEADERS_TURNS)

    asyncio.run(story())


async def parts() -> AsyncGenerator[bytes, None]:
    for _ in range(100):
        yield b"x" * 1_000_000


@pytest.mark.parametrize("streams", [1, 50])
def test_a_quick_reader_of_much_lets_others_have_their_turn(tmp_path: Path, streams: int):
    """It never waits for its window, nor for the socket, so nothing else would stop it."""

    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200, body=parts()), tmp_path)
        wire = Wire(server)
        windows = frame(8, number(2**30)) + frame(SETTINGS, b"\0\4" + number(2**30))
        wire.send(HELLO + windows)
        wire.took = b""
        sent = [0]
        write = wire.write

        def counted(data: bytes) -> None:
            sent[0] += len(data)

        wire.write = counted  # type: ignore[method-assign, assignment]
        work = Work(lambda: sent[0])
        for stream in range(1, 2 * streams, 2):
            wire.send(headers(stream))
        await settle(300)
        work.stop()
        wire.write = write  # type: ignore[method-assign]
        assert sent[0] > 10_000_000
        assert max(work.turns) <= 1_000_000
        wire.leave()
        await settle(10)

    asyncio.run(story())


def test_a_subscriber_that_reads_nothing_wakes_nobody(tmp_path: Path):
    """Its body is not asked for more than the socket took."""
    asked: list[int] = []

    async def body() -> AsyncGenerator[bytes, None]:
        while True:
            asked.append(1)
            yield b"x" * 50_000

    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200, body=body()), tmp_path)
        for data in (GET, HELLO + headers(1)):
            asked.clear()
            Wire(server, reads=False).send(data)
            await settle(500)
            assert 1 <= len(asked) <= 3

    asyncio.run(story())


def test_a_thousand_idle_connections_cost_a_look_a_second(tmp_path: Path):
    """And no turn of the loop in between."""

    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200), tmp_path)
        wires = [Wire(server) for _ in range(1000)]
        for number_, wire in enumerate(wires):
            wire.send([b"", GOOD, GOOD[:20], HELLO, GET + GET[:5]][number_ % 5])
        await settle(5)
        looks: list[int] = []
        for wire in wires:
            look = wire.protocol.look  # type: ignore[attr-defined]

            def counted(now_s: float, look: Callable[[float], None] = look) -> None:
                looks.append(1)
                look(now_s)

            wire.protocol.look = counted  # type: ignore[attr-defined]
        for _ in range(3):
            server.look(1.0)
        assert len(looks) == 3000
        assert not any(wire.closed for wire in wires)
        good = Wire(server)
        good.send(GOOD)
        assert good.took.startswith(b"HTTP/1.1 200")

    asyncio.run(story())


def test_who_sends_slowly_is_asked_for_nothing(tmp_path: Path):
    """A body of a byte at a time is read, and no thread nor turn is spent until it is whole."""

    async def story() -> None:
        server = server_at(lambda r: HttpResponse(200, body=r.body), tmp_path, inline=False)
        wires = [Wire(server) for _ in range(100)]
        for wire in wires:
            wire.send(b"PUT /bad HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n")
        for _ in range(99):
            for wire in wires:
                wire.send(b"x")
        assert server._pool._running == 0
        assert server._answering == 0
        for wire in wires:
            wire.send(b"x")
        for _ in range(1000):
            if all(wire.took.endswith(b"x" * 100) for wire in wires):
                return
            await asyncio.sleep(0.005)
        raise AssertionError("an answer did not come")

    asyncio.run(story())
