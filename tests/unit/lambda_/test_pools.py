"""A pool's idle sandbox is for those who wait, before it is for the event loop, which does not; a family's memory."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.core.clock import SystemClock
from headrace.services.lambda_.invocations.sandbox_pool import SandboxPool
from headrace.services.lambda_.runtime.process import FamilyMemory
from tests.support.server import wait_until


class Idle:
    """A sandbox that can be used."""

    is_killed = False
    usable = True


def test_the_loop_takes_no_sandbox_for_which_a_thread_waits() -> None:
    made: Any = Idle()
    pool = SandboxPool(lambda: made, most=lambda: 1, clock=SystemClock())
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


PARENT = """
import subprocess, sys
children = []
for line in sys.stdin:
    if line == "more\\n":
        children += [subprocess.Popen(["sleep", "600"]) for _ in range(12)]
    else:
        for child in children:
            child.kill()
            child.wait()
        children = []
    print(flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_the_memory_of_a_family_follows_its_members_and_keeps_few_files() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None

    def tell(word: str) -> None:
        print(word, file=parent.stdin, flush=True)
        assert parent.stdout is not None
        parent.stdout.readline()

    whole = FamilyMemory(parent.pid, counts_itself=True)
    others = FamilyMemory(parent.pid, counts_itself=False)
    files = count_open_files()
    tell("none")
    alone = whole.count_bytes()
    assert alone > 1_000_000
    assert others.count_bytes() == 0
    tell("more")
    with_children = others.count_bytes()
    assert with_children > 0
    assert whole.count_bytes() >= with_children + alone // 2
    assert count_open_files() <= files + 2 * 2 * 8
    tell("none")
    assert others.count_bytes() == 0
    tell("more")
    assert others.count_bytes() > 0
    parent.kill()
    parent.wait()
    assert whole.count_bytes() == others.count_bytes() == 0
    whole.close()
    others.close()
    assert count_open_files() == files
    for pipe in (parent.stdin, parent.stdout):
        pipe.close()


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
