"""The event pattern language on Kinesis records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.checks import Filter, InvalidPattern, passes


def record(data: Any, *, key: str = "UA") -> StreamRecord:
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    return StreamRecord("49", key, content, 1_700_000_000_500)


def matches(pattern: dict[str, Any], data: Any, *, key: str = "UA") -> bool:
    return Filter.parse(json.dumps(pattern)).matches(record(data, key=key))


FLIGHT = {"carrier": "UA", "delay": 12, "dest": None, "plane": {"seats": 180}, "stops": ["a", "b"],
          "cancelled": False, "empty": "", "gate": "10.0.0.7"}  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"carrier": ["UA"]}, True),
        ({"carrier": ["AA", "UA"]}, True),
        ({"carrier": ["AA"]}, False),
        ({"carrier": ["UA"], "delay": [13]}, False),
        ({"delay": [12]}, True),
        ({"delay": ["12"]}, False),
        ({"dest": [None]}, True),
        ({"missing": [None]}, False),
        ({"empty": [""]}, True),
        ({"cancelled": [False]}, True),
        ({"cancelled": [0]}, False),
        ({"plane": {"seats": [{"numeric": [">", 100, "<=", 180]}]}}, True),
        ({"plane": {"seats": [{"numeric": ["<", 180]}]}}, False),
        ({"delay": [{"numeric": ["=", 12.0]}]}, True),
        ({"carrier": [{"numeric": [">", 0]}]}, False),
        ({"carrier": [{"prefix": "U"}]}, True),
        ({"carrier": [{"prefix": {"equals-ignore-case": "u"}}]}, True),
        ({"carrier": [{"suffix": "B"}]}, False),
        ({"carrier": [{"equals-ignore-case": "ua"}]}, True),
        ({"carrier": [{"wildcard": "*A"}]}, True),
        ({"carrier": [{"anything-but": ["AA", "DL"]}]}, True),
        ({"carrier": [{"anything-but": "UA"}]}, False),
        ({"carrier": [{"anything-but": {"prefix": "U"}}]}, False),
        ({"missing": [{"anything-but": "UA"}]}, False),
        ({"carrier": [{"exists": True}]}, True),
        ({"missing": [{"exists": False}]}, True),
        ({"plane": {"missing": [{"exists": False}]}}, True),
        ({"nothing": {"missing": [{"exists": False}]}}, True),
        ({"nothing": {"missing": ["x"]}}, False),
        ({"stops": ["b"]}, True),
        ({"stops": ["c"]}, False),
        ({"carrier": [{"anything-but": {"suffix": ["A", "B"]}}]}, False),
        ({"carrier": [{"anything-but": {"wildcard": "A*"}}]}, True),
        ({"carrier": [{"anything-but": {"equals-ignore-case": ["ua"]}}]}, False),
        ({"gate": [{"cidr": "10.0.0.0/24"}]}, True),
        ({"gate": [{"cidr": "10.0.1.0/24"}]}, False),
        ({"carrier": [{"cidr": "10.0.0.0/8"}]}, False),
        ({"$or": [{"carrier": ["AA"]}, {"delay": [12]}]}, True),
        ({"$or": [{"carrier": ["AA"]}, {"delay": [13]}]}, False),
    ],
)
def test_patterns_on_json_data(pattern: dict[str, Any], expected: bool) -> None:
    assert matches({"data": pattern}, FLIGHT) is expected


def test_data_that_is_no_object_matches_no_pattern_on_it() -> None:
    for data in (b"not json", b"[1]", b"7", b""):
        assert not matches({"data": {"a": [{"exists": False}]}}, data)


def test_data_can_be_matched_as_text() -> None:
    assert matches({"data": [{"prefix": "hello"}]}, b"hello world")
    assert not matches({"data": ["hello"]}, b"hello world")


def test_a_pattern_on_text_drops_json_and_what_is_no_text() -> None:
    pattern = {"data": [{"exists": True}]}
    assert matches(pattern, b"plain")
    for data in (b"{}", b'["plain"]', b"\xff"):
        assert not matches(pattern, data)


def test_messages_are_matched_by_body_and_attributes() -> None:
    message = {"body": '{"kind": "late"}', "messageAttributes": {"a": {"stringValue": "x"}}}
    for pattern, expected in (
        ({"body": {"kind": ["late"]}}, True),
        ({"body": {"kind": ["early"]}}, False),
        ({"body": ["late"]}, False),
        ({"messageAttributes": {"a": {"stringValue": ["x"]}}}, True),
    ):
        assert Filter.parse(json.dumps(pattern)).matches_message(message) is expected


def test_the_partition_key_is_matched_whatever_the_data() -> None:
    assert matches({"partitionKey": ["UA"]}, b"\xff")
    assert not matches({"partitionKey": ["UA"]}, b"\xff", key="AA")


def test_alternatives_may_mix_data_and_key() -> None:
    pattern = {"$or": [{"data": {"delay": [12]}}, {"partitionKey": ["DL"]}]}
    assert matches(pattern, FLIGHT)
    assert matches(pattern, b"not json", key="DL")
    assert not matches(pattern, b"not json")


def test_one_filter_of_several_is_enough() -> None:
    filters = [Filter.parse('{"partitionKey":["AA"]}'), Filter.parse('{"partitionKey":["UA"]}')]
    assert passes(record({}), filters)
    assert not passes(record({}, key="DL"), filters)
    assert passes(record({}, key="DL"), [])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "7", "{", '{"data":"x"}', '{"data":[]}', '{"data":[[1]]}', '{"$or":[]}',
     '{"data":{"a":[{"near":1}]}}', '{"data":{"a":[{"numeric":[">"]}]}}',
     '{"data":{"a":[{"numeric":["~",1]}]}}', '{"data":{"a":[{"exists":"yes"}]}}',
     '{"data":{"a":[{"cidr":"10.0.0.1"}]}}', '{"data":{"a":[{"cidr":"ten/8"}]}}',
     '{"data":{"a":[{"prefix":1}]}}', '{"data":{"a":[{"prefix":"a","suffix":"b"}]}}',
     '{"data":{"a":[{"anything-but":[]}]}}', '{"data":{"a":[{"anything-but":{"numeric":[]}}]}}',
     '{"$or":[{"a":["b"]},7]}'],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidPattern):
        Filter.parse(text)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ('{"a":' * 102 + '["x"]' + "}" * 102, "100 deep"),
        ('{"data":{"x":[{"wildcard":"*a*a*a*a*a*a*a"}]}}', "Rule is too complex"),
        ('{"data":{"x":[{"anything-but":{"wildcard":["*a*a*a*a*a*a"]}}]}}', "Rule is too complex"),
        ('{"data":{"x":[{"wildcard":"a**"}]}}', "Consecutive wildcard characters at pos 2"),
    ],
)
def test_what_would_take_long_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern, match=reason):
        Filter.parse(pattern)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_JSON, _JSON)
def test_any_pattern_is_refused_or_answers(pattern: Any, data: Any) -> None:
    try:
        parsed = Filter.parse(json.dumps(pattern))
    except InvalidPattern:
        return
    assert isinstance(parsed.matches(record(data)), bool)
