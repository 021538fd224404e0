"""Reads a JSON Schema: the columns that an Iceberg table gets from it, and a check of records against it.

Sources: docs.aws.amazon.com/streams/latest/dev/data-delivery-st-iceberg.html for the types (documented), and
json-schema.org for the check. What AWS's table of types leaves open is marked as assumed. A keyword that changes what
is valid and is not checked here is refused by name, so that no record counts as valid that is not.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.core.values import parse_json

_MOST_LEVELS = 16
_MOST_FIELDS = 10_000
_INT = 2**31
_FORMATS = {"date-time": "timestamptz", "date": "date", "time": "time", "uuid": "uuid"}
# Keywords that say nothing of what is valid, and those that are checked or read.
_NOTES = frozenset((
    "$schema", "$id", "id", "$comment", "$anchor", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "definitions", "$defs", "format", "contentMediaType", "contentEncoding", "javaType",
    "existingJavaType",
))  # fmt: skip
_READ = frozenset((
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "$ref", "oneOf", "anyOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
))  # fmt: skip

Check = Callable[[Any], str]
"""Returns why a value is not valid; "" for a valid one."""


class SchemaRefused(ValueError):
    """A schema cannot become a table; the message is why, in one sentence."""


@dataclass(slots=True)
class Node:
    """A part of a schema.

    Attributes:
        kind: the Iceberg type, in the form of Iceberg's metadata.
        check: see `Check`.
        is_nullable: whether null is valid.
        fields: a struct's fields, in the form of Iceberg's metadata.
    """

    kind: Any
    check: Check
    is_nullable: bool = False
    fields: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A schema of records.

    Attributes:
        fields: the table's columns, in the form of Iceberg's metadata.
        check: returns why a parsed record is not valid; "" for a valid one.
    """

    fields: Sequence[Mapping[str, Any]]
    check: Check


def read_schema(definition: str, required: Sequence[str] = ()) -> RecordSchema:
    """Return the columns and the check of a JSON Schema. Raises SchemaRefused.

    Args:
        definition: the schema's text.
        required: columns that are required although the schema does not say so.
    """
    try:
        document = parse_json(definition, parse_float=Decimal)
    except ValueError as error:
        raise SchemaRefused(f"The schema is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SchemaRefused("The schema is not a JSON object.")
    reader = _Reader(cast("dict[str, Any]", document))
    try:
        node = reader.read(document, 0)
    except (InvalidOperation, TypeError, AttributeError) as error:
        raise SchemaRefused("The schema is no JSON Schema: a keyword has a wrong value.") from error
    if not node.fields:
        raise SchemaRefused("The schema must describe an object with properties.")
    fields = node.fields
    for column in fields:
        column["required"] |= column["name"] in required
    return RecordSchema(fields, node.check)


@dataclass(slots=True)
class _Reader:
    document: Mapping[str, Any]
    last_id: int = 0
    count: int = 0
    following: list[str] = field(default_factory=list[str])

    def read(self, schema: Any, level: int) -> Node:
        """Return what a part says. Raises SchemaRefused."""
        self.count += 1
        if level > _MOST_LEVELS or self.count > _MOST_FIELDS:
            raise SchemaRefused(
                f"The schema has more than {_MOST_LEVELS} levels or {_MOST_FIELDS} parts."
            )
        if not isinstance(schema, dict):
            raise SchemaRefused("A part of the schema is not an object.")
        part = cast("dict[str, Any]", schema)
        unknown = sorted(part.keys() - _NOTES - _READ)
        if unknown:
            raise SchemaRefused(
                f"headrace does not check the keyword {unknown[0][:60]} of JSON Schema."
            )
        if "$ref" in part:
            return self._follow(str(part["$ref"]), level)
        for name in ("oneOf", "anyOf"):
            if name in part:
                return self._read_nullable(name, part, level)
        kinds = part.get("type", "string" if "enum" in part or "const" in part else None)
        names = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
        others = [name for name in names if name != "null"]
        if len(others) != 1:
            raise SchemaRefused(f"A field's type cannot be {json.dumps(kinds)[:100]}.")
        node = self._read_kind(others[0], part, level)
        node.is_nullable = len(others) < len(names)
        return node

    def _follow(self, reference: str, level: int) -> Node:
        if not reference.startswith("#/") or reference in self.following:
            raise SchemaRefused(f"The reference {reference[:100]} cannot be followed.")
        part: Any = self.document
        for name in reference[2:].split("/"):
            name = name.replace("~1", "/").replace("~0", "~")
            part = cast("dict[str, Any]", part).get(name) if isinstance(part, dict) else None
        self.following.append(reference)
        node = self.read(part, level)
        self.following.pop()
        return node

    def _read_nullable(self, keyword: str, part: Mapping[str, Any], level: int) -> Node:
        """Return a field that is one type or null; other unions have no column type (assumed)."""
        values = part[keyword]
        choices = cast("list[Any]", values) if isinstance(values, list) else []
        kinds = [one for one in choices if one != {"type": "null"}]
        if len(kinds) != 1 or len(kinds) == len(choices) or part.keys() & _READ != {keyword}:
            raise SchemaRefused(f"{keyword} can only join one type with null.")
        node = self.read(kinds[0], level)
        node.is_nullable = True
        return node

    def _read_kind(self, name: Any, part: Mapping[str, Any], level: int) -> Node:
        match name:
            case "object":
                return self._read_object(part, level)
            case "array":
                return self._read_array(part, level)
            case "string":
                return Node(_string_kind(part), _check_all(_is_text, _length(part), _pattern(part)))
            case "integer" | "number":
                kind = _integer_kind(part) if name == "integer" else _number_kind(part)
                is_kind = _is_whole if name == "integer" else _is_number
                return Node("string" if "enum" in part else kind, _check_all(is_kind, _range(part)))
            case "boolean":
                return Node("boolean", _check_all(_is_boolean, _choice(part)))
            case _:
                raise SchemaRefused(f"A field's type cannot be {json.dumps(name)[:100]}.")

    def _next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _read_object(self, part: Mapping[str, Any], level: int) -> Node:
        """Read a struct; or a map, of text where the schema does not say more (assumed)."""
        members, extra = part.get("properties"), part.get("additionalProperties", True)
        properties = cast("dict[str, Any]", members) if isinstance(members, dict) else {}
        required = [str(name) for name in cast("list[Any]", part.get("required") or [])]
        sizes = _check_count(part, "Properties")
        known, fields = dict[str, Node](), list[dict[str, Any]]()
        numbers = [self._next_id() for _ in properties or ("key", "value")]
        inner = self.read(extra, level + 1) if isinstance(extra, dict) else _ANY
        for number, (name, one) in zip(numbers, properties.items(), strict=False):
            node = known[name] = self.read(one, level + 1)
            has_value = name in required and not node.is_nullable
            fields.append({"id": number, "name": name, "required": has_value, "type": node.kind})
        kind: dict[str, Any] = {"type": "struct", "fields": fields}
        if not properties:
            kind = {
                "type": "map",
                "key-id": numbers[0],
                "key": "string",
                "value-id": numbers[1],
                "value-required": False,
                "value": inner.kind,
            }

        def check(value: Any) -> str:
            if not isinstance(value, dict):
                return "is not an object"
            items = cast("dict[str, Any]", value)
            missing = next((name for name in required if name not in items), None)
            if missing is not None:
                return f"lacks the required property {missing}"
            for name, item in items.items():
                node = known.get(name)
                if node is None and extra is False:
                    return f"has the property {name[:60]}, which the schema does not allow"
                fault = _check_node(node or inner, item)
                if fault:
                    return _locate(f".{name[:60]}", fault)
            return sizes(items)

        return Node(kind, _check_all(check, _choice(part)), fields=fields)

    def _read_array(self, part: Mapping[str, Any], level: int) -> Node:
        number, items = self._next_id(), part.get("items")
        inner = self.read(items, level + 1) if isinstance(items, dict) else _ANY
        if isinstance(items, list):
            raise SchemaRefused("An array's items must have one schema.")
        kind = {
            "type": "list",
            "element-id": number,
            "element-required": False,
            "element": inner.kind,
        }
        sizes = _check_count(part, "Items")

        def check(value: Any) -> str:
            if not isinstance(value, list):
                return "is not an array"
            for index, item in enumerate(cast("list[Any]", value)):
                fault = _check_node(inner, item)
                if fault:
                    return _locate(f"[{index}]", fault)
            return sizes(value)

        return Node(kind, _check_all(check, _choice(part)))


def _locate(path: str, fault: str) -> str:
    """Return what a fault says of the value at a place; a fault begins with its place within that value, if any."""
    return f"{path}{'' if fault[0] in '.[' else ' '}{fault}"


def _accept(_: Any) -> str:
    return ""


# A part that the schema does not describe: any value is valid, and is stored as text.
_ANY = Node("string", _accept, is_nullable=True)


def _check_node(node: Node, value: Any) -> str:
    return "" if value is None and node.is_nullable else node.check(value)


# --- types ----------------------------------------------------------------------------------------


def _string_kind(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return "string"
    if part.get("format") == "byte" or part.get("contentEncoding") == "base64":
        return "binary"
    return _FORMATS.get(str(part.get("format")), "string")


def _integer_kind(part: Mapping[str, Any]) -> str:
    """Return `int` when a maximum says so (documented); assumed: a minimum below its range makes it `long`."""
    top, least = ([bound for bound, _ in _bounds(part, name)] for name in ("maximum", "minimum"))
    fits = bool(top) and min(top) <= _INT and (not least or max(least) >= -_INT)
    return "int" if fits else "long"


def _number_kind(part: Mapping[str, Any]) -> str:
    step = part.get("multipleOf")
    if step is None:
        return "double"
    exponent = Decimal(str(step)).normalize().as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 39
    if scale > 38:
        raise SchemaRefused(f"multipleOf {step} has more digits than a decimal.")
    # Documented for MSK's channels: decimal(38, scale).
    return f"decimal(38, {scale})"


# --- checks ---------------------------------------------------------------------------------------


def _check_all(*checks: Check) -> Check:
    def check(value: Any) -> str:
        return next(filter(None, (one(value) for one in checks)), "")

    return check


def _is_text(value: Any) -> str:
    return "" if isinstance(value, str) else "is not a string"


def _is_boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "is not a boolean"


def _is_number(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if is_number else "is not a number"


def _is_whole(value: Any) -> str:
    is_whole = not _is_number(value) and value == int(value)
    return "" if is_whole else "is not an integer"


def _choice(part: Mapping[str, Any]) -> Check:
    if "enum" not in part and "const" not in part:
        return _accept
    choices = [part["const"]] if "const" in part else part["enum"]
    if not isinstance(choices, list):
        raise SchemaRefused("enum must be an array.")
    write = functools.partial(json.dumps, default=float, sort_keys=True)
    allowed = [write(one) for one in cast("list[Any]", choices)]
    return lambda value: "" if write(value) in allowed else "is none of the allowed values"


def _length(part: Mapping[str, Any]) -> Check:
    return _check_all(_choice(part), _check_count(part, "Length"))


def _check_count(part: Mapping[str, Any], of: str) -> Check:
    least, most = part.get(f"min{of}"), part.get(f"max{of}")
    for bound in (least, most):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | Decimal)):
            raise SchemaRefused(f"min{of} and max{of} must be numbers.")

    def check(value: Any) -> str:
        if least is not None and len(value) < least:
            return f"is shorter than {least}"
        return f"is longer than {most}" if most is not None and len(value) > most else ""

    return check


def _pattern(part: Mapping[str, Any]) -> Check:
    if "pattern" not in part:
        return _accept
    text = str(part["pattern"])
    try:
        # JSON Schema's patterns match anywhere in the text.
        pattern = java_pattern(rf"[\s\S]*(?:{text})[\s\S]*")
    except PatternRefused as error:
        raise SchemaRefused(f"The pattern {text[:100]} cannot be used: {error}") from error

    def check(value: Any) -> str:
        try:
            return "" if pattern.matches(value) else f"does not match {text[:100]}"
        except MatchTooLong:
            return f"cannot be matched with {text[:100]} in time"

    return check


def _range(part: Mapping[str, Any]) -> Check:
    choice = _choice(part)
    top, least = _bounds(part, "maximum"), _bounds(part, "minimum")
    step = Decimal(str(part["multipleOf"])) if "multipleOf" in part else None
    if step is not None and step <= 0:
        raise SchemaRefused("multipleOf must be above 0.")

    def check(value: Any) -> str:
        number = Decimal(str(value))
        if any(number > bound or (number == bound and not fits) for bound, fits in top):
            return "is above the maximum"
        if any(number < bound or (number == bound and not fits) for bound, fits in least):
            return "is below the minimum"
        if step is not None and number and abs(number.adjusted() - step.adjusted()) > 60:
            return f"is no multiple of {step}"
        if step is not None and (number / step) != (number / step).to_integral_value():
            return f"is no multiple of {step}"
        return choice(value)

    return check


def _bounds(part: Mapping[str, Any], name: str) -> list[tuple[Decimal, bool]]:
    """Return bounds, each with whether it is itself allowed; draft 4 says exclusive with a boolean."""
    exclusive = part.get(f"exclusive{name.capitalize()}", False)
    bounds = [(Decimal(str(part[name])), exclusive is not True)] if name in part else []
    if not isinstance(exclusive, bool):
        bounds.append((Decimal(str(exclusive)), False))
    return bounds
