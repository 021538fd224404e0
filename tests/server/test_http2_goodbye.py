"""A client's GOAWAY ends nothing that is under way, wherever it stands among what else comes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.frames import (
    ACK,
    GOAWAY,
    GOODBYE,
    HEADERS,
    HELLO,
    NO_ERROR,
    PING,
    PROTOCOL_ERROR,
    SETTINGS,
    WINDOW_UPDATE,
    body_of,
    frame,
    frames_of,
    goaway_of,
    headers,
    number,
)
from tests.support.wire import Wire, server_at, settle

# What Node.js 20 and AWS's SDK for JavaScript 3.1143.0 sent in a SubscribeToShard of 2,000 records: its requests, its
# GOAWAY once the answer began, window updates as it read, and its GOAWAY at the end. Recorded from a real run.
NODE = (Path(__file__).parent / "recorded" / "node_subscription.bin").read_bytes()
SIZE_BYTES = 120_000  # more than the window that Node begins with, less than it opens


async def pushed(size_bytes: int = SIZE_BYTES) -> AsyncGenerator[bytes, None]:
    """A subscription's bytes, a piece at a time."""
    for at in range(0, size_bytes, 30_000):
        await asyncio.sleep(0)
        yield bytes([at // 30_000]) * min(30_000, size_bytes - at)


BODY = b"".join(bytes([part]) * 30_000 for part in range(SIZE_BYTES // 30_000))


def handle(request: HttpRequest) -> HttpResponse:
    if request.headers.get("x-amz-target") == "Kinesis_20131202.SubscribeToShard":
        assert request.body.startswith(b'{"ConsumerARN":')
    return HttpResponse(200, body=pushed())


async def talk(*pieces: bytes) -> tuple[bytes, bool]:
    """Return (the bytes that came, whether the connection was closed) when `pieces` are read one by one."""
    wire = Wire(server_at(handle, Path("/tmp")))
    for piece in pieces:
        wire.send(piece)
        await settle(3)
    for _ in range(10):
        await settle(6)
        if wire.closed:
            break
    return wire.took, wire.closed


def answer_to(*pieces: bytes) -> tuple[bytes, bool]:
    """See `talk`."""
    return asyncio.run(talk(*pieces))


async def assert_whole(*pieces: bytes) -> None:
    came, closed = await talk(*pieces)
    assert body_of(came) == (BODY, True)
    assert goaway_of(came) is None
    assert closed, "the last answer was given, and the client had said goodbye"


def test_what_node_sends_in_every_split_of_two_reads():
    async def every_split() -> None:
        for cut in range(1, len(NODE)):
            await assert_whole(NODE[:cut], NODE[cut:])

    asyncio.run(every_split())


def test_what_node_sends_in_one_read_and_byte_by_byte():
    asyncio.run(assert_whole(NODE))
    asyncio.run(assert_whole(*(NODE[at : at + 1] for at in range(len(NODE)))))


@settings(max_examples=50)
@given(st.lists(st.integers(1, len(NODE) - 1), max_size=12))
def test_what_node_sends_in_any_reads(cuts: list[int]):
    edges = [0, *sorted(set(cuts)), len(NODE)]
    asyncio.run(assert_whole(*(NODE[a:b] for a, b in itertools.pairwise(edges))))


@pytest.mark.parametrize(
    "after",
    [
        frame(WINDOW_UPDATE, number(70_000), stream=1) + frame(WINDOW_UPDATE, number(70_000)),
        frame(SETTINGS, flags=ACK),
        frame(SETTINGS, b"\0\4" + number(200_000)),
        frame(PING, b"12345678"),
        GOODBYE,
        headers(3),
        frame(GOAWAY, bytes(8) + b"bye"),
    ],
)
def test_frames_that_follow_in_the_same_read(after: bytes):
    windows = frame(WINDOW_UPDATE, number(200_000), stream=1) + frame(
        WINDOW_UPDATE, number(900_000)
    )
    came, closed = answer_to(HELLO + headers(1) + GOODBYE + after + windows)
    assert body_of(came) == (BODY, True)
    assert goaway_of(came) is None
    if after == frame(PING, b"12345678"):
        assert (PING, ACK, 0, b"12345678") in frames_of(came)
    if after == headers(3):
        assert body_of(came, 3)[0] == BODY[:65_535], "its window is not opened"
    assert closed is (after != headers(3))


def test_a_request_whose_body_is_on_its_way_is_taken():
    windows = frame(WINDOW_UPDATE, number(200_000), stream=1) + frame(
        WINDOW_UPDATE, number(900_000)
    )
    came, closed = answer_to(
        HELLO + headers(1, end=False) + GOODBYE, frame(0, b"{}", flags=1, stream=1) + windows
    )
    assert body_of(came) == (BODY, True)
    assert closed


def test_a_goodbye_with_nothing_under_way_closes():
    came, closed = answer_to(HELLO + GOODBYE)
    assert goaway_of(came) is None
    assert closed


def test_a_goaway_with_an_error_ends_it_all():
    with_error = frame(GOAWAY, number(0) + number(PROTOCOL_ERROR))

    async def talk() -> Wire:
        wire = Wire(server_at(handle, Path("/tmp")))
        wire.send(HELLO + headers(1))
        await settle()
        wire.send(with_error)
        await settle()
        return wire

    wire = asyncio.run(talk())
    assert wire.sent_eof
    assert body_of(wire.took) == (BODY[:65_535], False)


@pytest.mark.parametrize(
    "bad",
    [
        frame(GOAWAY, bytes(7)),
        frame(GOAWAY, bytes(8), stream=1),
        frame(HEADERS, b"\x82", stream=1) + GOODBYE,  # inside a header block
    ],
)
def test_a_goaway_that_is_none_is_an_error(bad: bytes):
    came, _ = answer_to(HELLO + bad)
    assert goaway_of(came) not in (None, NO_ERROR)
