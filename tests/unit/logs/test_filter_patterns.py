"""CloudWatch Logs' filter patterns, held against the examples of the user guide (facts, no text)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.patterns import MatchingBudget, MatchTooLong
from headrace.services.logs.filter_patterns import (
    InvalidFilterPattern,
    parse_filter_pattern,
    select_text,
)

LINES = [
    "[ERROR 400] BAD REQUEST",
    "[ERROR 401] UNAUTHORIZED REQUEST",
    "[ERROR 419] MISSING ARGUMENTS",
    "[ERROR 420] INVALID ARGUMENTS",
    "[ERROR 500] INTERNAL SERVER ERROR",
    "[INFO] REQUEST FAILED",
]
TRAIL = json.dumps(
    {
        "eventType": "UpdateTrail",
        "sourceIPAddress": "111.111.111.111",
        "arrayKey": ["value", "another value"],
        "objectList": [{"name": "a", "id": 1}, {"name": "b", "id": 2}],
        "SomeObject": None,
        "ThisFlag": True,
        "cluster.name": "c",
        "latency": 75.5,
        "count": 1000,
        "small": -3,
        "number": [1000, 0.001],
        "users": [1, 2, 3],
        "coordinates": [[0, 1, 2], [4, 5, 6]],
        "with-hyphen_1": "x y",
    }
)
CALL = '127.0.0.1 Prod frank [10/Oct/2000:13:25:15 -0700] "GET /index.html HTTP/1.0" 404 1534'


def match(pattern: str, message: str) -> Any:
    return parse_filter_pattern(pattern).match(message, MatchingBudget())


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ('" "', [0, 1, 2, 3, 4, 5]),
        ("ERROR", [0, 1, 2, 3, 4]),
        ("error", []),
        ("ERROR ARGUMENTS", [2, 3]),
        ("?ARGUMENTS ?INFO", [2, 3, 5]),
        ("?ERROR ?ARGUMENTS REQUEST", [0, 1, 5]),
        ("?ARGUMENTS -REQUEST", [2, 3, 4]),
        ('"INTERNAL SERVER ERROR"', [4]),
        ('"[INFO]"', [5]),
        ("ERROR -ARGUMENTS", [0, 1, 4]),
        ('ERROR - "ARGUMENTS"', [0, 1, 4]),
        ("-ERROR", [5]),
        ("%AUTHORIZED%", [1]),
        (r"%ERROR\x20 4[01]\d%", []),
        (r"%ERROR\s4[01]\d%", [0, 1, 2]),
        (r"%^\[INFO%", [5]),
        (r"%ARGUMENTS$%", [2, 3]),
        (r"%4{,1}00%", [0, 4]),
        ("%BAD|INFO%", [0, 5]),
        ("ERROR %4[01]1%", [1]),
    ],
)
def test_terms(pattern: str, lines: list[int]) -> None:
    assert [n for n, line in enumerate(LINES) if match(pattern, line) is not None] == lines


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('$.eventType = "UpdateTrail"', True),
        ("$.eventType = UpdateTrail", True),
        ("$.eventType = Update", False),
        ('$.eventType = "Update*"', True),
        ("$.eventType = *Trail", True),
        ("$.eventType = *dateT*", True),
        ("$.eventType = Up*Trail", False),
        ("$.eventType = %Trail%", True),
        ("$.eventType != %Trail%", False),
        ("$.sourceIPAddress != 123.123.*", True),
        ("$.sourceIPAddress = 111.111.*", True),
        ('$.arrayKey[0] = "value"', True),
        ('$.arrayKey[1] = "value"', False),
        ('$.arrayKey[9] = "value"', False),
        ("$.arrayKey[*] = %^val.{2}$%", True),
        ("$.arrayKey[*] = none", False),
        (r"$.* = %111\.111\.111\.1[0-9]{1,2}%", True),
        ("$.objectList[1].id = 2", True),
        ("$.objectList[*].id = 2", True),
        ("$.objectList[1].id = 3", False),
        ("$.['cluster.name'] = \"c\"", True),
        ("$['cluster.name'] = c", True),
        ('$.with-hyphen_1 = "x y"', True),
        ("$.SomeObject IS NULL", True),
        ("$.latency IS NULL", False),
        ("$.missing IS NULL", False),
        ("$.ThisFlag IS TRUE", True),
        ("$.ThisFlag IS FALSE", False),
        ("$.count IS TRUE", False),
        ("$.missing NOT EXISTS", True),
        ("$.SomeObject NOT EXISTS", False),
        ("$.latency > 75", True),
        ("$.latency < 50", False),
        ("$.latency >= 75.5", True),
        ("$.latency <= 75.5", True),
        ("$.latency = 75.50", True),
        ("$.latency != 75.5", False),
        ("$.count = 1e+3", True),
        ("$.count > +999", True),
        ("$.small < -2", True),
        ("$.number[1] != 1e-3", False),
        ("$.latency = *", True),
        ("$.missing = *", False),
        ("$.missing != 1", False),
        ("$.SomeObject = *", False),
        ("$.users = 1", False),
        ("$.users != 1", False),
        ("$.eventType > 5", False),
        ("$.coordinates[1][2] = 6", True),
        ("($.latency = 1) && ($.eventType = UpdateTrail)", False),
        ("$.latency = 1 && $.eventType = UpdateTrail || $.count = 1000", True),
        ("$.count = 1000 || $.latency = 1 && $.eventType = none", True),
        ("($.count = 1000 || $.latency = 1) && $.eventType = none", False),
        ("(($.count=1000)&&($.eventType!=none))", True),
    ],
)
def test_json(condition: str, holds: bool) -> None:
    for pattern in (f"{{ {condition} }}", f" {{{condition}}} "):
        assert (match(pattern, TRAIL) is not None) is holds


@pytest.mark.parametrize("message", ["", "no", "1", '"UpdateTrail"', "[", '{"eventType": '])
def test_what_is_no_object_has_no_field(message: str) -> None:
    assert match("{ $.eventType NOT EXISTS }", message) is None


def test_json_extracts_what_the_pattern_names() -> None:
    assert match(
        "{ $.latency = * && $.objectList[1].name = b && $.missing NOT EXISTS }", TRAIL
    ) == {
        "$.latency": "75.5",
        "$.objectList[1].name": "b",
    }
    assert select_text("$.count", TRAIL) == "1000"
    assert select_text("$.users", TRAIL) is None
    assert select_text("no", TRAIL) is None


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        (r"[ip=%127\.0\.0\.[1-9]%, user, username, timestamp, request =*.html*, status_code = 4*, bytes]", True),
        ("[ip, user, username, timestamp, request, status_code = 5*, bytes]", False),
        ("[..., request =*.html*, status_code = 4*, bytes]", True),
        ("[..., status_code = 4*]", False),
        ("[ip, user, ..., status_code, bytes]", True),
        ("[ip = 127*, ...]", True),
        ("[ip = 128*, ...]", False),
        ("[ip, user, username, timestamp, request, status_code, bytes > 1000]", True),
        ("[ip, user, username, timestamp, request, status_code, bytes > 2000]", False),
        ("[..., status_code = 404 || status_code = 410, bytes]", True),
        ("[..., status_code = 4* && status_code != 403, bytes]", True),
        ("[..., status_code = 4* && status_code != 404, bytes]", False),
        ("[ip=127.0.0.1, rest]", True),
        ("[ip, user, username, timestamp, request, status_code, bytes, more]", False),
        ('[..., request = "GET /index.html HTTP/1.0", status_code, bytes]', True),
        ("[,,,,,,]", True),
    ],
)  # fmt: skip
def test_fields(pattern: str, holds: bool) -> None:
    assert (match(pattern, CALL) is not None) is holds


def test_fields_are_extracted_by_name_or_by_number() -> None:
    assert match("[..., request=*.html*, status_code=4*,]", CALL) == {
        "$1": "127.0.0.1",
        "$2": "Prod",
        "$3": "frank",
        "$4": "10/Oct/2000:13:25:15 -0700",
        "$request": "GET /index.html HTTP/1.0",
        "$status_code": "404",
        "$7": "1534",
    }


def test_brackets_and_quotation_marks_that_do_not_close_are_fields_and_take_no_time() -> None:
    assert match("[a, b, c, d]", '[x y] z] [ "') == {"$a": "x y", "$b": "z]", "$c": "[", "$d": '"'}
    # Looking for each one's end would take a minute.
    assert match("[a, ...]", "[ " * 120_000) is not None


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("[w1=ERROR, w2]", [3]),
        ("[w1=ERROR || w1=WARNING, w2]", [2, 3]),
        ("[w1!=ERROR && w1!=WARNING, w2]", [0, 1]),
        ("[logLevel, date, time, method, url=%/service/resource/[0-9]+$%, response_time]", [0]),
        ("[logLevel, date, time, method, url=%/service/resource/[0-9]+/part/[0-9]+$%, response_time]", [1]),
    ],
)  # fmt: skip
def test_fields_in_order(pattern: str, lines: list[int]) -> None:
    messages = [
        "INFO 09/25/2014 12:00:00 GET /service/resource/67 1200",
        "INFO 09/25/2014 12:00:01 POST /service/resource/67/part/111 1310",
        "WARNING 09/25/2014 12:00:02 Invalid user request",
        "ERROR 09/25/2014 12:00:02 Failed to process request",
    ]
    assert [n for n, one in enumerate(messages) if match(pattern, one) is not None] == lines


@pytest.mark.parametrize(
    "pattern",
    [
        "{", "{}", "{ $.a }", "{ $.a = }", "{ $.a = 1", "{ $.a = 1 } x", "{ a = 1 }", "{ $ = 1 }", "{ $. = 1 }",
        "{ $.a EXISTS }", "{ $.a IS NOT NULL }", "{ $.a = 1 && }", "{ ($.a = 1 }", "{ $.a > x }", '{ $.a = "x }',
        "{ $.*.b.* = 1 }", "{ $.a[x] = 1 }", "{ $.a[ }", "{ $.a[1 = 1 }", "{ $.['a = 1 }", "{ $.a = %x }",
        "{ $.a[*]=1 && $.b[*]=1 && $.c[*]=1 && $.d[*]=1 }", "{ $.a=%x% && $.b=%y% && $.c=%z% }",
        "%x% %y% %z%",
        "[", "[a", "[a, b", "[a = ]", "[a = 1 && b = 1]", "[..., a, ...]", "[a] x", "[a b]", "[a > x]",
        "a-b", "com.example", "50%", "%a!%", "%(a)%", "%é%", "%[a%", "%%", '"open', "?", "-", "x" * 1025,
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(
        InvalidFilterPattern, match=r"^Invalid (filter pattern|character\(s\) in term '.*')$"
    ):
        parse_filter_pattern(pattern)


def test_nothing_is_nested_without_end() -> None:
    assert match("{ " + "(" * 100 + "$.count = 1000" + ")" * 100 + " }", TRAIL) is not None
    with pytest.raises(InvalidFilterPattern):
        parse_filter_pattern("{ " + "(" * 500)


def test_a_request_has_so_many_steps_and_no_more() -> None:
    budget = MatchingBudget()
    pattern = parse_filter_pattern("%a[a-z]{100}[a-z]{100}b%")
    with pytest.raises(MatchTooLong):  # noqa: PT012 - which of them has no steps left is of no interest
        for _ in range(1000):
            pattern.match("a" * 250_000, budget)
