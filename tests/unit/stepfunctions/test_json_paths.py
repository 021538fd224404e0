"""What JSON paths of state machines lead to. Documented: https://states-language.net/spec.html#path."""

from __future__ import annotations

from typing import Any

import pytest
from moto.stepfunctions.parser.asl.utils.json_path import NoSuchJsonPathError

from headrace.core.evaluation import Pool, TooMuch
from headrace.services.stepfunctions.interpreter.json_paths import extract_json

EVENT = {"Records": [{"id": 1, "k": {"d": "x"}}, {"id": 2}], "a": {"b": [5, 6]}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", EVENT),
        ("$.Records[0].id", 1),
        ("$['Records'][0]['k'].d", "x"),
        ("$.a.b[1]", 6),
        ("$.Records[*].id", [1, 2]),
        ("$.Records[0:1]", [{"id": 1, "k": {"d": "x"}}]),
        ("$..d", ["x"]),
        ("$.Records[?(@.id==2)].id", [2]),
        ("$.Records[?(@.id==9)]", []),
        ("$.none[*]", []),
    ],
)
def test_a_definite_path_leads_to_one_value_and_any_other_to_a_list(path: str, found: Any):
    assert extract_json(path, EVENT) == found


def test_a_definite_path_that_leads_nowhere_is_an_error():
    with pytest.raises(NoSuchJsonPathError):
        extract_json("$.Records[5].id", EVENT)


def test_a_path_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch):
    defaults = Pool.ask.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "most_cpu_s", 0.5)
    value: Any = {"l": list(range(3000))}
    for _ in range(4):
        value = {"a": value, "b": value}
    with pytest.raises(TooMuch):
        extract_json("$" + "..*" * 5, value)
    assert extract_json("$..d", EVENT) == ["x"]


def test_a_path_that_cannot_be_read_is_an_error():
    with pytest.raises(ValueError, match="cannot be evaluated"):
        extract_json("$.a[?(", EVENT)
