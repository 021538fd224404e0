"""Matching in bounded time: which engine takes a pattern, and what is refused."""

from __future__ import annotations

import pytest

from headrace.aws.calls.operation import service_model
from headrace.core import patterns
from headrace.core.patterns import (
    MatchingBudget,
    MatchTooLong,
    PatternRefused,
    java_pattern,
    model_pattern,
)
from tests.support.owned import OWNED


@pytest.mark.parametrize(
    ("pattern", "engine"),
    [
        ("[a-z]{1,4096}", "_Run"),
        ("^[a-zA-Z0-9_.-]+$", "_Run"),
        ("[a-z]+-[a-z]+", "_Re2Pattern"),
        ("(a+)+$", "_Re2Pattern"),
        ("(a|aa)" * 30, "_Re2Pattern"),  # no repeat is open, and two to the thirtieth ways
        ("a?" * 30 + "a" * 30, "_Re2Pattern"),
        ("x{1,5000}y", "_Re2Pattern"),
        ("(?!aws)[a-z]+", "_BacktrackingPattern"),
        (r"(a)\1", "_BacktrackingPattern"),
        (
            "([a-z]{1,63}[.]){1,20}com",
            "_BacktrackingPattern",
        ),  # RE2 takes no product of counts above 1,000
    ],
)
def test_a_pattern_runs_on_the_quickest_engine_that_can(pattern: str, engine: str):
    assert type(java_pattern(pattern)).__name__ == engine


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a" * 8193, "longer than 8192"),
        ("(?=a)" + "a" * 2048, "2048 characters"),
        ("(" * 101 + ")" * 101, "nested too deeply"),
        ("[a" * 102 + "]" * 102, "nested too deeply"),
        ("(.{1,1000}x){1000}" * 20, "too often"),
        ("(?:a{1000000}){1000}", "too often"),
        ("(?=(?:a{60000}){60000})", "too often"),
        ("a{1000000000}", "Illegal repetition"),
        ("(x{900}y){900}" * 9, "too often"),
        ("[ab]*a[ab]{999}" * 500, "too large"),
    ],
)
def test_a_pattern_that_would_be_too_large_is_refused(pattern: str, reason: str):
    with pytest.raises(PatternRefused, match=reason):
        java_pattern(pattern)


def test_what_would_take_too_many_steps_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patterns, "MOST_STEPS", 1000)
    compiled = java_pattern("(never|seen|before)x*[ab]")
    with pytest.raises(MatchTooLong):
        compiled.matches("a" * 1000)


def test_the_steps_of_a_request_are_counted_together():
    budget = MatchingBudget()
    assert budget.matches("(ab)*", "ab" * 100)
    budget.steps -= patterns.MOST_STEPS - 5_000
    with pytest.raises(MatchTooLong):
        [budget.matches("(ab)*", "ab" * 100) for _ in range(100)]
    assert java_pattern("(ab)*").matches("ab" * 100)


def test_the_time_of_a_request_is_counted_together():
    budget = MatchingBudget()
    assert budget.matches("(?!aws)[a-z]+", "abc")
    left_s = budget.backtracking_s
    assert left_s < patterns.MOST_BACKTRACKING_S
    budget.backtracking_s = 0.0
    with pytest.raises(MatchTooLong):
        budget.matches("(?!aws)[a-z]+", "abc")


def test_a_pattern_counts_once_for_what_a_request_may_compile():
    budget = MatchingBudget()
    for number in range(8):
        pattern = "a" * 8191 + str(number)
        assert not budget.matches(pattern, "b")
        assert not budget.matches(pattern, "bb")
    with pytest.raises(PatternRefused, match="more than 65536 characters together"):
        budget.matches("b", "b")


def test_lone_surrogates_match_nothing_and_break_nothing():
    assert not java_pattern("(a|b)+").matches("a\ud800")
    assert java_pattern("[^a]").matches("\ud800")


def test_every_pattern_of_the_services_models_is_compiled():
    found = [
        shape.metadata["pattern"]
        for service in OWNED
        for name in service_model(service).shape_names
        if (shape := service_model(service).shape_for(name)).metadata.get("pattern")
    ]
    assert len(found) > 150
    for pattern in found:
        model_pattern(pattern)
