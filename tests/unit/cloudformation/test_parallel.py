"""Working on the nodes of a dependency graph in their order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from headrace.services.cloudformation.deployment.parallel_runs import run_in_order

DEPENDS_ON = {"a": set[str](), "b": {"a"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}


def run(failing: set[str], *, keep_going: bool) -> tuple[set[str], set[str], bool]:
    done: set[str] = set()
    stop = threading.Event()

    def work(name: str) -> None:
        assert DEPENDS_ON[name] <= done
        if name in failing:
            raise ValueError(name)
        done.add(name)

    failed = run_in_order(
        DEPENDS_ON, work, stop=stop, keep_going=keep_going, pool=ThreadPoolExecutor(4)
    )
    return done, set(failed), stop.is_set()


def test_everything_is_done_in_order():
    assert run(set(), keep_going=False) == (set(DEPENDS_ON), set(), False)


def test_a_failure_leaves_alone_what_does_not_need_it_when_told_to():
    assert run({"b"}, keep_going=True) == ({"a", "d", "e"}, {"b"}, False)


def test_a_failure_stops_what_has_not_begun():
    done, failed, stopped = run({"a"}, keep_going=False)
    assert (failed, stopped) == ({"a"}, True)
    assert not done & {"b", "c", "d"}


def test_nothing_is_begun_once_stopped():
    stop = threading.Event()
    stop.set()
    assert (
        run_in_order(
            DEPENDS_ON, lambda _: None, stop=stop, keep_going=True, pool=ThreadPoolExecutor(4)
        )
        == {}
    )
