"""Intrinsic functions (Ref, Fn::Sub, ...): they turn a template's values into plain ones.

A `Scope` gives the values of names. A value that is only known after a resource has been made is UNKNOWN, and so is
every value that it is part of: a change set shows it as known after apply.

The size of what functions produce is bounded: a function takes the size of its result from its scope's allowance before
it makes the result. The depth of values is bounded by that of the template (`template_text`).
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.cloudformation import limits
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.references import (
    get_att_parts,
    sub_names,
    sub_parts,
    substitute,
)

UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
_DYNAMIC_START, _DYNAMIC_END = "{{resolve:", "}}"
# Room for a parameter's name, or a secret's ARN with field and version; a longer text is no reference.
_DYNAMIC_CHARACTERS = 4096
_DYNAMIC_SERVICES = ("ssm", "ssm-secure", "secretsmanager")


class NoValue:
    """The value of `AWS::NoValue`, which removes the property that has it."""


NO_VALUE = NoValue()


@dataclass(slots=True)
class Scope:
    """The values of the names in a template.

    Attributes:
        names: parameters, pseudo parameters and the physical ids of resources.
        attribute: (logical id, attribute) to value; raises TemplateError.
        imported: export name to value; raises TemplateError.
        dynamic: (service, key) of a dynamic reference to its value.
        allowance_bytes: the bytes that functions may still produce.
        decided: the conditions whose values are known.
    """

    names: dict[str, Any]
    attribute: Callable[[str, str], Any]
    imported: Callable[[str], Any]
    dynamic: Callable[[str, str], str]
    conditions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mappings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    allowance_bytes: int = limits.PRODUCED_BYTES
    decided: dict[str, bool] = field(default_factory=dict[str, bool])

    def spend(self, size_bytes: int) -> None:
        """Take the size of a function's result from the allowance. Raises TemplateError."""
        self.allowance_bytes -= size_bytes
        if self.allowance_bytes < 0:
            raise TemplateError(
                f"Template error: functions produce more than {limits.PRODUCED_BYTES:,} bytes, which headrace does"
                " not evaluate"
            )

    def condition(self, name: str) -> bool:
        """Return a condition's value. Raises TemplateError."""
        if name not in self.decided:
            if name not in self.conditions:
                raise TemplateError(
                    f"Template error: unresolved condition dependency {name} in Conditions block of the template"
                )
            self.decided[name] = bool(_evaluate(self.conditions[name], self))
        return self.decided[name]


def evaluate(value: Any, scope: Scope) -> Any:
    """Return `value` with the result of every function in it. Raises TemplateError, ResourceFailed."""
    try:
        return _evaluate(value, scope)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        # A function has an argument of the wrong type: a map for a name, a text for a number.
        raise TemplateError(
            f"Template error: a function has an argument that it does not take ({error})"
        ) from error
    except RecursionError as error:
        raise TemplateError("Template error: functions are nested too deeply") from error


def _evaluate(value: Any, scope: Scope) -> Any:
    if isinstance(value, str):
        return _dynamic(value, scope) if _DYNAMIC_START in value else value
    if isinstance(value, list):
        items = [_evaluate(item, scope) for item in cast("list[Any]", value)]
        return [item for item in items if item is not NO_VALUE]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    if len(mapping) == 1:
        name, argument = next(iter(mapping.items()))
        function = _FUNCTIONS.get(name)
        if function is not None:
            return function(argument, scope)
        if name.startswith("Fn::"):
            raise TemplateError(f"Template error: headrace does not know the function {name}")
    evaluated = {key: _evaluate(item, scope) for key, item in mapping.items()}
    return {key: item for key, item in evaluated.items() if item is not NO_VALUE}


def is_unknown(value: Any) -> bool:
    """Whether a value, or a part of it, is only known later."""
    if isinstance(value, str):
        return UNKNOWN in value
    if isinstance(value, list):
        return any(map(is_unknown, cast("list[Any]", value)))
    if isinstance(value, dict):
        return any(map(is_unknown, cast("dict[str, Any]", value).values()))
    return False


def _dynamic(text: str, scope: Scope) -> str:
    """Replace each `{{resolve:<service>:<key>}}`, from left to right, but none inside a replacement."""
    pieces: list[str] = []
    place = 0
    while (start := text.find(_DYNAMIC_START, place)) >= 0:
        key_start = start + len(_DYNAMIC_START)
        end = text.find(_DYNAMIC_END, key_start, key_start + _DYNAMIC_CHARACTERS)
        if end < 0:
            pieces.append(text[place:key_start])
            place = key_start
            continue
        service, _, key = text[key_start:end].partition(":")
        known = service in _DYNAMIC_SERVICES and key and "}" not in key
        stop = end + len(_DYNAMIC_END) if known else key_start
        pieces += [text[place:start], scope.dynamic(service, key) if known else text[start:stop]]
        scope.spend(len(pieces[-1]) + start - place)
        place = stop
    return "".join([*pieces, text[place:]])


def _ref(argument: Any, scope: Scope) -> Any:
    if argument == "AWS::NoValue":
        return NO_VALUE
    if argument not in scope.names:
        raise TemplateError(
            f"Template format error: Unresolved resource dependencies [{argument}] in the Resources block of the"
            " template"
        )
    value = scope.names[argument]
    scope.spend(size_of(value))
    return value


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes where it is written out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(3 + size_of(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return sum(6 + len(key) + size_of(item) for key, item in pairs)
    return 8


def _get_att(argument: Any, scope: Scope) -> Any:
    if isinstance(argument, list):
        argument = [_evaluate(part, scope) for part in cast("list[Any]", argument)]
    value = scope.attribute(*get_att_parts(argument))
    scope.spend(size_of(value))
    return value


def _list_argument(name: str, argument: Any, scope: Scope, count: int | None = None) -> list[Any]:
    if not isinstance(argument, list) or (
        count is not None and len(cast("list[Any]", argument)) != count
    ):
        raise TemplateError(
            f"Template error: every {name} object requires {count if count is not None else 'a list of'} parameters"
        )
    return [_evaluate(part, scope) for part in cast("list[Any]", argument)]


def _join(argument: Any, scope: Scope) -> Any:
    delimiter, items = _list_argument("Fn::Join", argument, scope, 2)
    if is_unknown(items):
        return UNKNOWN
    if not isinstance(items, list) or not isinstance(delimiter, str):
        raise TemplateError(
            "Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of"
            " strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
        )
    texts = [_scalar(item) for item in cast("list[Any]", items)]
    scope.spend(sum(map(len, texts)) + len(delimiter) * max(0, len(texts) - 1))
    return delimiter.join(texts)


def _scalar(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, dict | list):
        raise TemplateError("Template error: every Fn::Join value must be a string")
    return str(item)


def _sub(argument: Any, scope: Scope) -> Any:
    text, variables = sub_parts(argument)
    values: dict[str, Any] = {}
    for name in sub_names(text):
        if name in variables:
            values[name] = _evaluate(variables[name], scope)
        elif "." in name and name not in scope.names:
            values[name] = scope.attribute(*get_att_parts(name))
        else:
            values[name] = _ref(name, scope)
    if is_unknown(values):
        return UNKNOWN
    texts = {name: _scalar(value) for name, value in values.items()}
    scope.spend(len(text) + sum(len(texts[name]) for name in sub_names(text)))
    filled = substitute(text, texts)
    return _dynamic(filled, scope)


def _select(argument: Any, scope: Scope) -> Any:
    index, items = _list_argument("Fn::Select", argument, scope, 2)
    if is_unknown(items):
        return UNKNOWN
    place = str(index).strip()
    if not isinstance(items, list) or not (place.isascii() and place.isdigit()):
        raise TemplateError(
            "Template error: Fn::Select requires a list argument with two elements: an integer index and a list"
        )
    found = cast("list[Any]", items)
    if len(place) > len(str(len(found))) or int(place) >= len(found):
        raise TemplateError(
            f"Template error: Fn::Select cannot select nonexistent value at index {place[: limits.NUMBER_CHARACTERS]}"
        )
    return found[int(place)]


def _split(argument: Any, scope: Scope) -> Any:
    delimiter, text = _list_argument("Fn::Split", argument, scope, 2)
    if is_unknown(text):
        return [UNKNOWN]
    if not isinstance(text, str) or not isinstance(delimiter, str) or not delimiter:
        raise TemplateError(
            "Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) a string"
            " to be split or a function that returns a string to be split."
        )
    scope.spend(len(text) + 3 * text.count(delimiter))
    return text.split(delimiter)


def _if(argument: Any, scope: Scope) -> Any:
    if not isinstance(argument, list) or len(cast("list[Any]", argument)) != 3:
        raise TemplateError("Template error: Fn::If requires a list argument with three elements")
    name, yes, no = cast("list[Any]", argument)
    return _evaluate(yes if scope.condition(str(name)) else no, scope)


def _equals(argument: Any, scope: Scope) -> bool:
    left, right = _list_argument("Fn::Equals", argument, scope, 2)
    return _loosely(left) == _loosely(right)


def _loosely(value: Any) -> Any:
    # CloudFormation compares texts: 1 equals "1", true equals "true".
    return cast("Any", value) if isinstance(value, dict | list) else _scalar(value)


def _and(argument: Any, scope: Scope) -> bool:
    return all(_conditions("Fn::And", argument, scope))


def _or(argument: Any, scope: Scope) -> bool:
    return any(_conditions("Fn::Or", argument, scope))


def _conditions(name: str, argument: Any, scope: Scope) -> list[bool]:
    if not isinstance(argument, list) or not 2 <= len(cast("list[Any]", argument)) <= 10:
        raise TemplateError(
            f"Template error: every {name} object requires a list of at least 2 and at most 10 boolean parameters."
        )
    return [bool(item) for item in _list_argument(name, argument, scope)]


def _not(argument: Any, scope: Scope) -> bool:
    return not _list_argument("Fn::Not", argument, scope, 1)[0]


def _condition(argument: Any, scope: Scope) -> Any:
    # `Condition` is also an ordinary key, for instance of an IAM statement.
    return (
        scope.condition(argument)
        if isinstance(argument, str)
        else {"Condition": _evaluate(argument, scope)}
    )


def _contains(argument: Any, scope: Scope) -> bool:
    items, wanted = _list_argument("Fn::Contains", argument, scope, 2)
    return wanted in items


def _import_value(argument: Any, scope: Scope) -> Any:
    name = _evaluate(argument, scope)
    if is_unknown(name):
        return UNKNOWN
    value = scope.imported(str(name))
    scope.spend(size_of(value))
    return value


def _find_in_map(argument: Any, scope: Scope) -> Any:
    keys = _list_argument("Fn::FindInMap", argument, scope)
    value: Any = scope.mappings
    for key in keys[:3]:
        if not isinstance(value, Mapping) or not isinstance(key, str) or key not in value:
            raise TemplateError(
                f"Template error: Unable to get mapping for {'::'.join(map(str, keys[:3]))}"
            )
        value = cast("Mapping[str, Any]", value)[key]
    scope.spend(size_of(value))
    return value


def _base64(argument: Any, scope: Scope) -> Any:
    text = _evaluate(argument, scope)
    if is_unknown(text):
        return UNKNOWN
    data = _scalar(text).encode("utf-8", "surrogatepass")
    scope.spend(len(data) * 4 // 3)
    return base64.b64encode(data).decode()


def _get_azs(argument: Any, scope: Scope) -> list[str]:
    region = _evaluate(argument, scope) or scope.names["AWS::Region"]
    return [f"{region}{letter}" for letter in "abc"]


def _cidr(argument: Any, scope: Scope) -> Any:
    arguments = _list_argument("Fn::Cidr", argument, scope)
    if is_unknown(arguments):
        return [UNKNOWN]
    try:
        block, count, *bits = map(str, arguments)
        network = ipaddress.ip_network(block, strict=False)
        prefix = network.max_prefixlen - int(bits[0] if bits else 8)
        wanted = int(count)
        if not 1 <= wanted <= limits.CIDRS:
            raise ValueError(f"count is not between 1 and {limits.CIDRS}")
        if network.prefixlen > prefix or wanted > 1 << (prefix - network.prefixlen):
            raise ValueError(f"{block} does not hold {wanted} blocks of that size")
    except ValueError as error:
        raise TemplateError(
            "Template error: every Fn::Cidr object requires an address block, the number of blocks to make of it and,"
            f" optionally, the bits of each ({error})"
        ) from error
    subnets = network.subnets(new_prefix=prefix)
    return [str(next(subnets)) for _ in range(wanted)]


def _to_json_string(argument: Any, scope: Scope) -> Any:
    value = _evaluate(argument, scope)
    if is_unknown(value):
        return UNKNOWN
    scope.spend(size_of(value))
    text = json.dumps(value, separators=(",", ":"))
    scope.spend(len(text))
    return text


def _length(argument: Any, scope: Scope) -> int:
    return len(_evaluate(argument, scope))


_FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Ref": _ref,
    "Condition": _condition,
    "Fn::GetAtt": _get_att,
    "Fn::Join": _join,
    "Fn::Sub": _sub,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::If": _if,
    "Fn::Equals": _equals,
    "Fn::And": _and,
    "Fn::Or": _or,
    "Fn::Not": _not,
    "Fn::Contains": _contains,
    "Fn::ImportValue": _import_value,
    "Fn::FindInMap": _find_in_map,
    "Fn::Base64": _base64,
    "Fn::GetAZs": _get_azs,
    "Fn::Cidr": _cidr,
    "Fn::ToJsonString": _to_json_string,
    "Fn::Length": _length,
}
