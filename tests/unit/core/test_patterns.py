"""Matching in bounded time: which engine takes a pattern, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.aws.model import service_model
from headrace.core import patterns
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern, model_pattern

OWNED = ("kinesis", "firehose", "lambda", "s3", "emr", "emr-serverless", "cloudformation")


@pytest.mark.parametrize(
    ("pattern", "engine"),
    [
        ("[a-z]{1,4096}", "_Run"),
        ("^[a-zA-Z0-9_.-]+$", "_Run"),
        (r"0|([1-9]\d{0,38})", "_Short"),
        ("[a-z]+-[a-z]+", "_Short"),
        ("[a-z]+-[a-z]+-[a-z]+", "_Linear"),  # a third repeat that leaves open how often
        ("(a+)+$", "_Linear"),
        ("(a|aa)" * 14, "_Short"),
        ("(a|aa)" * 15, "_Linear"),  # 32,768 ways
        ("(?:a?b?)?" * 30, "_Linear"),
        ("(?:ab)?c", "_Short"),
        ("(?:ab)*", "_Linear"),
        (r"\p{L}a*", "_Linear"),
        (r"\ba*c", "_Linear"),
        ("x{1,5000}y", "_Short"),
        ("(?!aws)[a-z]+", "_Timed"),
        (r"(a)\1", "_Timed"),
        ("([a-z]{1,63}[.]){1,20}com", "_Timed"),  # RE2 takes no product of counts above 1,000
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


def test_a_long_text_goes_to_the_linear_engine():
    compiled: Any = java_pattern("a*b*c")
    assert compiled.matches("a" * 1000 + "c")
    assert not compiled.matches("a" * 1_000_000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|aa)" * 14 + "b", "a" * 22),
        ("[ab]*a[ab]*c", "a" * 128),
        ("(a*|a)a*c", "a" * 128),
        (".?" * 14 + "a" * 100 + "b", "a" * 128),
    ],
)
def test_re_is_fast_with_what_it_gets(pattern: str, text: str):
    compiled: Any = java_pattern(pattern)
    assert type(compiled).__name__ == "_Short"
    started = time.process_time()
    assert not compiled.matches(text)
    assert time.process_time() - started < 0.5


def test_what_would_take_too_many_steps_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patterns, "MOST_STEPS", 1000)
    compiled = java_pattern("(never|seen|before)x*[ab]")
    with pytest.raises(MatchTooLong):
        compiled.matches("a" * 1000)


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
