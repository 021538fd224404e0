"""Prefix expressions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.services.firehose import prefix

AT = datetime(2026, 3, 7, 4, 5, 6, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)


def evaluated(text: str, *, error_type: str = "", time_zone: str = "UTC") -> str:
    return prefix.evaluate(
        text, AT_MS, time_zone=time_zone, random=lambda: "r4nd0m", error_type=error_type
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "2026/03/07/04/"),
        ("data/", "data/2026/03/07/04/"),
        ("y=!{timestamp:yyyy}/m=!{timestamp:MM}/", "y=2026/m=03/"),
        ("!{timestamp:yyyy/MM/dd/HH}/", "2026/03/07/04/"),
        ("!{timestamp:yy-M-d}/", "26-3-7/"),
        ("!{timestamp:'day'-DDD}/", "day-066/"),
        ("y=!{timestamp:YYYY}/m=!{timestamp:MM}/", "y=2026/m=03/"),
        ("!{firehose:random-string}/!{timestamp:HHmmss}/", "r4nd0m/040506/"),
    ],
)
def test_expressions(text: str, expected: str):
    assert evaluated(text) == expected


def test_the_time_zone_moves_the_hour():
    assert evaluated("!{timestamp:dd/HH}/", time_zone="America/New_York") == "06/23/"


def test_the_error_type_is_filled_in():
    text = "errors/!{firehose:error-output-type}/!{timestamp:yyyy}/"
    assert evaluated(text, error_type="format-conversion-failed") == (
        "errors/format-conversion-failed/2026/"
    )


@pytest.mark.parametrize(
    ("text", "error_text", "message"),
    [
        ("!{timestamp:yyyy}/", "", "ErrorOutputPrefix cannot be null or empty"),
        (
            "!{firehose:error-output-type}/",
            "e/!{firehose:error-output-type}/",
            "Prefix must not contain any occurrence of !{firehose:error-output-type}",
        ),
        ("x/", "e/!{timestamp:yyyy}/", "must contain at least one instance"),
        (
            "!{timestamp:RR}/",
            "e/!{firehose:error-output-type}/",
            "Invalid conversion character used in the value",
        ),
        ("x!{timestamp/", "", "Invalid expression usage"),
        ("x" * 513, "", "Length of evaluated prefix cannot be greater than 512"),
        ("!{nonsense:x}/", "e/!{firehose:error-output-type}/", "(nonsense) is an invalid keyword!"),
        (
            "!{partitionKeyFromQuery:k}/",
            "e/!{firehose:error-output-type}/",
            "only be part of a prefix expression when Dynamic Partitioning is enabled",
        ),
        (
            "x/",
            "e/!{firehose:error-output-type}/!{partitionKeyFromLambda:k}/",
            "can't be part of an error prefix expression",
        ),
        (
            "!{firehose:nonsense}/",
            "e/!{firehose:error-output-type}/",
            "Invalid conversion character used in the value of the expression in Prefix",
        ),
    ],
)
def test_what_firehose_refuses(text: str, error_text: str, message: str):
    with pytest.raises(AwsError, match="InvalidArgumentException") as caught:
        prefix.check(text, error_text, time_zone="UTC")
    assert message in caught.value.message


def test_each_random_string_is_a_new_one():
    drawn = iter(["one", "two"])
    text = "!{firehose:random-string}/!{firehose:random-string}/!{timestamp:dd}/"
    found = prefix.evaluate(text, AT_MS, time_zone="UTC", random=lambda: next(drawn))
    assert found == "one/two/07/"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "in/processing-failed/2026/03/07/04/"),
        ("bad/", "bad/2026/03/07/04/"),
        ("bad/!{firehose:error-output-type}/", "bad/processing-failed/"),
    ],
)
def test_error_prefixes(given: str, expected: str):
    text = prefix.build_error_prefix("in/", given, "processing-failed")
    assert evaluated(text, error_type="processing-failed") == expected


@pytest.mark.parametrize("name", ["Mars/Olympus", "America", "../UTC"])
def test_an_unknown_time_zone_is_refused(name: str):
    with pytest.raises(AwsError, match="Invalid CustomTimeZone"):
        prefix.check("", "", time_zone=name)
