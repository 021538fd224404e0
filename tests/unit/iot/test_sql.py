"""IoT's SQL: what a message becomes; examples are of the shape that the reference has.

Documented: https://docs.aws.amazon.com/iot/latest/developerguide/iot-sql-reference.html
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.iot.sql import IotSqlError, Message, filled, filter_matches, parsed

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
    assert parsed(statement).result(MESSAGE) == becomes


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
        parsed(statement)


def test_templates_are_filled_and_topics_match_by_level():
    assert filled("in/${topic(2)}/${n}-${missing}.json", MESSAGE) == "in/d1/5-.json"
    assert filter_matches("a/#", "a/b/c")
    assert not filter_matches("a/+", "a/b/c")
    assert not filter_matches("a/b/c", "a/b")
