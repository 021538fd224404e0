"""Event patterns against a slow second model of event-ruler's documented algorithm, and on AWS's recorded cases."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event


def matches(pattern: Any, event: Any) -> bool:
    return matches_event(compile_pattern(json.dumps(pattern)), event)


# --- the second model: every leaf with its place in every array, every choice of leaves ---------

Leaf = tuple[str, Any, dict[int, int]]


def leaves(value: Any, path: str, places: dict[int, int], ids: Iterator[int]) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name, places, ids)
    elif isinstance(value, list):
        array = next(ids)
        for place, inner in enumerate(value):
            is_element = isinstance(inner, dict | list)
            yield from leaves(inner, path, {**places, array: place} if is_element else places, ids)
    else:
        yield path, value, places


def rows(pattern: dict[str, Any], path: str = "") -> list[dict[str, Any]]:
    """Return a pattern's alternatives: {path: matchers}."""
    found: list[dict[str, Any]] = [{}]
    for name, value in pattern.items():
        if name == "$or":
            inner = [row for one in value for row in rows(one, path)]
            found = [{**row, **more} for more in inner for row in found]
            continue
        below = f"{path}.{name}" if path else name
        added = rows(value, below) if isinstance(value, dict) else [{below: value}]
        found = [{**row, **more} for more in added for row in found]
    return found


def accepts(matcher: Any, value: Any) -> bool:
    if not isinstance(matcher, dict):
        return type(matcher) is type(value) and matcher == value
    ((kind, operand),) = matcher.items()
    if kind == "exists":
        return bool(operand)
    if kind == "anything-but":
        return not any(accepts(one, value) for one in operand)
    return isinstance(value, str) and value.startswith(operand)


def modelled(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    every = list(leaves(event, "", {}, itertools.count()))
    for row in rows(pattern):
        choices: list[list[dict[int, int]]] = []
        for path, matchers in row.items():
            at = [leaf for leaf in every if leaf[0] == path]
            fitting = [
                places for _, value, places in at if any(accepts(one, value) for one in matchers)
            ]
            if not at and {"exists": False} in matchers:
                fitting = [{}]
            choices.append(fitting)
        for choice in itertools.product(*choices):
            merged: dict[int, int] = {}
            if all(
                merged.setdefault(array, place) == place
                for places in choice
                for array, place in places.items()
            ):
                return True
    return False


_NAMES = st.sampled_from(["a", "b", "a.b", "b.a"])
_SCALARS = st.sampled_from(["x", "xy", "", 1, 2, True, None])
_EVENTS = st.dictionaries(
    _NAMES,
    st.recursive(
        _SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)
_MATCHERS = st.lists(
    _SCALARS
    | st.sampled_from(
        [{"exists": True}, {"exists": False}, {"prefix": "x"}, {"anything-but": ["x"]}]
    ),
    min_size=1,
    max_size=2,
)
_OBJECTS = st.recursive(
    st.dictionaries(_NAMES, _MATCHERS, min_size=1, max_size=2),
    lambda inner: st.dictionaries(_NAMES, inner | _MATCHERS, min_size=1, max_size=3),
    max_leaves=4,
)
_PATTERNS = _OBJECTS | st.builds(
    lambda first, alternatives: {**first, "$or": alternatives},
    _OBJECTS,
    st.lists(_OBJECTS, min_size=2, max_size=3),
)


@given(_PATTERNS, _EVENTS)
def test_matching_is_that_of_event_ruler(pattern: dict[str, Any], event: dict[str, Any]):
    assert matches(pattern, event) is modelled(pattern, event)


# --- arrays of objects --------------------------------------------------------------------------

PEOPLE = [{"f": "Anna", "l": "Smith"}, {"f": "John", "l": "Doe"}]


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [  # the README of event-ruler, "And and Or Relationship among fields with Ruler", "JSON arrays"
        ({"f": ["Anna"], "l": ["Smith"]}, PEOPLE, True),
        ({"f": ["Anna"], "l": ["Doe"]}, PEOPLE, False),
        ({"f": ["Anna"], "l": ["Doe"]}, {"f": "Anna", "l": "Doe"}, True),
        ({"f": ["Anna"]}, [[{"f": "Anna"}]], True),
        ({"f": ["Anna"]}, [{"f": ["x", "Anna"]}], True),
        ({"f": ["Anna"]}, [], False),
        ([{"exists": True}], {"p": 1}, False),
        ([{"exists": True}], [1], True),
        ([{"exists": True}], [], False),
        ([{"exists": False}], [], True),
        ([{"exists": True}], None, True),
        ([{"exists": True}], [{"p": 1}], False),
        ([{"exists": False}], {"p": 1}, True),
        ({"p": [{"exists": True}]}, [{"p": 1}], True),
        ([{"anything-but": ["q"]}], None, True),
        ([{"anything-but": ["q"]}], ["q", "r"], True),
        ([{"anything-but": {"prefix": "q"}}], 7, True),
        ([{"cidr": "10.0.0.0/24"}], 123, False),
    ],
)
def test_values_within_arrays(pattern: Any, value: Any, expected: bool):
    assert matches({"e": pattern}, {"e": value}) is expected


def test_an_evil_event_is_matched_in_time():
    names = "abcdefghij"
    element = dict.fromkeys(names, "x")
    event = {"l": [{**element, name: "y"} for name in names for _ in range(500)]}
    assert not matches({"l": {name: ["x"] for name in names}}, event)
    dotted = {".".join(names[:end]): {} for end in range(1, 11)}
    wide = {f"{'.'.join(names)}.{end}": ["x"] for end in range(20)}
    assert not matches(wide, dotted)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [  # observed: tests/aws/services/events/test_events_patterns.py of LocalStack, recorded in January 2025
        ({"int": 42}, '"int" must be an object or an array'),
        ({"e": [{"NUMERIC": ["=", 5]}]}, "Unrecognized match type NUMERIC"),
        ({"e": []}, "Empty arrays are not allowed"),
        ({"e": [{"numeric": [">", 0, ">", 0]}]}, "Bad numeric range operator: >"),
        ({"e": [{"numeric": [">", 0, "<"]}]}, "Value of < must be numeric"),
        ({"e": [{"numeric": 10}]}, "Value of numeric must be an array."),
        ({"e": [{"equals-ignore-case": ["a"]}]}, "equals-ignore-case match pattern must be a string"),
        ({"e": [{"equals-ignore-case": {"prefix": "a"}}]}, "equals-ignore-case match pattern must be a string"),
        ({"e": [{"cidr": "10.0.0.0"}]}, "Malformed CIDR, one '/' required"),
        ({"e": [{"cidr": "10.0.0.0/xx"}]}, "Malformed CIDR, mask bits must be an integer"),
        ({"e": [{"cidr": "xx.11.xx/8"}]}, "Nonstandard IP address: xx.11.xx"),
        ({"e": [{"cidr": ["bad-type"]}]}, "prefix match pattern must be a string"),
        ({"e": [{"anything-but": {"equals-ignore-case": [123, 456]}}]},
         "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."),
        ({"e": [{"wildcard": 123}]}, "wildcard match pattern must be a string"),
        ({"e": [{"wildcard": ["a"]}]}, "wildcard match pattern must be a string"),
        ({"e": [{"wildcard": "arn:**:x"}]}, "Consecutive wildcard characters at pos 5"),
        ({"e": [{"anything-but": {"wildcard": [123, "a"]}}]}, "wildcard match pattern must be a string"),
        ({"e": [{"anything-but": {"suffix": [123, "a"]}}]}, "prefix/suffix match pattern must be a string"),
        ({"e": [{"anything-but": {"prefix": 123}}]}, "prefix/suffix match pattern must be a string"),
        ({"e": [{"anything-but": {"prefix": {"equals-ignore-case": "a"}}}]},
         "Value of anything-but must be an array or single string/number value."),
        ({"e": [{"anything-but": {"suffix": ""}}]}, "Null prefix/suffix not allowed"),
        ({"e": [{"prefix": ["a"]}]}, "prefix match pattern must be a string"),
        ({"e": [{"suffix": 123}]}, "suffix match pattern must be a string"),
        (["x"], "Filter is not an object"),
        # documented: event-ruler's JsonRuleCompiler
        ({}, "Empty objects are not allowed"),
        ({"e": {}}, "Empty objects are not allowed"),
        ({"e": [["x"]]}, "Match value must be String, number, true, false, or null"),
        ({"e": [{}]}, "Match expression name not found"),
        ({"e": [{"prefix": "a", "suffix": "b"}]}, "Only one key allowed in match expression"),
        ({"e": [{"exists": "yes"}]}, "exists match pattern must be either true or false."),
        ({"e": [{"anything-but": None}]}, "Value of anything-but must be an array or single string/number value."),
        ({"e": [{"anything-but": ["a", 1]}]},
         "Inside anything but list, either all values are number or string, mixed type is not supported"),
        ({"e": [{"anything-but": ["a", None]}]}, "Inside anything but list, start|null|boolean is not supported."),
        ({"e": [{"numeric": ["~", 1]}]}, "Unrecognized numeric range operator: ~"),
        ({"e": [{"numeric": ["=", 1, "<", 2]}]}, "Too many elements in numeric expression"),
        ({"$or": [{"a": ["b"]}]}, "There must have at least 2 Objects in $or relationship."),
        ({"$or": [{"a": ["b"]}, 7]}, "Only JSON object is allowed in array of $or relationship."),
        ({"$or": {"a": ["b"]}}, "It must be an Array followed with $or."),
        ({"a": {"$or": [{"prefix": ["b"]}, {"c": ["d"]}]}},
         "prefix is Ruler reserved fieldName which cannot be used inside $or."),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: Any, reason: str):
    with pytest.raises(BadEventPattern) as caught:
        compile_pattern(json.dumps(pattern))
    assert str(caught.value).partition("\n at [Source")[0] == reason


_EXPECTED = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


@pytest.mark.parametrize(
    ("text", "reason"),
    [  # observed, as above
        ("this is no pattern", f"Unrecognized token 'this': was expecting {_EXPECTED}"),
        ('{"not": closed mark"', f"Unrecognized token 'closed': was expecting {_EXPECTED}"),
        (
            "{'bad': 1}",
            "Unexpected character (''' (code 39)): was expecting double-quote to start field name",
        ),
    ],
)
def test_what_is_no_json_is_refused(text: str, reason: str):
    with pytest.raises(BadEventPattern) as caught:
        compile_pattern(text)
    assert str(caught.value).partition("\n at [Source")[0] == reason


@pytest.mark.parametrize(
    ("text", "place"),
    [  # documented: jackson-core 2.17; AWS's own places are in tests/conformance/others/event_patterns.json
        ('{"a": ["b"]', "line: 1, column: 12"),
        ('{"a": ["b",]}', "line: 1, column: 12"),
        ('{"a" ["b"]}', "line: 1, column: 6"),
        ('{"a": ["b"}', "line: 1, column: 11"),
        ('{"a": ["\\x"]}', "line: 1, column: 10"),
        ('{\n "a":\r\n 1}', "line: 3, column: 3"),
        ('{"\U0001f600": 1}', "line: 1, column: 9"),
    ],
)
def test_a_refusal_says_where(text: str, place: str):
    with pytest.raises(BadEventPattern) as caught:
        compile_pattern(text)
    assert str(caught.value).endswith(f'\n at [Source: (String)"{text}"; {place}]')


def test_a_long_source_is_cut():
    text = json.dumps({"a": "b" * 600})
    with pytest.raises(BadEventPattern, match=r"\[truncated 109 chars\]; line: 1, column: 8\]$"):
        compile_pattern(text)


def test_alternatives_are_bounded():
    either = {"$or": [{"a": ["x"]}, {"b": ["x"]}]}
    assert len(compile_pattern(json.dumps({f"k{i}": either for i in range(9)}))) == 512
    with pytest.raises(BadEventPattern, match="more than 1000 combinations"):
        compile_pattern(json.dumps({f"k{i}": either for i in range(12)}))
