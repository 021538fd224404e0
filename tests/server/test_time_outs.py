"""What is waited for too long ends, by a time that the tests let pass; nothing that goes on is ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpResponse
from headrace.aws.server.server import LOOK_EVERY_S, Server
from tests.support.frames import (
    CANCEL,
    DATA,
    END_STREAM,
    HEADERS,
    HELLO,
    NO_ERROR,
    PING,
    RST_STREAM,
    SETTINGS,
    body_of,
    frame,
    frames_of,
    goaway_of,
    headers,
    number,
)
from tests.support.wire import Wire, server_at, settle

GET = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"


async def endless() -> AsyncGenerator[bytes, None]:
    """Goes on for ever, as a client without limit would find."""
    while True:
        yield b"x" * 100_000
        await asyncio.sleep(0)


def run(story: Callable[[Server], Coroutine[Any, Any, None]], handle: Any = None) -> None:
    asyncio.run(
        story(server_at(handle or (lambda r: HttpResponse(200, body=r.body)), Path("/tmp")))
    )


async def let_pass(server: Server, seconds: float) -> None:
    """Let time pass as the server's own timer does."""
    for _ in range(int(seconds)):
        server.look(1.0)
        await settle(2)


# --- HTTP/1.1 ---------------------------------------------------------------------------------


def test_header_fields_that_come_byte_by_byte_for_a_minute():
    """Slowloris: each byte is progress, the whole is not."""

    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
        for _ in range(60):
            assert wire.took == b""
            await let_pass(server, 1)
            wire.send(b"X: y\r\n")
        await let_pass(server, 1)
        assert wire.took.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"Connection: close" in wire.took

    run(story)


@pytest.mark.parametrize("data", [b"P", b"PRI * HTTP/2", b"\r\n", b"\r\n\r\n"])
def test_what_is_not_even_a_request_ends_without_an_answer(data: bytes):
    """A client may take an answer for that to the request that it sends next."""

    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(data)
        await let_pass(server, 60)
        assert not wire.closed
        await let_pass(server, 1)
        assert wire.closed
        assert wire.took == b""

    run(story)


S3_PUT = b"PUT /b/k HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n"
KINESIS = b"POST / HTTP/1.1\r\nHost: t\r\nX-Amz-Target: Kinesis_20131202.PutRecord\r\nContent-Length: 9\r\n"


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (S3_PUT, b"400", b"<Code>RequestTimeout</Code>"),
        (S3_PUT[:-21] + b"Transfer-Encoding: chunked\r\n", b"400", b"RequestTimeout"),
        (KINESIS, b"408", b"stopped coming"),
    ],
)
def test_a_body_that_stops_coming(head: bytes, status: bytes, code: bytes):
    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(head + b"\r\n")
        await let_pass(server, 60)
        assert wire.took == b""
        await let_pass(server, 1)
        assert wire.took.startswith(b"HTTP/1.1 " + status)
        assert code in wire.took
        assert wire.sent_eof

    run(story)


def test_a_body_that_comes_slowly_comes_whole():
    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(S3_PUT + b"\r\n")
        for _ in range(100):
            await let_pass(server, 59)
            wire.send(b"x")
        await settle()
        assert wire.took.endswith(b"x" * 100)
        assert not wire.closed

    run(story)


@pytest.mark.parametrize("used", [False, True])
def test_an_unused_connection_stays_for_a_quarter_of_an_hour(used: bool):
    """Longer than any SDK's pool keeps it, so that none finds its connection reset when it uses it again."""

    async def story(server: Server) -> None:
        wire = Wire(server)
        if used:
            wire.send(GET)
        await let_pass(server, 900)
        assert not wire.closed
        if used:
            wire.send(GET)
            assert wire.took.count(b"200 OK") == 2
            await let_pass(server, 900)
            assert not wire.closed
        await let_pass(server, 2)
        assert wire.closed
        assert not wire.aborted

    run(story)


def test_a_request_may_be_answered_as_late_as_it_likes():
    """An invocation takes a quarter of an hour, and the connection is good afterwards."""
    answer: Future[HttpResponse] = Future()

    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(GET)
        await let_pass(server, 2000)
        answer.set_result(HttpResponse(200, body=b"late"))
        await settle()
        assert wire.took.endswith(b"late")
        await let_pass(server, 890)
        wire.send(GET)
        await settle()
        assert wire.took.count(b"late") == 2

    run(story, lambda _: answer)


def test_an_answer_that_is_not_taken():
    async def story(server: Server) -> None:
        wire = Wire(server, reads=False)
        wire.send(GET)
        await settle()
        await let_pass(server, 299)
        wire.read(100)
        await let_pass(server, 300)
        assert not wire.aborted
        await let_pass(server, 2)
        assert wire.aborted

    run(story, lambda _: HttpResponse(200, body=b"x" * 1_000_000))


def test_an_answer_that_is_taken_slowly_is_taken_whole():
    async def story(server: Server) -> None:
        wire = Wire(server, reads=False)
        wire.send(GET)
        await settle()
        for _ in range(120):
            await let_pass(server, 200)
            wire.read(10_000)
        assert wire.took.endswith(b"x" * 1_000_000)

    run(story, lambda _: HttpResponse(200, body=b"x" * 1_000_000))


def test_a_subscription_that_is_not_read():
    """Its body is closed, so that its place is free."""
    closed: list[bool] = []

    async def body() -> AsyncGenerator[bytes, None]:
        try:
            async for part in endless():
                yield part
        finally:
            closed.append(True)

    async def story(server: Server) -> None:
        wire = Wire(server, reads=False)
        wire.send(GET)
        await settle()
        await let_pass(server, 300)
        assert closed == []
        await let_pass(server, 2)
        await settle()
        assert (wire.aborted, closed) == (True, [True])

    run(story, lambda _: HttpResponse(200, body=body()))


# --- HTTP/2 -----------------------------------------------------------------------------------


def test_over_http2_a_frame_that_is_not_whole():
    for part in (frame(PING, bytes(8))[:12], frame(HEADERS, b"\x82", stream=1)):

        async def story(server: Server, part: bytes = part) -> None:
            wire = Wire(server)
            wire.send(HELLO + part)
            await let_pass(server, 60)
            assert not wire.closed
            await let_pass(server, 1)
            assert wire.closed

        run(story)


def test_over_http2_a_body_that_stops_coming_ends_its_stream_only():
    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(HELLO + headers(1, end=False) + headers(3, end=False))
        for _ in range(2):
            await let_pass(server, 40)
            wire.send(frame(DATA, b"x", stream=3))
        resets = [f for f in frames_of(wire.took) if f.kind == RST_STREAM]
        assert [(f.stream, f.payload) for f in resets] == [(1, number(CANCEL))]
        wire.send(frame(DATA, b"", flags=END_STREAM, stream=3))
        await settle()
        assert body_of(wire.took, 3) == (b"xx", True)

    run(story)


def test_over_http2_an_unused_connection_ends_with_a_goodbye():
    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(HELLO + headers(1))
        await let_pass(server, 500)
        wire.send(frame(PING, bytes(8)))  # as Java's client does every five seconds
        await let_pass(server, 900)
        assert not wire.closed
        await let_pass(server, 2)
        assert wire.closed
        assert goaway_of(wire.took) == NO_ERROR

    run(story)


def test_over_http2_an_answer_without_a_window_ends_its_stream_only():
    closed: list[str] = []

    async def body(path: str) -> AsyncGenerator[bytes, None]:
        try:
            async for part in endless():
                yield part
        finally:
            closed.append(path)

    async def story(server: Server) -> None:
        wire = Wire(server)
        wire.send(HELLO + frame(SETTINGS, b"\0\4" + number(0)))
        wire.send(headers(1, path="/1") + headers(3, path="/3"))
        for _ in range(2):
            await let_pass(server, 200)
            wire.send(frame(8, number(1), stream=3))
            await settle()
        assert closed == ["/1"]
        resets = [f for f in frames_of(wire.took) if f.kind == RST_STREAM]
        assert [(f.stream, f.payload) for f in resets] == [(1, number(CANCEL))]
        assert body_of(wire.took, 3) == (b"xx", False)

    run(story, lambda request: HttpResponse(200, body=body(request.path)))


def test_over_http2_a_client_that_reads_nothing():
    async def story(server: Server) -> None:
        wire = Wire(server, reads=False)
        windows = frame(8, number(2**30)) + frame(SETTINGS, b"\0\4" + number(2**30))
        wire.send(HELLO + windows + headers(1))
        await settle()
        assert 64 * 1024 < wire.get_write_buffer_size() < 512 * 1024, "held at the socket's pace"
        await let_pass(server, 302)
        assert RST_STREAM in [f.kind for f in frames_of(wire.read())]

    run(story, lambda _: HttpResponse(200, body=endless()))


@pytest.mark.parametrize("hello", [b"", HELLO])
def test_a_close_that_waits_for_a_client_who_reads_nothing(hello: bytes):
    """What was written last is too little to fill the socket, and still nobody takes it."""

    async def story(server: Server) -> None:
        wire = Wire(server, reads=False)
        wire.send(hello or GET[:-2] + b"Connection: close\r\n\r\n")
        await let_pass(server, 905)
        if hello:
            assert wire.closed
            assert not wire.lost
        await let_pass(server, 302)
        assert wire.lost
        assert not server._connections

    run(story)


# --- the server's own time --------------------------------------------------------------------


def test_time_stands_still_while_the_process_does(tmp_path: Path):
    """After SIGSTOP, or a lid that was closed, what clients sent meanwhile is read before anybody is late."""

    class Clock:
        now_s = 100.0

        def time(self) -> float:
            return self.now_s

        def call_later(self, *_: object) -> None:
            return None

    server, clock = server_at(lambda _: HttpResponse(200), tmp_path), Clock()
    server._loop = clock  # type: ignore[assignment]
    server._looked_s = clock.now_s
    for passed_s, counted_s in ((1.0, 1.0), (3600.0, 2 * LOOK_EVERY_S), (1.5, 1.5)):
        before_s = server.now_s
        clock.now_s += passed_s
        server._look_regularly()
        assert server.now_s - before_s == counted_s
