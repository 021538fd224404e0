"""Delays an answer until its `HttpResponse.waits`, such as an fsync, are done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from headrace.aws.calls.http import HttpResponse

log = logging.getLogger(__name__)


def call_when_done(answer: HttpResponse, then: Callable[[], None]) -> None:
    """Call `then` when all waits of the answer are done, on the thread that finishes the last one.

    `then` must be quick: the thread that syncs for many requests delays all of them.
    """
    waits = answer.waits or []
    if len(waits) == 1:
        waits[0].add_done_callback(lambda _: then())
        return
    lock, left = threading.Lock(), len(waits)

    def one_done(_: Future[None]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            then()

    for wait in waits:
        wait.add_done_callback(one_done)


def finish_waits(answer: HttpResponse) -> HttpResponse:
    """Return the answer to send now that its waits are done: the answer, or its failure when one of them failed."""
    waits, failure = answer.waits or [], answer.failure
    error = next((error for wait in waits if (error := wait.exception()) is not None), None)
    # A Future and its waiters refer to each other. The garbage collector would have to free such cycles, and would stop
    # all requests for tens of milliseconds, several times a second.
    waits.clear()
    answer.waits = answer.failure = None
    if error is None:
        return answer
    log.error("an answer's wait failed", exc_info=error)
    return failure() if failure is not None else HttpResponse(500)


def when_done(answer: HttpResponse) -> Future[HttpResponse]:
    """Return a Future of the answer to send once its waits are done."""
    done: Future[HttpResponse] = Future()
    if answer.waits:
        call_when_done(answer, lambda: done.set_result(finish_waits(answer)))
    else:
        done.set_result(answer)
    return done
