"""IoT's SQL: what a message becomes; examples are of the shape that the reference has.

Documented: https://docs.aws.amazon.com/iot/latest/developerguide/iot-sql-reference.html
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.iot.sql import (
    IotSqlError,
    Message,
    fill_template,
    filter_matches,
    parse,
    refusal_of,
)

PAYLOAD = {"n": 5, "color": {"r": 255, "all": [1, 2]}, "who": "me"}
MESSAGE = Message("plant/d1/temp", PAYLOAD, now_ms=1000)


@pytest.mark.parametrize(
    ("statement", "becomes"),
    [
        ("SELECT * FROM 'plant/+/temp'", PAYLOAD),
        ("select *, topic(2) as device from 'plant/#'", {**PAYLOAD, "device": "d1"}),
        ("SELECT color.r AS red, n FROM 'plant/#'", {"red": 255, "n": 5}),
        ("SELECT n * 2 + 1 AS x FROM '#' WHERE n >= 5 AND NOT who = 'you'", {"x": 11}),
        ("SELECT upper(who) AS w, color.all[1] AS a FROM '#'", {"w": "ME", "a": 2}),
        ("SELECT missing, n FROM '#'", {"n": 5}),
        ("SELECT timestamp() AS t FROM '#' WHERE (n > 9 OR who <> 'x')", {"t": 1000}),
        ("SELECT * FROM '#' WHERE n > 5", None),
        ("SELECT * FROM '#' WHERE missing > 5", None),
        ("SELECT * FROM 'plant/+'", None),
    ],
)
def test_a_message_becomes_what_the_statement_says(statement: str, becomes: Any):
    assert parse(statement).result(MESSAGE) == becomes


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "SELECT",
        "SELECT * FROM a",
        "SELECT get_thing_shadow('x') AS s FROM '#'",
        "SELECT n + 1 FROM '#'",
        "SELECT * FROM '#' GROUP BY n",
        "SELECT " + "(" * 5000 + "n FROM '#'",
    ],
)
def test_what_is_not_understood_is_said(statement: str):
    with pytest.raises(IotSqlError):
        parse(statement)


def test_templates_are_filled_and_topics_match_by_level():
    assert fill_template("in/${topic(2)}/${n}-${missing}.json", MESSAGE) == "in/d1/5-.json"
    assert filter_matches("a/#", "a/b/c")
    assert not filter_matches("a/+", "a/b/c")
    assert not filter_matches("a/b/c", "a/b")


def test_a_row_of_thousands_of_conditions_is_evaluated():
    conditions = " OR ".join(f"n={number}" for number in range(5000, 0, -1))
    assert parse(f"SELECT * FROM '#' WHERE {conditions}").result(MESSAGE) == PAYLOAD
    conditions = " AND ".join(["n=5"] * 7000)
    assert parse(f"SELECT * FROM '#' WHERE {conditions}").result(MESSAGE) == PAYLOAD
    numbers = "+".join(["1"] * 20_000)
    assert parse(f"SELECT {numbers} AS x FROM '#'").result(MESSAGE) == {"x": 20_000}


@pytest.mark.parametrize(
    "expression",
    [
        "concat(" + ",".join(["who"] * 10_000) + ")",
        "+".join(["who"] * 10_000),
        "+".join(["many"] * 10_000),
    ],
)
def test_a_text_that_swells_is_refused(expression: str):
    message = Message("t", {"who": "x" * 100_000, "many": [1] * 50_000}, now_ms=1000)
    with pytest.raises(IotSqlError, match="asks for too much"):
        parse(f"SELECT {expression} AS x FROM '#'").result(message)


def test_a_message_that_swells_is_refused():
    message = Message("t", {"who": "x" * 100_000}, now_ms=1000)
    items = ", ".join(f"who AS a{number}" for number in range(4000))
    with pytest.raises(IotSqlError, match="asks for too much"):
        parse(f"SELECT {items} FROM '#'").result(message)
    with pytest.raises(IotSqlError, match="asks for too much"):
        fill_template("${who}" * 4000, message)


def test_long_numbers_do_not_grow():
    message = Message("t", {"n": 10**4000}, now_ms=1000)
    product = "*".join(["n"] * 9000)
    assert parse(f"SELECT {product} AS x FROM '#'").result(message) == {}


@pytest.mark.parametrize("deep", ["(" * 60 + "n" + ")" * 60, "NOT " * 60 + "n", "-" * 60 + "n"])
def test_a_statement_that_nests_is_refused_when_its_rule_is_made(deep: str):
    assert "nests more than 50 levels" in refusal_of(f"SELECT * FROM '#' WHERE {deep}")
    assert refusal_of("SELECT get_thing_shadow('x') AS s FROM '#'") == ""
