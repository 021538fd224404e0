"""Answers in every form, to every kind of client, and what becomes of those that break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.answers import head, short
from tests.support.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    HELLO,
    RST_STREAM,
    body_of,
    frame,
    frames_of,
    headers,
)
from tests.support.wire import Wire, server_at, settle


@pytest.mark.parametrize(
    "fields",
    [
        [("Content-Type", "a/b"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b\r\nX: y"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b"), ("x-amzn-RequestId", "1\r\n\r\n")],
        [("Content-Type", "a/b\xe9\u20ac"), ("x-amzn-RequestId", "\n")],
        [("Content-Length", "7"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b"), ("Content-Length", "7")],
        [("Content-Type", "a/b")],
        [("Content-Type", "a/b"), ("X-Amz-Executed-Version", "3"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b"), ("X-Amz-Executed-Version", "\n"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b"), ("Content-Length", "7"), ("x-amzn-RequestId", "1")],
        [("X-Amz-Executed-Version", "3"), ("Content-Type", "a/b"), ("x-amzn-RequestId", "1")],
        [("Content-Type", "a/b"), ("X-Amz-Executed-Version", "3"), ("Content-Length", "7")],
        [*[("Content-Type", "a/b")] * 2, ("x-amzn-RequestId", "1")],
    ],
)
@pytest.mark.parametrize("status", [200, 400, 799])
def test_a_short_answer_is_its_head_and_its_body(status: int, fields: list[tuple[str, str]]):
    answer = HttpResponse(status, fields)
    # The second time, the beginning is known.
    for _ in range(2):
        assert short(answer, b"{}") == head(answer, 2) + b"{}"


GET = b"GET /%b HTTP/1.1\r\nHost: t\r\n\r\n"


class Parts:
    """An iterator that tells when it was closed."""

    def __init__(self, *parts: bytes, fails: bool = False) -> None:
        self.closed = 0
        self._parts = list(parts)
        self._fails = fails

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._parts:
            return self._parts.pop(0)
        if self._fails:
            raise RuntimeError("the stream broke")
        raise StopIteration

    def close(self) -> None:
        self.closed += 1


async def generated(*, fails: bool = False) -> AsyncGenerator[bytes, None]:
    yield b"a"
    await asyncio.sleep(0)
    yield b""
    yield b"bc"
    if fails:
        raise RuntimeError("the stream broke")


def run(handle: Any, sent: bytes, until: Callable[[Wire], Any] = lambda _: True) -> Wire:
    """Send, and return the connection once `until` holds for it: a stream's parts come from a thread."""

    async def story() -> Wire:
        wire = Wire(server_at(handle, Path("/tmp")))
        wire.send(sent)
        await settle()
        async with asyncio.timeout(10):
            while not until(wire):
                await asyncio.sleep(0.002)
        await settle()
        return wire

    return asyncio.run(story())


def stream_of(request: HttpRequest) -> HttpResponse:
    body = Parts(b"a", b"", b"bc") if request.path == "/iterator" else generated()
    return HttpResponse(200, body=body)


@pytest.mark.parametrize("kind", [b"iterator", b"generator"])
def test_a_stream_is_chunked_and_the_connection_goes_on(kind: bytes):
    wire = run(
        stream_of, GET % kind + GET % kind, lambda wire: wire.took.count(b"\r\n0\r\n\r\n") == 2
    )
    assert wire.took.count(b"Transfer-Encoding: chunked") == 2
    assert wire.took.count(b"\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n") == 2
    assert not wire.closed


@pytest.mark.parametrize("kind", [b"iterator", b"generator"])
def test_a_client_of_http_1_0_gets_no_chunks(kind: bytes):
    wire = run(stream_of, b"GET /%b HTTP/1.0\r\n\r\n" % kind, lambda wire: wire.closed)
    head, _, body = wire.took.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert b"Connection: close" in head
    assert body == b"abc"
    assert wire.closed


@pytest.mark.parametrize("kind", [b"iterator", b"generator"])
def test_the_connection_closes_after_a_stream_when_it_is_asked_to(kind: bytes):
    wire = run(stream_of, GET[:-2] % kind + b"Connection: close\r\n\r\n", lambda wire: wire.closed)
    assert b"Connection: close" in wire.took
    assert wire.took.endswith(b"0\r\n\r\n")
    assert wire.closed


@pytest.mark.parametrize("kind", [b"iterator", b"generator"])
def test_head_has_no_body(kind: bytes):
    wire = run(
        stream_of,
        b"HEAD /%b HTTP/1.1\r\nHost: t\r\n\r\n" % kind + GET % kind,
        lambda wire: wire.took.endswith(b"\r\n0\r\n\r\n"),
    )
    first, _, rest = wire.took.partition(b"\r\n\r\n")
    assert b"HTTP/1.1 200" in first
    assert rest.startswith(b"HTTP/1.1 200"), "the next answer, and no body"
    wire = run(
        stream_of,
        HELLO + headers(1, path="/" + kind.decode(), method="HEAD"),
        lambda wire: body_of(wire.took)[1],
    )
    assert body_of(wire.took) == (b"", True)


@pytest.mark.parametrize("status", [204, 304])
def test_answers_that_have_no_body(status: int):
    def handle(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status, body=b"not to be sent")

    wire = run(handle, GET % b"" + GET % b"")
    assert wire.took.count(b"HTTP/1.1 %d" % status) == 2
    assert b"not to be" not in wire.took
    assert b"Content-Length" not in wire.took
    wire = run(handle, HELLO + headers(1))
    assert body_of(wire.took) == (b"", True)


@pytest.mark.parametrize("kind", ["iterator", "generator"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_stream_that_breaks_is_not_taken_for_whole(
    kind: str, version: int, caplog: pytest.LogCaptureFixture
):
    def handle(_: HttpRequest) -> HttpResponse:
        body = Parts(b"a", fails=True) if kind == "iterator" else generated(fails=True)
        return HttpResponse(200, body=body)

    if version == 1:
        wire = run(handle, GET % b"", lambda wire: wire.aborted)
        assert b"0\r\n\r\n" not in wire.took
        assert wire.aborted
    else:

        def is_reset(wire: Wire) -> bool:
            return RST_STREAM in [f.kind for f in frames_of(wire.took)]

        wire = run(handle, HELLO + headers(1), is_reset)
        assert body_of(wire.took)[1] is False
    assert "broke off" in caplog.text


@pytest.mark.parametrize("version", [1, 2])
def test_a_stream_whose_client_leaves_is_closed(version: int):
    parts = Parts(*[b"x" * 50_000] * 1000)

    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200, body=parts), Path("/tmp"))
        wire = Wire(server, reads=False)
        wire.send(GET % b"" if version == 1 else HELLO + headers(1))
        for _ in range(1000):
            await asyncio.sleep(0.002)
            if wire.get_write_buffer_size() > 64 * 1024 or (
                version == 2 and wire.get_write_buffer_size() > 60_000
            ):
                break
        wire.leave()
        for _ in range(1000):
            await asyncio.sleep(0.002)
            if parts.closed:
                break
        assert parts.closed == 1
        assert not server._connections

    asyncio.run(story())


def test_over_http2_a_client_may_wait_for_leave_to_send_its_body():
    def echo(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, body=request.body)

    async def story() -> None:
        import hpack

        wire = Wire(server_at(echo, Path("/tmp")))
        wire.send(HELLO + headers(1, ("expect", "100-continue"), end=False))
        await settle()
        decoder = hpack.Decoder()
        (interim,) = [f for f in frames_of(wire.took) if f.kind == HEADERS]
        assert decoder.decode(interim.payload) == [(":status", "100")]
        wire.send(frame(DATA, b"body", flags=END_STREAM, stream=1))
        await settle()
        assert body_of(wire.took) == (b"body", True)

    asyncio.run(story())


def test_a_handler_that_fails_is_answered_and_logged(caplog: pytest.LogCaptureFixture):
    def broken(_: HttpRequest) -> HttpResponse:
        raise RuntimeError("broken")

    wire = run(broken, GET % b"" + GET % b"")
    assert wire.took.count(b"HTTP/1.1 500") == 2
    assert not wire.closed
    wire = run(broken, HELLO + headers(1) + headers(3))
    assert body_of(wire.took, 3) == (b"internal failure\n", True)
    assert caplog.text.count("RuntimeError: broken") == 4
