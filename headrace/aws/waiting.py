"""Answers that wait: for an fsync, mostly."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from headrace.aws.http import HttpResponse

log = logging.getLogger(__name__)


def when_done(
    waits: Sequence[Future[None]], answer: HttpResponse, failure: Callable[[], HttpResponse]
) -> Future[HttpResponse]:
    """Return a Future of `answer` that is done when every one of `waits` is; of `failure()` when one failed.

    It becomes done on the thread that finishes the last wait.
    """
    done: Future[HttpResponse] = Future()
    if len(waits) == 1:
        waits[0].add_done_callback(lambda wait: done.set_result(_judged([wait], answer, failure)))
        return done
    lock, left = threading.Lock(), len(waits)

    def one_done(_: Future[None]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            done.set_result(_judged(waits, answer, failure))

    for wait in waits:
        wait.add_done_callback(one_done)
    return done


def _judged(
    waits: Sequence[Future[None]], answer: HttpResponse, failure: Callable[[], HttpResponse]
) -> HttpResponse:
    for wait in waits:
        error = wait.exception()
        if error is not None:
            log.error("an answer's wait failed", exc_info=error)
            return failure()
    return answer
