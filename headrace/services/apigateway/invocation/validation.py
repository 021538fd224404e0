"""Validates requests to REST APIs: required parameters, and bodies against the API's models.

Documented: docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-method-request-validation.html. Models are
JSON Schema, draft 4; `format` is not checked (assumed). `$context.error.validationErrorString` has the sentences of
json-schema-validator, the Java library, as users of API Gateway quote them (observed by others).
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, cast

from headrace.core.evaluation import Budget, TooMuch, bound_parsed_bytes
from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused
from headrace.core.values import parse_json
from headrace.services.apigateway.invocation.integrations import Refused
from headrace.services.apigateway.invocation.mappings import RequestValues, members, read_parts

log = logging.getLogger(__name__)

_ANY_TYPE = "$default"
_MOST_ERRORS = 20
# The address by which an API's models refer to each other.
MODELS = "https://apigateway.amazonaws.com/restapis/"
# What an imported definition calls its schemas, which are the API's models.
_SCHEMAS = ("#/definitions/", "#/components/schemas/")


class _Unusable(Exception):
    """A model cannot be applied; the message is why."""


def check_request(
    method: Mapping[str, Any], models: Mapping[str, str], values: RequestValues
) -> None:
    """Refuse a request that the method's validator refuses. Raises Refused.

    Args:
        method: the method in the form of `RestApi.resources`.
        models: the schemas of the API's models, as JSON texts by their names.
        values: the request; its body as text.
    """
    validator: Mapping[str, Any] = method["validator"]
    if validator.get("validateRequestParameters"):
        with read_parts(values.body, values.caller) as body:
            absent = [
                source.split(".", 3)[-1]
                for source, is_required in method["requestParameters"].items()
                if is_required in (True, "true") and not values.parameter(source, body)
            ]
        if absent:
            raise Refused(
                400,
                f"Missing required request parameters: [{', '.join(absent)}]",
                "BadRequestException",
                response_type="BAD_REQUEST_PARAMETERS",
            )
    if not validator.get("validateRequestBody"):
        return
    by_type: Mapping[str, str] = method["requestModels"]
    kind = values.header.get("content-type", "").partition(";")[0].strip() or "application/json"
    # Documented: without a model for the content type there is no validation.
    name = by_type.get(kind) or by_type.get(_ANY_TYPE, "")
    errors = _find_errors(name, models, values) if name in models else []
    if errors:
        raise Refused(
            400,
            "Invalid request body",
            "BadRequestException",
            response_type="BAD_REQUEST_BODY",
            details=f"[{', '.join(errors)}]",
        )


def _find_errors(name: str, models: Mapping[str, str], values: RequestValues) -> list[str]:
    """Return what is wrong with a body, the first errors only. Raises Refused for a model that cannot be applied."""
    try:
        with Budget(values.caller) as budget:
            try:
                budget.make(bound_parsed_bytes(values.body))
                body = json.loads(values.body)
            except (ValueError, RecursionError):
                return ["Unable to parse JSON"]
            errors = _Validation(models, budget).errors_of(name, body)
            return list(itertools.islice(errors, _MOST_ERRORS))
    except (TooMuch, MatchTooLong, PatternRefused, RecursionError, _Unusable) as error:
        log.warning("The model %s cannot be applied to a request: %s", name, error)
        raise Refused(500, "Internal server error", "InternalServerErrorException") from error


class _Validation:
    """The validation of one body, within a budget; its generators raise what `_find_errors` catches."""

    def __init__(self, models: Mapping[str, str], budget: Budget) -> None:
        self._models, self._budget = models, budget
        self._patterns = MatchingBudget()
        self._parsed: dict[str, Any] = {}

    def errors_of(self, model: str, value: Any) -> Iterator[str]:
        """Yield what a model does not allow in a value."""
        return self._errors(self._root(model), value, model)

    def _root(self, model: str) -> Any:
        if model not in self._parsed:
            try:
                self._parsed[model] = parse_json(self._models[model] or "{}")
            except (KeyError, ValueError) as error:
                raise _Unusable(f"there is no schema {model}") from error
        return self._parsed[model]

    def _resolve(self, target: str, model: str) -> tuple[Any, str]:
        """Return the schema at a reference in a model's schema, and the model that it is in."""
        path = target
        if target.startswith(MODELS):
            return self._root(target.rpartition("/")[2]), target.rpartition("/")[2]
        prefix = next((prefix for prefix in _SCHEMAS if target.startswith(prefix)), "")
        first, _, rest = target.removeprefix(prefix).partition("/")
        own = members(members(self._root(model)).get("definitions"))
        if prefix and first not in own and first in self._models:
            model, path = first, f"#/{rest}"
        schema = self._root(model)
        for part in filter(None, path.removeprefix("#").split("/")):
            name = part.replace("~1", "/").replace("~0", "~")
            schema = members(schema).get(name)
        if not path.startswith("#") or not isinstance(schema, dict):
            raise _Unusable(f"there is no schema {target}")
        return cast("Any", schema), model

    def _is_valid(self, schema: Any, value: Any, model: str) -> bool:
        return next(self._errors(schema, value, model), None) is None

    def _errors(self, schema: Any, value: Any, model: str) -> Iterator[str]:
        self._budget.step()
        if not isinstance(schema, dict):
            return
        keywords = cast("dict[str, Any]", schema)
        if isinstance(keywords.get("$ref"), str):
            target, model = self._resolve(keywords["$ref"], model)
            yield from self._errors(target, value, model)
            return
        yield from _type_and_enum(keywords, value)
        if isinstance(value, str):
            yield from self._text(keywords, value)
        elif _is_number(value):
            yield from _number(keywords, value)
        elif isinstance(value, list):
            yield from self._array(keywords, cast("list[Any]", value), model)
        elif isinstance(value, dict):
            yield from self._object(keywords, cast("dict[str, Any]", value), model)
        yield from self._combinations(keywords, value, model)

    def _combinations(self, schema: Mapping[str, Any], value: Any, model: str) -> Iterator[str]:
        for part in _get_list(schema, "allOf"):
            yield from self._errors(part, value, model)
        any_of, one_of = _get_list(schema, "anyOf"), _get_list(schema, "oneOf")
        if any_of and not any(self._is_valid(part, value, model) for part in any_of):
            yield f"instance failed to match at least one required schema among {len(any_of)}"
        matched = sum(self._is_valid(part, value, model) for part in one_of)
        if one_of and matched != 1:
            yield f"instance failed to match exactly one schema (matched {matched} out of {len(one_of)})"
        if "not" in schema and self._is_valid(schema["not"], value, model):
            yield "instance matched a schema which it should not have"

    def _text(self, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        least, most, size = _count(schema, "minLength"), _count(schema, "maxLength"), len(value)
        if least is not None and size < least:
            yield f"string {_json(value)} is too short (length: {size}, required minimum: {least})"
        if most is not None and size > most:
            yield f"string {_json(value)} is too long (length: {size}, maximum allowed: {most})"
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not self._finds(pattern, value):
            yield f"ECMA 262 regex {_json(pattern)} does not match input string {_json(value)}"

    def _finds(self, pattern: str, text: str) -> bool:
        # JSON Schema's patterns match anywhere in the text.
        return self._patterns.matches(rf"[\s\S]*(?:{pattern})[\s\S]*", text)

    def _array(self, schema: Mapping[str, Any], value: list[Any], model: str) -> Iterator[str]:
        least, most, size = _count(schema, "minItems"), _count(schema, "maxItems"), len(value)
        if least is not None and size < least:
            yield f"array is too short: must have at least {least} elements but instance has {size} elements"
        if most is not None and size > most:
            yield f"array is too long: must have at most {most} elements but instance has {size} elements"
        if schema.get("uniqueItems") is True:
            self._budget.step(size)
            if len({json.dumps(item, sort_keys=True) for item in value}) < size:
                yield "array must not contain duplicate elements"
        items, more = schema.get("items"), schema.get("additionalItems")
        if not isinstance(items, list):
            for item in value if isinstance(items, dict) else ():
                yield from self._errors(items, item, model)
            return
        parts = cast("list[Any]", items)
        for part, item in zip(parts, value, strict=False):
            yield from self._errors(part, item, model)
        if more is False and size > len(parts):
            yield f"array has too many elements: {size}, at most {len(parts)} are allowed"
        for item in value[len(parts) :] if isinstance(more, dict) else ():
            yield from self._errors(more, item, model)

    def _object(
        self, schema: Mapping[str, Any], value: dict[str, Any], model: str
    ) -> Iterator[str]:
        absent = sorted(str(name) for name in _get_list(schema, "required") if name not in value)
        if absent:
            yield f"object has missing required properties ({_json(absent)})"
        least, most = _count(schema, "minProperties"), _count(schema, "maxProperties")
        if least is not None and len(value) < least:
            yield f"object has too few properties (found {len(value)} but schema requires at least {least})"
        if most is not None and len(value) > most:
            yield f"object has too many properties (found {len(value)} but schema requires at most {most})"
        yield from self._properties(schema, value, model)
        for name, needed in members(schema.get("dependencies")).items():
            if name not in value:
                continue
            if isinstance(needed, dict):
                yield from self._errors(needed, value, model)
                continue
            names = sorted(str(one) for one in needed if one not in value)
            if names:
                yield f"property {_json(name)} of object has missing property dependencies (missing: {_json(names)})"

    def _properties(
        self, schema: Mapping[str, Any], value: dict[str, Any], model: str
    ) -> Iterator[str]:
        known, patterns = (
            members(schema.get("properties")),
            members(schema.get("patternProperties")),
        )
        more, surplus = schema.get("additionalProperties"), list[str]()
        for name, item in value.items():
            parts = [part for pattern, part in patterns.items() if self._finds(pattern, name)]
            parts += [known[name]] if name in known else []
            if not parts and more is False:
                surplus.append(name)
            for part in parts or [more]:
                yield from self._errors(part, item, model)
        if surplus:
            yield f"object instance has properties which are not allowed by the schema: {_json(sorted(surplus))}"


# --- values --------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(schema: Mapping[str, Any], keyword: str) -> int | None:
    value = schema.get(keyword)
    return value if isinstance(value, int) else None


def _limit(schema: Mapping[str, Any], keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if _is_number(value) else None


def _get_list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return cast("list[Any]", value) if isinstance(value, list) else []


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def _type_and_enum(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    kind = schema.get("type")
    allowed = [kind] if isinstance(kind, str) else cast("list[str]", kind or [])
    if allowed and not any(name in _KINDS and _KINDS[name](value) for name in allowed):
        # The library takes "number" for both.
        names = sorted({*allowed, *(["integer"] if "number" in allowed else [])})
        own = next(name for name, holds in _KINDS.items() if holds(value))
        yield f"instance type ({own}) does not match any allowed primitive type (allowed: {_json(names)})"
    values = schema.get("enum")
    if isinstance(values, list) and _json(value) not in [
        _json(item) for item in cast("list[Any]", values)
    ]:
        yield f"instance value ({_json(value)}) not found in enum (possible values: {_json(values)})"


def _number(schema: Mapping[str, Any], value: float) -> Iterator[str]:
    least, most, step = (_limit(schema, name) for name in ("minimum", "maximum", "multipleOf"))
    if least is not None:
        if value < least:
            yield f"numeric instance is lower than the required minimum (minimum: {least}, found: {value})"
        elif value == least and schema.get("exclusiveMinimum") is True:
            yield f"numeric instance is not strictly greater than the required minimum {least}"
    if most is not None:
        if value > most:
            yield f"numeric instance is greater than the required maximum (maximum: {most}, found: {value})"
        elif value == most and schema.get("exclusiveMaximum") is True:
            yield f"numeric instance is not strictly lower than the required maximum {most}"
    if step and step > 0 and not _divides(step, value):
        yield f"remainder of division is not zero ({value} / {step})"


def _divides(step: float, value: float) -> bool:
    try:
        return Decimal(repr(value)) % Decimal(repr(step)) == 0
    except ArithmeticError:
        # A quotient of more digits than Decimal's, or an infinite value.
        return False
