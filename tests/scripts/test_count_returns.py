"""The paths are counted right: a return is a file that is come back to, with a function not seen before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import count_returns
from scripts.count_returns import TRACES, Tracer, returns


def asked() -> None:
    """Stand for a function of a path."""


class Server:
    """Stands for the server, with the function that its timer calls."""

    def _look_regularly(self) -> None:
        asked()

    def answer(self) -> None:
        """Stand for another function, and call `asked` as well."""
        asked()


def test_a_file_that_is_come_back_to_counts_once_a_time() -> None:
    there, back = [("a/x.py", "f"), ("a/y.py", "g")], [("a/x.py", "h"), ("a/y.py", "i")]
    assert returns(there) == (0, there)
    assert returns(there + back) == (2, there + back)


def test_a_function_counts_at_its_first_call_in_every_folder() -> None:
    calls = [("a/x.py", "f"), ("b/z.py", "g"), ("a/x.py", "f"), ("a/x.py", "h"), ("a/y.py", "i")]
    assert returns(calls) == (1, [calls[0], calls[1], calls[3], calls[4]])


def test_the_run_that_met_the_least_work_of_others_counts() -> None:
    tracer, own, other = Tracer(""), ("a/x.py", "f"), ("b/z.py", "g")
    runs = iter([[own, other], [own, own], *([[own, other]] * (TRACES - 2))])

    def run() -> None:
        assert tracer.calls == []
        tracer.calls.extend(next(runs))

    assert tracer.trace_quietest(run, pause_s=0) == [own, own]
    assert next(runs, None) is None


def test_what_a_timer_calls_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        count_returns, "BACKGROUND", {("test_count_returns.py", "Server._look_regularly")}
    )
    calls: list[tuple[str, str]] = []
    tracer, server = Tracer(f"{Path(__file__).parent}/", calls), Server()
    before = sys.getprofile()
    sys.setprofile(tracer._note)
    try:
        server._look_regularly()
        server.answer()
    finally:
        sys.setprofile(before)
    assert calls == [("test_count_returns.py", "Server.answer"), ("test_count_returns.py", "asked")]
