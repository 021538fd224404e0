"""Wildcards: what they match, and which are too complex."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.patterns import (
    BadWildcard,
    compile_glob,
    glob_matches,
    is_too_complex,
    parse_wildcard,
)


@given(st.text("ab*", max_size=8).map(lambda t: re.sub(r"\*+", "*", t)), st.text("ab", max_size=8))
def test_a_wildcard_agrees_with_a_regular_expression(pattern: str, text: str):
    expected = re.fullmatch(pattern.replace("*", ".*"), text) is not None
    assert parse_wildcard(pattern).matches(text) is expected


@given(st.text("ab*?", max_size=8), st.text("ab\n", max_size=8))
def test_a_glob_agrees_with_a_regular_expression(pattern: str, text: str):
    translated = pattern.replace("*", ".*").replace("?", ".")
    expected = re.fullmatch(translated, text, re.DOTALL) is not None
    assert glob_matches(pattern, text) is expected
    assert compile_glob(pattern, "*", "?").matches(text) is expected


def test_a_wildcard_can_ask_for_its_own_signs():
    assert parse_wildcard(r"a\*b").matches("a*b")
    assert not parse_wildcard(r"a\*b").matches("axb")
    assert parse_wildcard(r"\\*").matches("\\x")
    assert glob_matches(r"50\%_", "50%x", any_run="%", any_one="_", escape="\\")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("arn:**:x", "Consecutive wildcard characters at pos 5"),  # the sentence is recorded
        (r"a\b", "Invalid escape character at pos 2"),
        ("a\\", "Invalid escape character at pos 2"),
    ],
)
def test_what_is_no_wildcard_is_refused(pattern: str, reason: str):
    with pytest.raises(BadWildcard, match=re.escape(reason)):
        parse_wildcard(pattern)


@pytest.mark.parametrize(
    ("patterns", "too_complex"),
    [
        # In a rule that AWS took, and with two more of the kind in one that it refused (observed by a user).
        (["*/datasync/*.bif", "*/datasync/*.tiff"], False),
        (["*/datasync/*.bif", "*/datasync/*.tiff", "*/datasync/*.tif", "*/datasync/*.svs"], True),
        (["arn:aws:events:us-east-1:*:event-bus/*"], False),
        (["*.png"], False),
        (["*Title*"], False),
        (["*a*a*a*a*a*a"], True),
        (["*" + "a" * 4000], True),
        (["*" + "".join(map(chr, range(0x100, 0x180)))], False),
        ([f"*{number}" for number in range(100)], True),
    ],
)
def test_complexity_is_how_many_places_one_text_can_hold_open(
    patterns: list[str], too_complex: bool
):
    assert is_too_complex([parse_wildcard(text) for text in patterns], 10) is too_complex
