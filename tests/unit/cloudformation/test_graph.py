"""The order of resources, and working on them in that order."""

from __future__ import annotations

import threading

import pytest

from headrace.services.cloudformation import graph
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.parallel import run_in_order

NEEDS = {"a": set[str](), "b": {"a"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}


def test_what_others_need_comes_first():
    order = graph.in_order(NEEDS)
    assert sorted(order) == sorted(NEEDS)
    assert all(order.index(need) < order.index(node) for node in NEEDS for need in NEEDS[node])


def test_a_circle_is_named():
    with pytest.raises(TemplateError, match=r"\[x, y\]"):
        graph.check_acyclic({"x": {"y"}, "y": {"x"}, "z": set()})


def test_a_chain_of_ten_thousand_is_no_matter():
    chain = {str(i): {str(i - 1)} if i else set[str]() for i in range(10_000)}
    assert graph.in_order(chain) == list(chain)


def run(failing: set[str], *, keep_going: bool) -> tuple[set[str], set[str], bool]:
    done: set[str] = set()
    stop = threading.Event()

    def work(name: str) -> None:
        assert NEEDS[name] <= done
        if name in failing:
            raise ValueError(name)
        done.add(name)

    failed = run_in_order(NEEDS, work, stop=stop, keep_going=keep_going)
    return done, set(failed), stop.is_set()


def test_everything_is_done_in_order():
    assert run(set(), keep_going=False) == (set(NEEDS), set(), False)


def test_a_failure_leaves_alone_what_does_not_need_it_when_told_to():
    assert run({"b"}, keep_going=True) == ({"a", "d", "e"}, {"b"}, False)


def test_a_failure_stops_what_has_not_begun():
    done, failed, stopped = run({"a"}, keep_going=False)
    assert (failed, stopped) == ({"a"}, True)
    assert not done & {"b", "c", "d"}


def test_nothing_is_begun_once_stopped():
    stop = threading.Event()
    stop.set()
    assert run_in_order(NEEDS, lambda _: None, stop=stop, keep_going=True) == {}
