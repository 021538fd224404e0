"""Engines in child processes: bounded in time and memory, fair between callers, stopped when asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.evaluation import Engine, Lane, Pool, Stopped, TooMuch
from tests.support.server import wait_until

ENGINE = Engine(Path(__file__).with_name("engine.py"))
LANES = (Lane(0.1, 2, 0), Lane(0.5, 1, 5))


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(LANES)
    yield made
    made.close()


def ask(pool: Pool, request: str, caller: str = "a", **more: float) -> str:
    return pool.ask(ENGINE, request.encode(), caller=caller, **more).decode()


def test_a_process_answers_again_and_again(pool: Pool):
    assert ask(pool, "x") == ask(pool, "y")


def test_an_endless_evaluation_ends_and_the_next_one_answers(pool: Pool):
    with pytest.raises(TooMuch, match="too much time or memory"):
        ask(pool, "endless")
    assert ask(pool, "x")


def test_one_that_takes_longer_than_the_first_lane_ends_in_a_slower_one(pool: Pool):
    quick = ask(pool, "x")
    assert ask(pool, "busy 0.25") != quick
    with pytest.raises(TooMuch):
        ask(pool, "busy 0.25", most_cpu_s=0.05)


def test_memory_is_the_engines_error_and_a_grown_process_is_replaced(
    request: pytest.FixtureRequest,
):
    # 320 MB are written to, which on a busy machine takes longer than the lanes of the other tests permit.
    pool = Pool((Lane(60.0, 1, 0),))
    request.addfinalizer(pool.close)
    assert ask(pool, "memory", most_cpu_s=60.0) == "no memory"
    before = ask(pool, "x")
    assert ask(pool, "kept", most_cpu_s=60.0)
    assert ask(pool, "x") != before


@pytest.mark.parametrize("request_", ["long", "exit"])
def test_what_ends_the_process_fails_alone(pool: Pool, request_: str):
    with pytest.raises(TooMuch):
        ask(pool, request_)
    assert ask(pool, "x")


def test_a_stop_ends_what_runs_and_what_waits():
    pool = Pool((Lane(60.0, 1, 0),))
    said: list[str] = []

    def run(caller: str) -> None:
        try:
            ask(pool, "endless", caller, most_cpu_s=60.0)
        except Stopped:
            said.append(caller)

    threads = [threading.Thread(target=run, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    wait_until(
        lambda: pool._busy and len(pool._lanes[0][1]._waiting) == 2, what="all to have begun"
    )
    pool.close()
    # Those who waited fail at once; a process ends with the signal.
    for thread in threads:
        thread.join(30)
    assert sorted(said) == ["a", "b", "c"]
    assert ask(pool, "x")
    pool.close()
