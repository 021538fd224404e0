"""The answers of one turn of the event loop are written together, none later, none lost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.wire import Wire, server_at, settle

REQUEST = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n"


def answer_request(request: HttpRequest) -> HttpResponse:
    """Answer with the request's body; 'L' asks for a body too large to be put off."""
    return HttpResponse(200, body=b"L" * 100_000 if request.body == b"L" else request.body)


async def connections(folder: Path, count: int = 8) -> list[Wire]:
    """Return connections of one server, each of which has had an answer."""
    server = server_at(answer_request, folder)
    wires = [Wire(server) for _ in range(count)]
    for wire in wires:
        wire.send(REQUEST + b"0")
    await settle(3)
    for wire in wires:
        wire.took = b""
    return wires


def test_answers_of_a_turn_come_when_it_ends(tmp_path: Path) -> None:
    async def talk() -> None:
        first, second, *_ = await connections(tmp_path)
        first.send(REQUEST + b"1")
        second.send(REQUEST + b"2")
        assert (first.took, second.took) == (b"", b"")
        await asyncio.sleep(0)
        assert first.took.endswith(b"\r\n\r\n1")
        assert second.took.endswith(b"\r\n\r\n2")

    asyncio.run(talk())


def test_a_connection_that_is_closed_in_the_same_turn_has_its_answer(tmp_path: Path) -> None:
    async def talk() -> None:
        first, second, *_ = await connections(tmp_path)
        first.send(REQUEST + b"1")
        second.send(REQUEST + b"2")
        second.protocol.close()  # type: ignore[attr-defined]
        assert first.took.endswith(b"\r\n\r\n1")
        assert second.took.endswith(b"\r\n\r\n2")

    asyncio.run(talk())


def test_the_answers_of_pipelined_requests_keep_their_order(tmp_path: Path) -> None:
    async def talk() -> None:
        first, *_ = await connections(tmp_path)
        first.send((REQUEST + b"1") + (REQUEST + b"2") + (REQUEST + b"3"))
        await settle(5)
        assert [piece[-1:] for piece in first.took.split(b"HTTP/1.1 200")[1:]] == [b"1", b"2", b"3"]

    asyncio.run(talk())


def test_a_large_answer_is_not_held(tmp_path: Path) -> None:
    async def talk() -> None:
        first, *_ = await connections(tmp_path)
        first.send(REQUEST + b"L")
        assert first.took.endswith(b"LLLL")

    asyncio.run(talk())


def test_few_clients_do_not_wait_for_the_turn(tmp_path: Path) -> None:
    async def talk() -> None:
        first, *_ = await connections(tmp_path, count=7)
        first.send(REQUEST + b"2")
        assert first.took.endswith(b"\r\n\r\n2")

    asyncio.run(talk())


def test_few_connections_get_what_is_done_on_the_loop_at_once_and_in_order(tmp_path: Path) -> None:
    waits: list[Future[None]] = []

    def answer_later(request: HttpRequest) -> HttpResponse:
        wait: Future[None] = Future()
        if request.body == b"0":
            waits.append(wait)
        else:
            wait.set_result(None)
        return HttpResponse(200, body=request.body, waits=[wait])

    async def talk() -> None:
        server = server_at(answer_later, tmp_path)
        server._loop, server._thread = asyncio.get_running_loop(), threading.get_ident()
        wire = Wire(server)
        # Each that follows is done as soon as it is begun: one within another, they would not fit on the stack.
        wire.send((REQUEST + b"0") + (REQUEST + b"1") * 5_000)
        await settle(3)
        assert wire.took == b""
        waits[0].set_result(None)
        assert wire.took.startswith(b"HTTP/1.1 200")
        await settle(20_000)
        bodies = [piece[-1:] for piece in wire.took.split(b"HTTP/1.1 200")[1:]]
        assert bodies == [b"0"] + [b"1"] * 5_000

    asyncio.run(talk())
