"""Frames that make work and carry nothing: their senders are told to calm down, and cut off.

Source of the attacks: CVE-2023-44487 (rapid reset), CVE-2024-27316 and others (CONTINUATION), CVE-2019-9511 to 9518
(window updates, pings, resets, settings, empty frames, priorities), CVE-2025-8671 (made to reset), RFC 7541, 7.2.3 and
CVE-2016-6581 (HPACK bombs). Documented.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import hpack
import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.http2_frames import Allowance
from headrace.aws.server.request_body import Bounds
from tests.support.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    HEADERS,
    HELLO,
    PADDED,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    body_of,
    encoded,
    frame,
    frames_of,
    goaway_of,
    headers,
    number,
)
from tests.support.wire import Wire, server_at, settle

FRAME_SIZE_ERROR, FLOW_CONTROL_ERROR, COMPRESSION_ERROR = 6, 3, 9
OPEN = headers(1, end=False)
USUAL = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "t")]
BLOCK = encoded(USUAL)
PRIORITY_OF_7 = number(0) + b"\x10"


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, body=request.body)


async def flood(wire: Wire, data: Callable[[int], bytes], count: int, *, each: int = 100) -> int:
    """Send `data(n)` for each n below `count`, until the server has enough; return how many were sent."""
    for begin in range(0, count, each):
        wire.send(b"".join(data(n) for n in range(begin, begin + each)))
        await settle(20)
        if wire.sent_eof or wire.closed:
            return begin + each
    return count


FLOODS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "rapid reset": (
        b"",
        lambda n: headers(2 * n + 1) + frame(RST_STREAM, number(8), stream=2 * n + 1),
    ),
    "reset of what never was asked whole": (
        b"",
        lambda n: headers(2 * n + 1, end=False) + frame(RST_STREAM, number(8), stream=2 * n + 1),
    ),
    "pings": (b"", lambda _: frame(PING, bytes(8))),
    "settings": (b"", lambda _: frame(SETTINGS)),
    "settings that change every window": (b"", lambda n: frame(SETTINGS, b"\0\4" + number(n))),
    "acknowledgements of nothing": (b"", lambda _: frame(SETTINGS, flags=ACK)),
    "answers to no ping": (b"", lambda _: frame(PING, bytes(8), flags=ACK)),
    "priorities": (b"", lambda _: frame(PRIORITY, PRIORITY_OF_7, stream=7)),
    "windows of the connection": (b"", lambda _: frame(WINDOW_UPDATE, number(1))),
    "windows of a stream": (OPEN, lambda _: frame(WINDOW_UPDATE, number(1), stream=1)),
    "empty data": (OPEN, lambda _: frame(DATA, stream=1)),
    "data that is padding": (
        OPEN,
        lambda _: frame(DATA, b"\x05" + bytes(5), flags=PADDED, stream=1),
    ),
    "data for a stream that is over": (
        OPEN + frame(RST_STREAM, number(8), stream=1),
        lambda _: frame(DATA, b"x", stream=1),
    ),
    "goodbyes": (OPEN, lambda _: frame(7, bytes(8))),
    "frames of no kind": (b"", lambda n: frame(100 + n % 100, b"x")),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_cut_off_and_nobody_else_is(name: str, caplog: pytest.LogCaptureFixture):
    before, data = FLOODS[name]
    caplog.set_level(logging.INFO)

    async def story() -> None:
        server = server_at(echo, Path("/tmp"))
        good = Wire(server)
        good.send(HELLO + headers(1, end=False))
        bad = Wire(server)
        bad.send(HELLO + before)
        sent = await flood(bad, data, 20_000)
        assert sent <= 4200, "it was let go on"
        assert goaway_of(bad.took) == ENHANCE_YOUR_CALM
        assert bad.sent_eof
        good.send(frame(DATA, b"good", flags=1, stream=1))
        await settle()
        assert body_of(good.took) == (b"good", True)
        assert server.bodies.arriving.held_bytes == 0

    asyncio.run(story())
    (record,) = caplog.records
    assert record.getMessage().startswith("an HTTP/2 client is cut off: too many ")
    assert record.exc_info is None


def test_who_comes_back_again_and_again_does_not_fill_the_log(caplog: pytest.LogCaptureFixture):
    async def story() -> None:
        server = server_at(echo, Path("/tmp"))
        for _ in range(100):
            bad = Wire(server)
            bad.send(HELLO)
            assert await flood(bad, lambda _: frame(PING, bytes(8)), 1000) < 1000
            server.look(1.0)

    asyncio.run(story())
    assert 2 <= len(caplog.records) <= 5


def test_the_same_frames_at_a_decent_pace_are_taken():
    """Java's SDK pings every five seconds; browsers prioritise; a test aborts a request now and then."""

    async def story() -> None:
        server = server_at(echo, Path("/tmp"))
        wire = Wire(server)
        wire.send(HELLO)
        for n in range(1100):
            stream = 2 * n + 1
            wire.send(headers(stream) + frame(PING, bytes(8)) + frame(SETTINGS))
            wire.send(frame(PRIORITY, PRIORITY_OF_7, stream=7) + frame(WINDOW_UPDATE, number(1)))
            server.look(1.0)
            await settle(2)
        assert goaway_of(wire.took) is None
        assert body_of(wire.took, 2199) == (b"", True)

    asyncio.run(story())


def test_a_reader_of_much_opens_its_windows_often():
    """Go's client does so for every 4 KiB that it reads, of the stream and of the connection."""
    size = 30_000_000

    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200, body=b"x" * size), Path("/tmp"))
        wire = Wire(server)
        wire.send(HELLO + headers(1))
        read = 0
        updates = 0
        while read < size:
            await settle(3)
            came = len(wire.took)
            assert came > 0
            wire.took = b""
            for _ in range(came // 4096 + 1):
                wire.send(frame(WINDOW_UPDATE, number(4096), stream=1))
                wire.send(frame(WINDOW_UPDATE, number(4096)))
                updates += 2
            read += came
            assert not wire.sent_eof
        assert updates > 10_000

    asyncio.run(story())


def test_resets_do_not_free_places_for_more_requests():
    """A request whose stream was reset runs on: so many at a time, however fast a client resets (CVE-2023-44487)."""
    from concurrent.futures import Future

    running: list[Future[HttpResponse]] = []

    def handle(request: HttpRequest) -> Future[HttpResponse]:
        running.append(Future())
        return running[-1]

    async def story() -> None:
        server = server_at(handle, Path("/tmp"), bounds=Bounds(streams=20))
        wire = Wire(server)
        wire.send(HELLO)
        reset = await flood(
            wire,
            lambda n: headers(2 * n + 1) + frame(RST_STREAM, number(8), stream=2 * n + 1),
            200,
            each=10,
        )
        assert reset == 200
        assert len(running) == 20
        refused = [f for f in frames_of(wire.took) if f.kind == RST_STREAM]
        assert {f.payload for f in refused} == {number(REFUSED_STREAM)}
        assert len(refused) == 180
        for future in running:
            future.set_result(HttpResponse(200))
        await settle()
        wire.send(headers(1001))
        await settle()
        assert len(running) == 21

    asyncio.run(story())


def answer_to(*pieces: bytes, bounds: Bounds | None = None) -> Wire:
    async def story() -> Wire:
        wire = Wire(server_at(echo, Path("/tmp"), bounds=bounds))
        for piece in pieces:
            wire.send(piece)
            await settle(40)
        return wire

    return asyncio.run(story())


# --- header blocks ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16_000])
def test_continuations_without_end(size: int):
    """Of any size: so many bytes, and so many frames, then no more. h2 by itself takes 64 frames, of a megabyte."""
    begin = frame(HEADERS, BLOCK, stream=1)
    more = frame(CONTINUATION, b"\0" * size, stream=1)
    wire = answer_to(HELLO + begin, more * 3)
    assert goaway_of(wire.took) is None
    wire = answer_to(HELLO + begin, more * 40)
    assert goaway_of(wire.took) == ENHANCE_YOUR_CALM
    assert wire.sent_eof


def test_a_header_list_within_the_bound_is_taken_in_many_frames():
    block = encoded([*USUAL, ("x", "y" * 20_000)])
    pieces = [block[at : at + 1000] for at in range(0, len(block), 1000)]
    frames = frame(HEADERS, pieces[0], flags=1, stream=1)
    frames += b"".join(frame(CONTINUATION, piece, stream=1) for piece in pieces[1:-1])
    wire = answer_to(HELLO + frames, frame(CONTINUATION, pieces[-1], flags=END_HEADERS, stream=1))
    assert goaway_of(wire.took) is None
    assert body_of(wire.took) == (b"", True)


def bomb(value_bytes: int, times: int) -> bytes:
    """Return a block of a few kilobytes at most that unpacks to `times` headers of `value_bytes`."""
    encoder = hpack.Encoder()
    block = encoder.encode([*USUAL, ("x", "y" * value_bytes)], huffman=False)
    return block + encoder.encode([("x", "y" * value_bytes)], huffman=False) * times


@pytest.mark.parametrize(("value_bytes", "times"), [(3900, 20), (3900, 10_000), (100, 60_000)])
def test_a_block_that_unpacks_to_much_more(value_bytes: int, times: int):
    block = bomb(value_bytes, times)
    pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    last = END_HEADERS if len(pieces) == 1 else 0
    frames = [frame(HEADERS, pieces[0], flags=1 | last, stream=1)]
    for at, piece in enumerate(pieces[1:], 2):
        flags = END_HEADERS if at == len(pieces) else 0
        frames.append(frame(CONTINUATION, piece, flags=flags, stream=1))
    wire = answer_to(HELLO, *frames)
    assert goaway_of(wire.took) == ENHANCE_YOUR_CALM
    assert wire.sent_eof


@pytest.mark.parametrize(
    "block",
    [
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # an index without end
        b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x7f",  # a name of exabytes
        b"\x3f\xe1\xff\xff\x7f",  # a table of gigabytes
        b"\xbf\xff",
        b"\x82" * 10 + b"\xc0",
        b"\x00\x83\xff\xff\xff\x01a",  # Huffman code that ends in nothing
    ],
)
def test_a_block_that_is_none(block: bytes):
    wire = answer_to(HELLO + frame(HEADERS, block, flags=5, stream=1))
    assert goaway_of(wire.took) in (PROTOCOL_ERROR, COMPRESSION_ERROR, ENHANCE_YOUR_CALM)
    assert wire.sent_eof


def test_the_table_for_our_headers_does_not_grow_with_what_a_client_allows():
    """Each answer has headers of its own, such as its request's id, that would be kept for ever."""

    def handle(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, [("x-amzn-RequestId", f"{request.path:0>200}")])

    async def story() -> None:
        server = server_at(handle, Path("/tmp"))
        wire = Wire(server)
        wire.send(HELLO + frame(SETTINGS, b"\0\1" + number(2**31)))
        for n in range(200):
            wire.send(headers(2 * n + 1, path=f"/{n}"))
            await settle(2)
        encoder = wire.protocol._h2.encoder  # type: ignore[attr-defined]
        assert encoder.header_table._current_size <= 4096
        decoder = hpack.Decoder()
        decoder.max_allowed_table_size = 2**31
        heads = [decoder.decode(f.payload) for f in frames_of(wire.took) if f.kind == HEADERS]
        assert heads[-1][1] == ("x-amzn-requestid", f"{'/199':0>200}")

    asyncio.run(story())


# --- sizes and windows ------------------------------------------------------------------------


def test_a_frame_that_is_too_large_is_refused_by_its_head():
    """Not after its sixteen megabytes have come."""
    wire = answer_to(HELLO + b"\xff\xff\xff" + bytes((DATA, 0)) + number(1))
    assert goaway_of(wire.took) == FRAME_SIZE_ERROR
    assert wire.sent_eof


def test_more_data_than_the_window_allows():
    piece = frame(DATA, b"x" * 16_384, stream=1)
    wire = answer_to(HELLO + OPEN, *[piece * 10] * 200)
    # Windows are opened as data comes, so a stream's is never overrun by one that is read.
    assert goaway_of(wire.took) is None
    wire = answer_to(HELLO + OPEN + frame(WINDOW_UPDATE, number(2**31 - 1), stream=1) * 2)
    resets = [f for f in frames_of(wire.took) if f.kind == RST_STREAM]
    assert [f.payload for f in resets] == [number(FLOW_CONTROL_ERROR)]
    wire = answer_to(HELLO + frame(WINDOW_UPDATE, number(2**31 - 1)) * 2)
    assert goaway_of(wire.took) == FLOW_CONTROL_ERROR
    wire = answer_to(HELLO + frame(WINDOW_UPDATE, number(0)))
    assert goaway_of(wire.took) is not None


@pytest.mark.parametrize(
    "bad",
    [
        frame(PING, bytes(7)),
        frame(PING, bytes(8), stream=1),
        frame(SETTINGS, b"x"),
        frame(SETTINGS, b"\0\2" + number(2)),
        frame(SETTINGS, b"\0\4" + number(2**31)),
        frame(SETTINGS, b"\0\5" + number(5)),
        frame(RST_STREAM, number(0)),
        frame(RST_STREAM, number(0), stream=1),
        frame(RST_STREAM, b"x", stream=1),
        frame(DATA, b"x"),
        frame(DATA, b"x", stream=1),
        frame(DATA, b"\xffx", flags=PADDED, stream=1),
        frame(HEADERS, b"\xff", flags=END_HEADERS | PADDED, stream=1),
        frame(CONTINUATION, b"", stream=1),
        frame(PUSH_PROMISE, number(2) + BLOCK, flags=END_HEADERS, stream=1),
        headers(2),
        headers(3) + headers(1),
        frame(PRIORITY, number(7) + b"\x10", stream=7),  # depends on itself
        frame(PRIORITY, b"x", stream=7),
        frame(HEADERS, number(1) + b"\x10" + BLOCK, flags=END_HEADERS | 0x20, stream=1),
        headers(1, end=False) + frame(HEADERS, BLOCK, flags=END_HEADERS, stream=1),
        headers(1, ("content-length", "5"), end=False) + frame(DATA, b"x", flags=1, stream=1),
        headers(1, ("content-length", "0"), end=False) + frame(DATA, b"x", stream=1),
    ],
)
def test_a_frame_that_breaks_the_protocol_ends_the_connection(bad: bytes):
    wire = answer_to(HELLO + bad)
    assert goaway_of(wire.took) not in (None, 0)
    assert wire.sent_eof


def test_settings_come_first():
    wire = answer_to(HELLO[:24] + frame(PING, bytes(8)))
    assert goaway_of(wire.took) == PROTOCOL_ERROR


def test_more_streams_than_were_offered():
    data = b"".join(headers(n, end=False) for n in range(1, 43, 2))
    wire = answer_to(HELLO + data, bounds=Bounds(streams=20))
    assert goaway_of(wire.took) == PROTOCOL_ERROR
    offered = [f for f in frames_of(wire.took) if f.kind == SETTINGS and not f.flags & ACK]
    assert b"\0\3" + number(20) in offered[0].payload


def test_an_allowance():
    allowance = Allowance(burst=3, per_s=0.5)
    assert [allowance.spend(0.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.spend(2.0), allowance.spend(2.0)] == [True, False]
    allowance.add(1)
    assert [allowance.spend(2.0), allowance.spend(2.0)] == [True, False]
    assert [allowance.spend(1000.0) for _ in range(4)] == [True, True, True, False]
