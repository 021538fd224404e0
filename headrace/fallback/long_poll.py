"""Runs long polls of SQS and of activities outside moto, which would sleep while it holds the request lock."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.http import HttpResponse
from headrace.core.clock import Clock
from headrace.fallback.current_cloud import CURRENT
from headrace.fallback.services.sqs import ASKED

LONG_POLLS = frozenset({("sqs", "ReceiveMessage"), ("stepfunctions", "GetActivityTask")})


def wait_for_messages(receive: Callable[[], HttpResponse], clock: Clock) -> HttpResponse:
    """Receive repeatedly until there is a message or the client's wait time is over.

    moto parsed the wait time, from the request or the queue, so the protocol does not matter.
    """
    deadline_s: float | None = None
    with CURRENT.listening() as arrived:
        while True:
            ASKED.wait_s, ASKED.found, ASKED.again_ms = 0.0, True, None
            # Before the receive, so that a message that is sent after it ends the wait.
            arrived.clear()
            response = receive()
            if deadline_s is None:
                deadline_s = clock.monotonic_s() + ASKED.wait_s
            left_s = deadline_s - clock.monotonic_s()
            if response.status >= 400 or ASKED.found or left_s <= 0:
                return response
            if ASKED.again_ms is not None:
                # Other messages become visible without an event, by time.
                left_s = min(left_s, max(0.001, (ASKED.again_ms - clock.now_ms()) / 1000))
            clock.wait(arrived, left_s)
