"""JSON Schemas: the columns that a table gets, which records are valid, which schemas are refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from headrace.services.firehose.destinations.json_schema import SchemaRefused, read_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "at"],
    "properties": {
        "id": {"type": "integer", "maximum": 100},
        "n": {"type": "integer"},
        "low": {"type": "integer", "maximum": 5, "minimum": -(2**40)},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "blob": {"type": "string", "contentEncoding": "base64"},
        "p": {"type": "number", "multipleOf": 0.01},
        "d": {"type": "number", "exclusiveMinimum": 0},
        "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 2},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {
            "type": "object",
            "properties": {"a": {"type": ["string", "null"], "pattern": "^a|b$"}},
            "additionalProperties": False,
        },
        "r": {"$ref": "#/definitions/x"},
        "e": {"enum": ["a", "b"]},
        "pair": {"type": "array", "items": {"type": "integer"}, "enum": [[1, 2], [3, 4]]},
        "fixed": {"type": "object", "const": {"a": 1.5, "b": 2}},
    },
    "definitions": {"x": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}},
}
GOOD: dict[str, Any] = {
    "id": 1,
    "at": "2026-01-01T00:00:00Z",
    "p": 1.25,
    "d": 0.5,
    "tags": ["x"],
    "m": {"k": 2},
    "o": {"a": "xb"},
    "r": None,
    "e": "a",
    "pair": [3, 4],
    "fixed": {"b": 2, "a": 1.5},
    "unknown": {"any": "thing"},
}


def test_columns_have_the_types_of_aws_s_table():
    fields = read_schema(json.dumps(SCHEMA), ["n"]).fields
    assert {field["name"]: (field["type"], field["required"]) for field in fields[:8]} == {
        "id": ("int", True),
        "n": ("long", True),
        "low": ("long", False),
        "at": ("timestamptz", True),
        "day": ("date", False),
        "blob": ("binary", False),
        "p": ("decimal(38, 2)", False),
        "d": ("double", False),
    }
    kinds = {field["name"]: field["type"] for field in fields}
    assert (kinds["tags"]["type"], kinds["tags"]["element"]) == ("list", "string")
    assert (kinds["m"]["type"], kinds["m"]["value"]) == ("map", "long")
    assert [(one["name"], one["required"]) for one in kinds["o"]["fields"]] == [("a", False)]
    assert (kinds["r"], kinds["e"]) == ("boolean", "string")
    numbers = [field["id"] for field in fields]
    assert len(set(numbers)) == len(numbers)


def test_a_good_record_is_valid():
    assert read_schema(json.dumps(SCHEMA)).check(GOOD) == ""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"id": 101}, ".id is above the maximum"),
        ({"id": "1"}, ".id is not an integer"),
        ({"id": True}, ".id is not an integer"),
        ({"n": 1.5}, ".n is not an integer"),
        ({"p": 1.255}, ".p is no multiple of 0.01"),
        ({"p": 1e300}, ".p is no multiple of 0.01"),
        ({"d": 0}, ".d is below the minimum"),
        ({"tags": [""]}, ".tags[0] is shorter than 1"),
        ({"tags": ["a", "b", "c"]}, ".tags is longer than 2"),
        ({"m": {"k": "v"}}, ".m.k is not an integer"),
        ({"o": {"a": "c"}}, ".o.a does not match ^a|b$"),
        ({"o": {"z": 1}}, ".o has the property z, which the schema does not allow"),
        ({"r": 1}, ".r is not a boolean"),
        ({"e": "c"}, ".e is none of the allowed values"),
        ({"pair": [1, 4]}, ".pair is none of the allowed values"),
        ({"fixed": {"a": 1.5, "b": 3}}, ".fixed is none of the allowed values"),
        ({"at": None}, ".at is not a string"),
    ],
)
def test_a_record_that_is_not_valid_says_why(change: dict[str, Any], fault: str):
    assert read_schema(json.dumps(SCHEMA)).check({**GOOD, **change}) == fault


def test_records_of_any_form_are_no_failure_of_ours():
    check = read_schema(json.dumps(SCHEMA)).check
    for text in ("[]", "1", "null", "{}", '{"id": 1e2, "at": ""}', '{"id": 1%s}' % ("0" * 400)):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        assert isinstance(check(value), str)


@pytest.mark.parametrize(
    "field",
    [
        {"allOf": []},
        {"$ref": "#/properties/a"},
        {"$ref": "http://example.com/schema"},
        {"type": ["string", "integer"]},
        {"type": "string", "pattern": "("},
        {"type": "integer", "minimum": "x"},
        {"type": "number", "multipleOf": 0},
        {"type": "number", "multipleOf": "x"},
        {"type": {}},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "string", "minLength": "x"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {},
        5,
    ],
)
def test_schemas_that_become_no_table_are_refused(field: Any):
    with pytest.raises(SchemaRefused):
        read_schema(json.dumps({"type": "object", "properties": {"a": field}}))


@pytest.mark.parametrize("text", ["", "[]", '{"type": "object"}', '{"type": "string"}'])
def test_what_describes_no_object_is_refused(text: str):
    with pytest.raises(SchemaRefused):
        read_schema(text)


def test_a_deep_schema_is_refused():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(SchemaRefused, match="levels"):
        read_schema(json.dumps(schema))
