"""Waits for long polls of SQS and of activities outside moto, which would sleep while it holds the lock of requests."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.http import HttpResponse
from headrace.core.clock import Clock
from headrace.fallback.current import CURRENT
from headrace.fallback.services.sqs import ASKED

LONG_POLLS = frozenset({("sqs", "ReceiveMessage"), ("stepfunctions", "GetActivityTask")})


def wait_for_messages(receive: Callable[[], HttpResponse], clock: Clock) -> HttpResponse:
    """Receive, again and again until there is a message or the time that the client gives is up.

    The time is the request's, or the queue's, as moto read it: whatever the protocol.
    """
    deadline_s: float | None = None
    with CURRENT.listening() as arrived:
        while True:
            ASKED.wait_s, ASKED.found, ASKED.again_ms = 0.0, True, None
            # Before the look: a message that is sent after it ends the wait.
            arrived.clear()
            response = receive()
            if deadline_s is None:
                deadline_s = clock.monotonic_s() + ASKED.wait_s
            left_s = deadline_s - clock.monotonic_s()
            if response.status >= 400 or ASKED.found or left_s <= 0:
                return response
            if ASKED.again_ms is not None:
                # Others become ready by time alone.
                left_s = min(left_s, max(0.001, (ASKED.again_ms - clock.now_ms()) / 1000))
            clock.wait(arrived, left_s)
