"""What all clients together may hold: bodies and answers in memory, connections, requests, threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.request_body import (
    KIB,
    MIB,
    SMALL_PIECE_BYTES,
    Bodies,
    BodyTooLarge,
    Bounds,
    RequestBody,
)
from tests.support.frames import DATA, END_STREAM, HELLO, body_of, frame, headers, number
from tests.support.wire import Wire, server_at, settle

SMALL = Bounds(
    arriving_bytes=100 * KIB, held_bytes=100 * KIB, unsent_bytes=2 * MIB, small_body_bytes=1000
)


def put(size_bytes: int, *more: str, path: str = "/b/k") -> bytes:
    lines = [f"PUT {path} HTTP/1.1", "Host: t", f"Content-Length: {size_bytes}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def echo(request: HttpRequest) -> HttpResponse:
    assert request.body_file is None
    return HttpResponse(200, body=request.body)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something that needs threads."""
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"{what} did not come")


# --- bodies -----------------------------------------------------------------------------------


def test_bodies_that_find_no_room_go_to_files_and_come_back(tmp_path: Path):
    """Ten bodies of 40 KiB arrive side by side where there is room for two; each is handled as if it were alone."""

    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=SMALL)
        wires = [Wire(server) for _ in range(10)]
        bodies = [bytes([n]) * 40_000 for n in range(10)]
        for wire, body in zip(wires, bodies, strict=True):
            wire.send(put(len(body)) + body[:30_000])
        await settle()
        assert server.bodies.arriving.held_bytes <= SMALL.arriving_bytes
        assert len(list(tmp_path.iterdir())) == 7
        for wire, body in zip(wires, bodies, strict=True):
            wire.send(body[30_000:])
        for wire, body in zip(wires, bodies, strict=True):
            await until(lambda wire=wire, body=body: wire.took.endswith(body), "an answer")
            assert wire.took.startswith(b"HTTP/1.1 200")
        assert (server.bodies.arriving.held_bytes, server.bodies.held.held_bytes) == (0, 0)
        assert list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_who_sends_slowly_takes_no_room_from_requests(tmp_path: Path):
    """Bodies that never end fill the room of those that arrive, and others are handled all the same."""

    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=SMALL)
        for _ in range(20):
            Wire(server).send(put(1_000_000) + b"x" * 50_000)
        quick = Wire(server)
        quick.send(put(90_000) + b"y" * 90_000)
        await until(lambda: quick.took.endswith(b"y" * 90_000), "the answer")
        assert server.bodies.arriving.held_bytes <= SMALL.arriving_bytes

    asyncio.run(story())


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ((), b"503", b"<Code>SlowDown</Code><Message>Please reduce your request rate.</Message>"),
        (("X-Amz-Target: Kinesis_20131202.PutRecord",), b"503", b'"__type":"ServiceUnavailable"'),
        (
            ("Content-Type: application/x-amz-cbor-1.1", "X-Amz-Target: A.B"),
            b"503",
            b"ServiceUnava",
        ),
        (
            ("Content-Type: application/x-www-form-urlencoded",),
            b"503",
            b"<Type>Receiver</Type><Code>ServiceUnavailable</Code>",
        ),
        (
            ("Authorization: AWS4-HMAC-SHA256 Credential=a/b/c/lambda/aws4_request, Signature=x",),
            b"503",
            b'"__type":"ServiceUnavailable"',
        ),
    ],
)
def test_who_finds_no_room_for_too_long_is_told_so(
    tmp_path: Path, more: tuple[str, ...], status: bytes, code: bytes
):
    answers: list[Future[HttpResponse]] = []

    def handle(request: HttpRequest) -> Future[HttpResponse]:
        answers.append(Future())
        return answers[-1]

    async def story() -> None:
        server = server_at(handle, tmp_path, bounds=SMALL)
        holders = [Wire(server) for _ in range(2)]
        for wire in holders:
            wire.send(put(50_000) + b"x" * 50_000)
        await until(lambda: len(answers) == 2, "both requests")
        waits = Wire(server)
        waits.send(put(50_000, *more) + b"x" * 50_000)
        await settle()
        small = Wire(server)
        small.send(put(900) + b"x" * 900)
        await until(lambda: len(answers) == 3, "the small request, that does not wait")
        server.look(SMALL.body_room_s - 1)
        await settle()
        assert waits.took == b""
        server.look(2)
        await settle()
        assert waits.took.startswith(b"HTTP/1.1 " + status)
        assert code in waits.took
        # It was only too early: the connection is good, and there is room again.
        for answer in answers:
            answer.set_result(HttpResponse(200))
        await settle()
        waits.send(put(50_000) + b"x" * 50_000)
        await until(lambda: len(answers) == 4, "the same again")
        answers[-1].set_result(HttpResponse(200, body=b"at last"))
        await until(lambda: b"at last" in waits.took, "its answer")
        assert list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_who_waits_for_room_comes_in_turn(tmp_path: Path):
    order: list[int] = []
    answers: list[Future[HttpResponse]] = []

    def handle(request: HttpRequest) -> Future[HttpResponse]:
        order.append(request.body[0])
        answers.append(Future())
        return answers[-1]

    async def story() -> None:
        server = server_at(handle, tmp_path, bounds=SMALL)
        for n in range(6):
            Wire(server).send(put(60_000) + bytes([n]) * 60_000)
            await settle()
        for n in range(6):
            await until(lambda n=n: len(answers) == n + 1, "the next request")
            answers[n].set_result(HttpResponse(200))
        assert order == list(range(6))

    asyncio.run(story())


def test_a_client_that_leaves_gives_its_room_back(tmp_path: Path):
    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=SMALL)
        for protocol in (1, 2):
            for _ in range(20):
                wire = Wire(server)
                if protocol == 1:
                    wire.send(put(1_000_000) + b"x" * 50_000)
                else:
                    data = frame(DATA, b"x" * 16_000, stream=1) * 3
                    wire.send(HELLO + headers(1, end=False) + data)
                await settle(3)
                wire.leave()
                await settle(3)
        assert server.bodies.arriving.held_bytes == 0
        assert list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_over_http2_bodies_have_the_same_bound(tmp_path: Path):
    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=SMALL)
        wire = Wire(server)
        wire.send(HELLO + frame(8, number(2**30)))
        for stream in range(1, 41, 2):
            wire.send(headers(stream, end=False) + frame(DATA, b"x" * 16_000, stream=stream) * 2)
        await settle()
        assert 0 < server.bodies.arriving.held_bytes <= SMALL.arriving_bytes
        for stream in range(1, 41, 2):
            wire.send(frame(DATA, b"y", flags=END_STREAM, stream=stream))
        await until(lambda: len(wire.took) > 20 * 32_000, "the answers")
        await settle()
        for stream in range(1, 41, 2):
            assert body_of(wire.took, stream) == (b"x" * 32_000 + b"y", True)
        assert list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_a_body_in_pieces_of_a_byte_weighs_what_its_bytes_do(tmp_path: Path):
    """As Python objects its pieces would weigh forty times as much."""
    import tracemalloc

    bodies = Bodies(tmp_path, Bounds())
    pieces = [bytes([n % 256]) for n in range(50_000)]
    tracemalloc.start()
    body = RequestBody(bodies)
    for piece in pieces:
        body.add(piece)
    grown_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown_bytes < 2 * len(pieces)
    body.finish()
    assert body.data == b"".join(pieces)
    body.release()
    assert (bodies.arriving.held_bytes, bodies.held.held_bytes) == (0, 0)


@pytest.mark.parametrize("sizes", [(1, 5000, 1, 1, 5000), (5000, 1), (SMALL_PIECE_BYTES,) * 3])
def test_pieces_are_joined_in_their_order(tmp_path: Path, sizes: tuple[int, ...]):
    body = RequestBody(Bodies(tmp_path, Bounds()))
    pieces = [bytes([n]) * size for n, size in enumerate(sizes)]
    for piece in pieces:
        body.add(piece)
    body.finish()
    assert body.data == b"".join(pieces)


def test_a_body_over_five_gigabytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("headrace.aws.server.request_body.MAX_BODY_BYTES", 100_000)
    body = RequestBody(Bodies(tmp_path, Bounds()))
    body.add(b"x" * 100_000)
    with pytest.raises(BodyTooLarge):
        body.add(b"x")

    async def story() -> None:
        server = server_at(echo, tmp_path)
        wire = Wire(server)
        wire.send(b"PUT /b/k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send(b"186a1\r\n" + b"x" * 100_001)
        await settle()
        assert wire.took.startswith(b"HTTP/1.1 400")
        assert b"EntityTooLarge" in wire.took
        assert wire.sent_eof
        wire = Wire(server)
        wire.send(HELLO + headers(1, end=False))
        for _ in range(7):
            wire.send(frame(DATA, b"x" * 16_000, stream=1))
        await settle()
        assert b"EntityTooLarge" in body_of(wire.took)[0]
        assert server.bodies.arriving.held_bytes == 0

    asyncio.run(story())


def test_a_disk_without_room_for_a_body(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An error, no traceback, and the next request is served."""

    async def story() -> None:
        server = server_at(echo, tmp_path, bounds=SMALL)

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("tempfile.NamedTemporaryFile", full)
            wire = Wire(server)
            wire.send(put(200_000) + b"x" * 200_000)
            await settle()
            assert wire.took.startswith(b"HTTP/1.1 500")
            assert b"<Code>InternalError</Code>" in wire.took
            wire = Wire(server)
            data = b"".join(frame(DATA, b"x" * 16_000, stream=1) for _ in range(10))
            wire.send(HELLO + headers(1, end=False) + data)
            await settle()
            assert b"<Code>InternalError</Code>" in body_of(wire.took)[0]
        wire.send(headers(3))
        await settle()
        assert body_of(wire.took, 3) == (b"", True)
        assert (server.bodies.arriving.held_bytes, server.bodies.held.held_bytes) == (0, 0)

    asyncio.run(story())


# --- answers ----------------------------------------------------------------------------------


def test_a_client_that_reads_nothing_gets_no_second_answer(tmp_path: Path):
    """However many requests it sends behind one another, each for ten megabytes."""
    asked: list[int] = []

    def handle(request: HttpRequest) -> HttpResponse:
        asked.append(1)
        return HttpResponse(200, body=b"x" * 1_000_000)

    async def story() -> None:
        server = server_at(handle, tmp_path)
        wire = Wire(server, reads=False)
        request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"
        for _ in range(100):
            wire.send(request * 100)
            await settle(3)
        assert len(asked) == 1
        assert len(wire.protocol._held) <= 256 * KIB  # type: ignore[attr-defined]
        assert not wire.is_reading()
        for count in range(2, 12):
            wire.read()
            await settle(10)
            assert len(asked) == count

    asyncio.run(story())


async def pieces() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"x" * 500_000


def test_when_too_much_is_unread_who_has_most_of_it_is_cut_off(tmp_path: Path):
    """And one who reads, however slowly, is not the one."""

    def handle(request: HttpRequest) -> HttpResponse:
        size = int(request.path[1:])
        return HttpResponse(200, body=b"x" * size)

    async def story() -> None:
        server = server_at(handle, tmp_path, bounds=SMALL)
        slow = Wire(server, reads=False)
        slow.send(b"GET /300000 HTTP/1.1\r\nHost: t\r\n\r\n")
        await settle()
        greedy = [Wire(server, reads=False) for _ in range(20)]
        for wire in greedy:
            wire.send(b"GET /500000 HTTP/1.1\r\nHost: t\r\n\r\n")
            await settle(3)
            held = sum(each.get_write_buffer_size() for each in [slow, *greedy])
            assert held <= SMALL.unsent_bytes + 600_000
        assert sum(wire.aborted for wire in greedy) >= 16
        slow.read()
        await settle()
        assert slow.took.endswith(b"x" * 300_000)

    asyncio.run(story())


def test_over_http2_answers_without_windows_have_the_same_bound(tmp_path: Path):
    async def story() -> None:
        server = server_at(lambda _: HttpResponse(200, body=b"x" * 500_000), tmp_path, bounds=SMALL)
        honest = Wire(server)
        honest.send(HELLO + headers(1))
        await settle()
        greedy = Wire(server)
        greedy.send(HELLO)
        for stream in range(1, 41, 2):
            if not greedy.aborted:
                greedy.send(headers(stream))
                await settle(3)
        assert greedy.aborted
        honest.send(frame(8, number(1_000_000)) + frame(8, number(1_000_000), stream=1))
        await settle()
        assert body_of(honest.took) == (b"x" * 500_000, True)

    asyncio.run(story())


# --- the server lives -------------------------------------------------------------------------


def test_a_spooled_body_is_not_taken_from_the_request_that_runs(tmp_path: Path):
    """A client that leaves while its large body is handled must not pull the file away."""
    go, found = threading.Event(), []

    def handle(request: HttpRequest) -> HttpResponse:
        assert go.wait(10)
        assert request.body_file is not None
        found.append(request.body_file.stat().st_size)
        return HttpResponse(200)

    async def story() -> None:
        for protocol in (1, 2):
            go.clear()
            server = server_at(handle, tmp_path, inline=False)
            wire, size = Wire(server), 17 * MIB
            if protocol == 1:
                wire.send(put(size) + bytes(size))
            else:
                data = frame(DATA, bytes(16_384), stream=1)
                wire.send(HELLO + headers(1, end=False) + data * (size // 16_384 - 1))
                await settle(2000)
                wire.send(frame(DATA, bytes(16_384), flags=END_STREAM, stream=1))
            await until(lambda server=server: server._answering, "the request")
            await asyncio.sleep(0.01)
            wire.leave()
            await settle()
            go.set()
            await until(lambda protocol=protocol: len(found) == protocol, "the handler")
            await until(lambda: not list(tmp_path.iterdir()), "the clean-up")
        assert found == [17 * MIB] * 2

    asyncio.run(story())
