"""Turns answer bodies that are not plain bytes (files, iterators) into asynchronous generators of parts.

The consumer of the parts always closes the generator, which closes the file or the stream behind it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, cast

from headrace.aws.calls.http import Answer, FileSlice, Handler, HttpRequest, HttpResponse
from headrace.aws.server.thread_pool import Job

log = logging.getLogger(__name__)

FILE_READ_BYTES = 256 * 1024
READ_WHOLE_BELOW_BYTES = 1024 * 1024

Submit = Callable[..., Job]


def answer_in_memory(handler: Handler, request: HttpRequest) -> Answer:
    """Answer a request on a thread that may block, and read a short file body there. Raises OSError."""
    answer = handler(request)
    if isinstance(answer, HttpResponse):
        body = answer.body
        if isinstance(body, FileSlice) and body.length_bytes < READ_WHOLE_BELOW_BYTES:
            with body.file or body.path.open("rb") as file:
                answer.body = os.pread(file.fileno(), body.length_bytes, body.offset_bytes)
    return answer


async def file_parts(part: FileSlice) -> AsyncGenerator[bytes, None]:
    """Yield a slice of a file, piece by piece. Raises OSError, also when the file has become shorter."""
    loop = asyncio.get_running_loop()
    with part.file or part.path.open("rb") as file:
        at, end = part.offset_bytes, part.offset_bytes + part.length_bytes
        while at < end:
            size_bytes = min(FILE_READ_BYTES, end - at)
            piece = await loop.run_in_executor(None, os.pread, file.fileno(), size_bytes, at)
            if not piece:
                raise OSError(f"{part.path} ends {end - at} bytes too soon")
            at += len(piece)
            yield piece


async def iterator_parts(body: Iterator[bytes], submit: Submit) -> AsyncGenerator[bytes, None]:
    """Yield the parts of an iterator, which runs on the threads of `submit`."""
    pending: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            pending = submit(next, body, None).done
            # Shielded, so that the end of the thread's call is known: a running generator cannot be closed.
            piece = await asyncio.shield(pending)
            if piece is None:
                return
            yield piece
    finally:
        if pending is None or pending.done():
            _close(body)
        else:
            pending.add_done_callback(lambda last: _close_after(last, body))


def _close_after(last: asyncio.Future[bytes | None], body: Iterator[bytes]) -> None:
    if not last.cancelled() and last.exception() is not None:
        log.info("an answer's body failed after its client had gone: %s", last.exception())
    _close(body)


def _close(body: Iterator[bytes]) -> None:
    close = getattr(cast("Any", body), "close", None)
    if close is not None:
        close()


def length_of(answer: HttpResponse) -> int | None:
    """Return the body's length in bytes, when it is known."""
    body = answer.body
    if isinstance(body, FileSlice):
        return body.length_bytes
    return len(body) if isinstance(body, bytes) else None
