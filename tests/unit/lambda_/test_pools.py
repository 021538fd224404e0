"""A pool's idle sandbox is for those who wait, before it is for the event loop, which does not."""

from __future__ import annotations

import threading
from typing import Any

from headrace.core.clock import SystemClock
from headrace.services.lambda_.invocations.sandbox_pool import SandboxPool
from tests.support.server import wait_until


class Idle:
    """A sandbox that can be used."""

    is_killed = False
    usable = True


def test_the_loop_takes_no_sandbox_for_which_a_thread_waits() -> None:
    made: Any = Idle()
    pool = SandboxPool(lambda: made, most=1, clock=SystemClock())
    assert pool.take_idle() is None
    pool.acquire()
    taken: list[Any] = []
    waiting = threading.Thread(target=lambda: taken.append(pool.acquire()))
    waiting.start()
    wait_until(lambda: pool._waiting == 1, what="the thread's wait")
    with pool._changed:
        pool._idle.append(made)
        assert pool.take_idle() is None
        pool._idle.clear()
    pool.release(made)
    waiting.join()
    assert taken == [made]
    pool.release(made)
    assert pool.take_idle() is made
