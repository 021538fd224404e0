"""Working on the nodes of a dependency graph in their order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from headrace.services.cloudformation.deployment.parallel_runs import run_in_order

DEPENDS_ON = {"a": set[str](), "b": {"a"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}


def pool_of_four() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)


def run(failing: set[str], *, keep_going: bool) -> tuple[set[str], set[str], bool]:
    done: set[str] = set()
    stop = threading.Event()

    def work(name: str) -> None:
        assert DEPENDS_ON[name] <= done
        if name in failing:
            raise ValueError(name)
        done.add(name)

    failed = run_in_order(DEPENDS_ON, work, stop=stop, keep_going=keep_going, executor=pool_of_four)
    return done, set(failed), stop.is_set()


def test_everything_is_done_in_order():
    assert run(set(), keep_going=False) == (set(DEPENDS_ON), set(), False)


def test_a_failure_leaves_alone_what_does_not_need_it_when_told_to():
    assert run({"b"}, keep_going=True) == ({"a", "d", "e"}, {"b"}, False)


def test_a_failure_stops_what_has_not_begun():
    done, failed, stopped = run({"a"}, keep_going=False)
    assert (failed, stopped) == ({"a"}, True)
    assert not done & {"b", "c", "d"}


def test_a_single_node_needs_no_thread():
    stop, ran, error = threading.Event(), list[int](), ValueError("a")

    def work(name: str) -> None:
        ran.append(threading.get_ident())
        raise error

    failed = run_in_order({"a": set()}, work, stop=stop, keep_going=False, executor=pool_of_four)
    assert (failed, ran, stop.is_set()) == ({"a": error}, [threading.get_ident()], True)


def test_nothing_is_begun_once_stopped():
    stop = threading.Event()
    stop.set()
    assert (
        run_in_order(DEPENDS_ON, lambda _: None, stop=stop, keep_going=True, executor=pool_of_four)
        == {}
    )
