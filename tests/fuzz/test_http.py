"""The HTTP/1.1 and HTTP/2 front ends under mutated bytes: always an answer or a close, never an exception or a rest.

Six hundred sessions of each here, 100,000 with `--nightly`; a failure names the session's seed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.aws.calls.http import DROPPED, HttpRequest, HttpResponse
from headrace.aws.server.request_body import Bounds
from tests.server.test_http2_floods import FLOODS, PRIORITY_OF_7, bomb
from tests.server.test_http2_goodbye import NODE
from tests.server.test_one_reading import HIDDEN, REFUSED, TAKEN
from tests.support.frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    HELLO,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    encoded,
    frame,
    frames_of,
    headers,
    number,
)
from tests.support.wire import Wire, server_at, settle

SESSIONS = 600
NIGHTLY_SESSIONS = 100_000
BATCH = 50
BOUNDS = Bounds(
    arriving_bytes=20_000, held_bytes=20_000, small_body_bytes=100, unsent_bytes=200_000, streams=8
)
SAMPLES_1 = [
    *REFUSED.values(),
    *(data for data, _, _ in TAKEN.values()),
    HIDDEN,
    b"POST / HTTP/1.1\r\nHost: t\r\nX-Amz-Target: A.B\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /parts HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"PUT /later HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /late HTTP/1.1\r\nHost: t\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30_000,
    b"HEAD /parts HTTP/1.1\r\nHost: t\r\n\r\n",
    b"GET /drop HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    b"GET /large HTTP/1.0\r\n\r\n",
    b"GET /evil HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n",
    b"GET /x HTTP/1.1\r\nHost: t\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(300)) + b"\r\n",
]
SIZES = [0, 1, 500, 16_384]
VALUES = [0, 1, 100, 16_384, 2**31 - 1, 2**32 - 1]
USUAL = [(":method", "POST"), (":scheme", "http"), (":authority", "t")]


def samples_2(rng: Random) -> bytes:
    """Return a frame, or a few that belong together."""
    stream = rng.choice([1, 1, 3, 5, 7, 9, 2, 0, 2**31 - 1])
    path = rng.choice(["/", "/parts", "/later", "/late", "/large", "/drop", "/evil"])
    block = encoded([*USUAL, (":path", path)])
    choices: list[Callable[[], bytes]] = [
        lambda: headers(stream, path=path),
        lambda: headers(stream, path=path, end=False) + frame(DATA, b"body", flags=1, stream=stream),
        lambda: headers(stream, ("content-length", "4"), path=path, end=False),
        lambda: frame(HEADERS, block[:5], stream=stream) + frame(CONTINUATION, block[5:], flags=4, stream=stream),
        lambda: frame(DATA, rng.randbytes(rng.choice(SIZES)), flags=rng.choice([0, 1, 8, 9]), stream=stream),
        lambda: frame(RST_STREAM, number(rng.randrange(20)), stream=stream),
        lambda: frame(SETTINGS, bytes((0, rng.randrange(8))) + number(rng.choice(VALUES))),
        lambda: frame(SETTINGS, flags=1),
        lambda: frame(PING, rng.randbytes(8), flags=rng.choice([0, 1])),
        lambda: frame(GOAWAY, number(stream) + number(rng.choice([0, 0, 1]))),
        lambda: frame(WINDOW_UPDATE, number(rng.choice([0, 1, 65_535, 2**31 - 1])), stream=rng.choice([0, stream])),
        lambda: frame(PRIORITY, PRIORITY_OF_7, stream=stream),
        lambda: frame(rng.randrange(256), rng.randbytes(rng.randrange(40)), flags=rng.randrange(256), stream=stream),
        lambda: frame(HEADERS, rng.randbytes(rng.randrange(60)), flags=rng.choice([4, 5, 0x2D]), stream=stream),
        lambda: frame(HEADERS, bomb(3000, 5), flags=5, stream=stream),
        lambda: b"".join(data(n) for data in [rng.choice(list(FLOODS.values()))[1]] for n in range(5)),
    ]  # fmt: skip
    return rng.choice(choices)()


def mutated(rng: Random, data: bytes) -> bytes:
    """Return `data` with a few bytes changed, gone, doubled or come from nowhere; sometimes as it is."""
    out = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        if not out:
            break
        at = rng.randrange(len(out))
        match rng.randrange(6):
            case 0:
                out[at] = rng.randrange(256)
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.randrange(1, 10)]
            case 3:
                out[at:at] = rng.randbytes(rng.randrange(1, 10))
            case 4:
                out[at:at] = out[at : at + rng.randrange(1, 60)]
            case _:
                out[at:at] = rng.choice([b"\r\n", b"\n", b"\0", b": ", b"0\r\n\r\n", b"\xff" * 4])
    return bytes(out)


def session_1(rng: Random) -> bytes:
    return b"".join(mutated(rng, rng.choice(SAMPLES_1)) for _ in range(rng.randrange(1, 6)))


def session_2(rng: Random) -> bytes:
    if rng.random() < 0.1:
        return mutated(rng, NODE)
    frames = b"".join(mutated(rng, samples_2(rng)) for _ in range(rng.randrange(1, 15)))
    return (HELLO if rng.random() < 0.95 else mutated(rng, HELLO)) + frames


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"part" * 100
        await asyncio.sleep(0)


class AtOnce(ThreadPoolExecutor):
    """No threads: a session is the same each time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except OSError as error:
            done.set_exception(error)
        return done


class Handler:
    """Answers in every way that there is without threads and files."""

    def __init__(self) -> None:
        self.later: list[Future[HttpResponse]] = []
        self.is_over = False

    def end(self) -> None:
        """Answer what is open, and from now on at once."""
        self.is_over = True
        for future in self.later:
            if not future.done():
                future.set_result(HttpResponse(200, body=b"later"))

    def __call__(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        match request.path:
            case "/parts":
                return HttpResponse(200, body=endless())
            case "/later" | "/late" if not self.is_over:
                self.later.append(Future())
                return self.later[-1]
            case "/large":
                return HttpResponse(200, body=b"x" * 150_000)
            case "/drop":
                return HttpResponse(DROPPED)
            case _:
                return HttpResponse(200, [("X-Path", request.path)], request.body)


def refuse(method: str, path: str, _: Any) -> HttpResponse | None:
    return HttpResponse(403, body=b"no\n") if path.startswith("/evil") else None


async def play(rng: Random, data: bytes, temp_dir: Path) -> None:
    """Send `data` in pieces, then fall silent, say the end, or leave; raise AssertionError unless all ends well."""
    handler = Handler()
    server = server_at(handler, temp_dir, refuse=refuse, bounds=BOUNDS)
    wire = Wire(server, reads=rng.random() < 0.7)
    while data:
        size = rng.choice([1, 7, 40, 1000, len(data)])
        wire.send(data[:size])
        data = data[size:]
        await settle(rng.choice([0, 1, 5]))
        if rng.random() < 0.1 and not wire.lost:
            wire.read(rng.choice([10, 10_000]))
    ending = rng.randrange(4)
    if ending == 0:
        wire.leave()
    elif ending == 1 and not wire.closed:
        wire.send_eof()
    await settle(20)
    handler.end()
    for _ in range(12):
        await settle(10)
        server.look(310.0)
        if wire.lost:
            break
    # Whoever is silent for so long is let go, unless something goes on for it.
    if not wire.lost:
        assert wire.took or wire.get_write_buffer_size(), "neither an answer nor a close"
        wire.leave()
    await settle(40)
    assert not server._connections
    assert not server._behind
    assert (server._unsent_bytes, server._answering) == (0, 0)
    assert (server.bodies.arriving.held_bytes, server.bodies.held.held_bytes) == (0, 0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others
    _check_output(wire.took)


def _check_output(took: bytes) -> None:
    if took.startswith(b"HTTP/1."):
        assert took[8:9] == b" "
        assert took[9:12].isdigit()
    elif took:
        cut = took[: len(took) - _part_of_a_frame(took)]
        assert not cut or frames_of(cut)[0].kind == SETTINGS


def _part_of_a_frame(took: bytes) -> int:
    """Return how many bytes at the end are no whole frame: the client left, or was cut off, in the middle."""
    at = 0
    while len(took) - at >= 9:
        size = 9 + int.from_bytes(took[at : at + 3])
        if len(took) - at < size:
            break
        at += size
    return len(took) - at


@pytest.mark.parametrize("version", [1, 2])
def test_mutated_bytes(
    version: int, nightly: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR)
    make = session_1 if version == 1 else session_2
    count = NIGHTLY_SESSIONS if nightly else SESSIONS

    async def batch(begin: int) -> None:
        unhandled: list[Any] = []
        asyncio.get_running_loop().set_default_executor(AtOnce())
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unhandled.append(what))
        for seed in range(begin, begin + BATCH):
            rng = Random(f"http{version}-{seed}")
            try:
                await play(rng, make(rng), tmp_path)
                assert unhandled == []
                assert caplog.records == []
            except Exception as error:
                raise AssertionError(f"session http{version}-{seed}") from error

    for begin in range(0, count, BATCH):
        asyncio.run(batch(begin))
    assert list(tmp_path.iterdir()) == []
