"""Runs long polls of SQS and of activities outside moto, which would sleep while it holds the request lock."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.aws.calls.http import HttpResponse
from headrace.core.clock import Clock
from headrace.moto.current_cloud import CURRENT


class LastReceive(threading.local):
    """What the last ReceiveMessage of this thread requested and got, for the long poll.

    Attributes:
        wait_s: how long it may wait for a message.
        found: whether there was one.
        again_ms: when the next one becomes visible by time.
    """

    wait_s: float = 0.0
    found: bool = True
    again_ms: float | None = None


LAST_RECEIVE = LastReceive()


def wait_for_messages(receive: Callable[[], HttpResponse], clock: Clock) -> HttpResponse:
    """Receive repeatedly until there is a message or the client's wait time is over.

    moto parsed the wait time, from the request or the queue, so the protocol does not matter.
    """
    deadline_s: float | None = None
    with CURRENT.listening() as arrived:
        while True:
            LAST_RECEIVE.wait_s, LAST_RECEIVE.found, LAST_RECEIVE.again_ms = 0.0, True, None
            # Before the receive, so that a message that is sent after it ends the wait.
            arrived.clear()
            response = receive()
            if deadline_s is None:
                deadline_s = clock.monotonic_s() + LAST_RECEIVE.wait_s
            left_s = deadline_s - clock.monotonic_s()
            if response.status >= 400 or LAST_RECEIVE.found or left_s <= 0:
                return response
            if LAST_RECEIVE.again_ms is not None:
                # Other messages become visible without an event, by time.
                left_s = min(left_s, max(0.001, (LAST_RECEIVE.again_ms - clock.now_ms()) / 1000))
            clock.wait(arrived, left_s)
