"""Which keys a JQ query gives, as far as its text says so."""

from __future__ import annotations

import pytest

from headrace.services.firehose.prefix import find_keys


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("{a:.a}", {"a"}),
        (" { a : .x , \"b c\" : (.y|{z:1, w:2}) } ", {"a", "b c"}),
        ("{a, b:[1,2], $c}", {"a", "b", "c"}),
        ('{a:"x,{\\"b\\":1}", d:.d}', {"a", "d"}),
        ("{a:.a} | {b:.a}", None),
        ("{(.k):1}", None),
        ('{"\\(.k)":1}', None),
        ('{a:"\\({b:1})"}', None),
        ("{a:1} + {b:2}", None),
        ("{a:.a # , b\n}", None),
        ("{}", None),
        ("{a:.a", None),
        ('{a:"', None),
        ("[.a]", None),
        ("", None),
    ],
)  # fmt: skip
def test_keys(query: str, keys: set[str] | None):
    assert find_keys(query) == keys
