"""Whether a parameter begins with a prefix, looked up in order instead of one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.moto.bounds import patch_query_parser


class Parser:
    """What of moto's parser is replaced."""

    _gonna_recurse: Any


@pytest.fixture
def parser() -> Any:
    patch_query_parser(SimpleNamespace(QueryParser=Parser))  # type: ignore[arg-type]
    return Parser()


@pytest.mark.parametrize("prefix", ["", "A", "Tags.1", "Tags.1.Key", "Tags.10", "Tags.2", "Z", "é"])
def test_it_answers_as_moto_does(parser: Any, prefix: str):
    given = {"Tags.10.Key": 1, "Action": 2, "Tags.1.Key": 3, "é": 4}
    expected = prefix != "" and not any(name.startswith(prefix) for name in given)
    assert parser._gonna_recurse(given, prefix) is expected


def test_each_request_is_looked_at_anew(parser: Any):
    assert not parser._gonna_recurse({"A": 1}, "A")
    assert parser._gonna_recurse({"B": 1}, "A")
    assert parser._gonna_recurse({}, "A")


def test_the_parameters_are_gone_through_once(parser: Any):
    class Counted(dict[str, int]):
        times = 0

        def __iter__(self) -> Any:
            Counted.times += 1
            return super().__iter__()

    given = Counted({f"Tags.{number}.Key": number for number in range(1000)})
    assert not any(parser._gonna_recurse(given, f"Tags.{number}") for number in range(1000))
    assert Counted.times <= 1
