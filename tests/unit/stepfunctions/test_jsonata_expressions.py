"""JSONata's expressions alone: what they give, what fails, and where they stand in a definition."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.stepfunctions.jsonata_expressions import (
    EVALUATOR,
    NoValue,
    QueryFailed,
    expressions_of,
    language_of,
    mark_expressions,
    parse_marked,
)

# --- expressions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('$parse("{\\"a\\":[1,null]}").a', [1, None]),
        ("$partition([1,2,3,4,5], 2.9)", [[1, 2], [3, 4], [5]]),
        ("$range(0, 6, 2)", [0, 2, 4, 6]),
        ("$range(5, 1, -2)", [5, 3, 1]),
        ("$range(1, 1, 1)", 1),
        ('$hash("input", "SHA-1")', "140f86aae51ab9e1cda9b4254fe98a74eb54c1a1"),
        ("$random(42)", 0.7275636800328681),
        ("$length($uuid())", 36),
        ('$match("\u00e9", /\\p{L}/).match', "\u00e9"),
        ("$type($n)", "null"),
        ("$count([1..873782])", 873782),
        ("+".join(["1"] * 100), 100),
    ],
)
def test_an_expression_has_a_value(expression: str, value: Any):
    assert EVALUATOR.value(expression, {"n": None}) == value


@pytest.mark.parametrize(
    "expression", ["$partition([], 2)", "$partition([1], 0)", "$range(1, 5)", '$hash("x")', "$no.a"]
)
def test_an_expression_gives_nothing(expression: str):
    assert EVALUATOR.value(expression, {}) == NoValue(is_nothing=True)


@pytest.mark.parametrize(
    ("expression", "code", "said"),
    [
        ('$eval("1")', "T1006", "Attempted to invoke a non-function"),
        ('-"a"', "D1002", 'Cannot negate a non-numeric value: "a"'),
        ('$number("x")', "D3030", 'Unable to cast value to a number: "x"'),
        ('$error("no")', "D3137", "no"),
        ("[1..873783] ~> $count()", "", "Expression evaluation memory limit exceeded"),
        ("$range(1, 360146, 1)", "", "Expression evaluation memory limit exceeded"),
        ("+".join(["1"] * 101), "", "Depth=101 max=100"),
        ("(" * 3000 + "1" + ")" * 3000, "", ""),
    ],
)
def test_an_expression_fails(expression: str, code: str, said: str):
    with pytest.raises(QueryFailed) as caught:
        EVALUATOR.value(expression, {})
    assert caught.value.code == code
    assert said in caught.value.message


def test_names_are_found_that_have_no_context():
    assert EVALUATOR.roots("$states.input.items[value > 3].{'n': name}") == ["$states.input"]
    assert EVALUATOR.roots("{'k': a} ~> $f(function($x){ b })") == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression", ["($f := function(){ $f() }; $f())", '$match("' + "a" * 40 + '!", /(a|a)+$/)']
)
def test_an_endless_expression_ends(expression: str):
    with pytest.raises(QueryFailed, match="timeout"):
        EVALUATOR.value(expression, {})
    assert EVALUATOR.value("1", {}) == 1


# --- definitions ----------------------------------------------------------------------------------------


def test_expressions_are_found_with_their_places():
    state = {
        "Type": "Map",
        "Comment": "{% 1 %}",
        "Items": "{% $a %}",
        "Catch": [{"Output": {"e": "{%$b%}"}, "Next": "N"}],
        "ItemProcessor": {"States": {"P": {"Output": "{% $c %}"}}},
    }
    found = [(each.text, each.location) for each in expressions_of(state)]
    assert found == [("$a", "Items"), ("$b", "Catch[0]/Output/e")]
    machine = mark_expressions({"QueryLanguage": "JSONata", "States": {"M": state}})
    inner = machine["States"]["M"]["ItemProcessor"]["States"]["P"]
    assert parse_marked(inner["Output"][2:-2]).text == "$c"
    assert language_of({"QueryLanguage": 7}, "JSONPath") == "JSONata"
