"""Places in turn, and the bounds of one evaluation."""

from __future__ import annotations

import threading

import pytest

from headrace.core.evaluation import (
    Budget,
    Ledger,
    Stopped,
    TooMuch,
    Turns,
    bound_parsed_bytes,
    check_json_size,
    text_size,
)
from headrace.core.evaluation import budget as budgets
from headrace.core.evaluation import budget as turns_module
from tests.support.server import wait_until


def waiting(turns: Turns) -> int:
    return sum(map(len, turns._waiting.values()))


def test_a_caller_with_many_evaluations_does_not_hold_up_another():
    turns = Turns(1)
    order: list[str] = []
    turns.take("first")
    threads: list[threading.Thread] = []

    def run(caller: str) -> None:
        with turns.place(caller):
            order.append(caller)

    for count, caller in enumerate(["greedy"] * 5 + ["honest"], start=1):
        threads.append(threading.Thread(target=run, args=(caller,)))
        threads[-1].start()
        wait_until(lambda count=count: waiting(turns) == count, what="it to wait")
    turns.give_back()
    for thread in threads:
        thread.join(30)
    assert order.index("honest") == 1


def test_one_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns_module, "LONGEST_WAIT_S", 0.01)
    turns = Turns(1)
    turns.take("a")
    with pytest.raises(TooMuch, match="at the same time"):
        turns.take("b")
    turns.give_back()
    turns.take("b")


def test_a_stop_refuses_those_who_wait():
    turns = Turns(1)
    turns.take("a")
    said: list[str] = []

    def run() -> None:
        try:
            turns.take("b")
        except Stopped as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: waiting(turns), what="it to wait")
    turns.stop_waiting()
    thread.join(30)
    assert said == ["The cloud stops"]


def test_a_budget_ends_with_steps_and_bytes():
    with pytest.raises(TooMuch, match="steps"), Budget("a") as budget:
        budget.step(budgets.MOST_STEPS + 1)
    with pytest.raises(TooMuch, match="bytes"), Budget("a") as budget:
        budget.make(budgets.MOST_BYTES + 1)


def test_a_budget_ends_with_processor_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budgets, "MOST_CPU_S", 0.0)
    with pytest.raises(TooMuch, match="processor time"), Budget("a") as budget:
        budget.step(1000)


def test_large_evaluations_share_two_places_and_quick_ones_need_none(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(budgets, "LARGE", Turns(1))
    monkeypatch.setattr(turns_module, "LONGEST_WAIT_S", 0.01)
    with Budget("a") as large, Budget("b") as other:
        large.make(2 * budgets.QUICK_BYTES)
        other.make(10)
        with pytest.raises(TooMuch, match="at the same time"):
            other.make(2 * budgets.QUICK_BYTES)
    with Budget("b") as again:
        again.make(2 * budgets.QUICK_BYTES)
    with Budget("c", may_wait=False) as quick, pytest.raises(TooMuch, match="steps or"):
        quick.make(2 * budgets.QUICK_BYTES)


def test_a_ledger_bounds_one_holder_and_all_together():
    ledger = Ledger(one=10, all_together=15)
    ledger.take("a", 8)
    for holder, size in (("a", 3), ("b", 8)):
        with pytest.raises(TooMuch):
            ledger.take(holder, size)
    ledger.take("b", 7)
    ledger.give_back("a")
    ledger.take("b", 3)


def test_the_size_of_a_value_that_holds_itself_twice_is_found_at_once():
    value: list[object] = ["x"]
    for _ in range(1000):
        value = [value, value]
    with pytest.raises(TooMuch):
        check_json_size(value, 1_000_000)
    assert check_json_size({"a": [1, "b", None, True]}, 1000) == 25
    assert (text_size("ab"), text_size("é")) == (2, 4)
    assert bound_parsed_bytes("[[],[]]") > 3 * 64
