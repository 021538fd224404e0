"""YAML of moto's services: what explodes is refused, the rest is read as before."""

from __future__ import annotations

import pytest
import yaml

from headrace.moto.bounds import MOST_NESTED, MOST_VALUES, safe_load


def test_aliases_and_merge_keys_are_read_as_before():
    text = "a: &a {x: 1, y: [1, 2]}\nb: *a\nc: {<<: *a, x: 2}\nd: 2026-01-02\n"
    assert safe_load(text) == yaml.safe_load(text)
    assert safe_load(b"a: 1") == {"a": 1}
    assert safe_load("") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [1,1,1,1]\nb: &b [*a,*a]\nc: [" + "*b," * (MOST_VALUES // 11) + "]", "values"),
        ("a: &a {x: 1}\nb: {<<: [" + "*a," * (MOST_VALUES // 3) + "]}", "values"),
        ("a: &a " + "x" * 99_999 + "\nb: [" + "*a," * 200 + "]", "characters"),
        ("a: &a [&b " + "x" * 99_999 + ", *b]\nc: [" + "*a," * 100 + "]", "characters"),
        ("a: &a [1, *a]", "one that contains it"),
        ("a: &a 1\nb: &a [*a]", "one that contains it"),
        ("a: *nobody", "one that contains it"),
        ("[" * (MOST_NESTED + 1) + "]" * (MOST_NESTED + 1), "levels deep"),
        ("a: [", "flow"),
    ],
)
def test_what_would_explode_is_refused(text: str, reason: str):
    with pytest.raises(yaml.YAMLError, match=reason):
        safe_load(text)


def test_every_alias_counts_as_what_it_names():
    inner = "a: &a [" + "1," * 999 + "]\n"
    assert len(safe_load(inner + "b: [" + "*a," * 190 + "]")["b"]) == 190
    with pytest.raises(yaml.YAMLError, match="more than 200000 values with its aliases expanded"):
        safe_load(inner + "b: [" + "*a," * 200 + "]")
