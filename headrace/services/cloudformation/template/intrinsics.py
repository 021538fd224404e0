"""Evaluates intrinsic functions (Ref, Fn::Sub, ...) in a template's values.

A `Scope` gives the values of names. A value that is only known after a resource has been created is UNKNOWN, and so is
every value that contains it: a change set shows it as known after apply.

The size of what functions produce is bounded: a function takes the size of its result from its scope's allowance before
it builds the result. The depth of values is bounded by that of the template (`template_text`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template import functions
from headrace.services.cloudformation.template.function_checks import (
    build_unsupported_error,
    check_count,
    no_string_ref,
)
from headrace.services.cloudformation.template.functions import (
    NO_VALUE,
    UNKNOWN,
    Allowance,
    is_unknown,
)
from headrace.services.cloudformation.template.template import get_att_parts, sub_names, sub_parts

_DYNAMIC_START, _DYNAMIC_END = "{{resolve:", "}}"
# Long enough for a parameter's name, or a secret's ARN with field and version; longer text is no reference.
_DYNAMIC_CHARACTERS = 4096
_DYNAMIC_SERVICES = ("ssm", "ssm-secure", "secretsmanager")


@dataclass(slots=True)
class Scope:
    """The values of the names in a template.

    Attributes:
        names: parameters, pseudo parameters and the physical ids of resources.
        attribute: (logical id, attribute) to value; raises TemplateError.
        imported: export name to value; raises TemplateError.
        dynamic: (service, key) of a dynamic reference to its value.
        allowance: how many bytes functions may still produce.
        decided: the conditions whose values are known.
    """

    names: dict[str, Any]
    attribute: Callable[[str, str], Any]
    imported: Callable[[str], Any]
    dynamic: Callable[[str, str], str]
    conditions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mappings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    allowance: Allowance = field(default_factory=Allowance)
    decided: dict[str, bool] = field(default_factory=dict[str, bool])

    def condition(self, name: str) -> bool:
        """Return a condition's value. Raises TemplateError."""
        if name not in self.decided:
            if name not in self.conditions:
                raise TemplateError(
                    f"Template error: unresolved condition dependency {name} in Conditions block of the template"
                )
            self.decided[name] = bool(_evaluate(self.conditions[name], self))
        return self.decided[name]


_Function = Callable[[Any, Scope], Any]
_Evaluated = Callable[[Any, Scope], Any]


def build_unresolved_error(name: str) -> TemplateError:
    """Return the error for a name whose resource does not exist, or whose condition is false."""
    return TemplateError(
        f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the template"
    )


def evaluate(value: Any, scope: Scope) -> Any:
    """Return `value` with the result of every function in it. Raises TemplateError, ResourceFailed."""
    try:
        return _evaluate(value, scope)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        # A function has an argument of the wrong type: a map instead of a name, text instead of a number.
        raise TemplateError(
            f"Template error: a function has an argument that it does not take ({error})"
        ) from error
    except RecursionError as error:
        raise TemplateError("Template error: functions are nested too deeply") from error


def evaluate_whole(value: Any, scope: Scope) -> Any:
    """Return the value of a whole section of a resource; an empty object for `AWS::NoValue`.

    Raises as `evaluate`.
    """
    evaluated = evaluate(value, scope)
    return {} if evaluated is NO_VALUE else evaluated


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
            raise build_unsupported_error(name)
    evaluated = {key: _evaluate(item, scope) for key, item in mapping.items()}
    return {key: item for key, item in evaluated.items() if item is not NO_VALUE}


def _dynamic(text: str, scope: Scope) -> str:
    """Replace each `{{resolve:<service>:<key>}}` once, from left to right; a replacement is not resolved again."""
    pieces: list[str] = []
    offset = 0
    while (start := text.find(_DYNAMIC_START, offset)) >= 0:
        key_start = start + len(_DYNAMIC_START)
        end = text.find(_DYNAMIC_END, key_start, key_start + _DYNAMIC_CHARACTERS)
        if end < 0:
            pieces.append(text[offset:key_start])
            offset = key_start
            continue
        service, _, key = text[key_start:end].partition(":")
        known = service in _DYNAMIC_SERVICES and key and "}" not in key
        stop = end + len(_DYNAMIC_END) if known else key_start
        pieces += [text[offset:start], scope.dynamic(service, key) if known else text[start:stop]]
        scope.allowance.take(len(pieces[-1]) + start - offset)
        offset = stop
    return "".join([*pieces, text[offset:]])


def _ref(argument: Any, scope: Scope) -> Any:
    if argument == "AWS::NoValue":
        return NO_VALUE
    if not isinstance(argument, str):
        raise no_string_ref()
    if argument not in scope.names:
        raise build_unresolved_error(argument)
    value = scope.names[argument]
    scope.allowance.take_value(value)
    return value


def _get_att(argument: Any, scope: Scope) -> Any:
    if isinstance(argument, list):
        argument = [_evaluate(part, scope) for part in cast("list[Any]", argument)]
    value = scope.attribute(*get_att_parts(argument))
    scope.allowance.take_value(value)
    return value


def _list_argument(name: str, argument: Any, scope: Scope) -> list[Any]:
    check_count(name, argument)
    return [_evaluate(part, scope) for part in cast("list[Any]", argument)]


def _sub(argument: Any, scope: Scope) -> Any:
    text, variables = sub_parts(argument)
    values: dict[str, Any] = {}
    for name in sub_names(text):
        if name in variables:
            values[name] = _evaluate(variables[name], scope)
            if values[name] is NO_VALUE:
                raise TemplateError(
                    "Template error: every value of the context object of every Fn::Sub object must be a string or a"
                    " function that returns a string"
                )
        elif "." in name and name not in scope.names:
            values[name] = scope.attribute(*get_att_parts(name))
        else:
            values[name] = _ref(name, scope)
    filled = functions.sub(text, values, scope)
    return _dynamic(filled, scope) if _DYNAMIC_START in filled else filled


def _if(argument: Any, scope: Scope) -> Any:
    check_count("Fn::If", argument)
    name, yes, no = cast("list[Any]", argument)
    return _evaluate(yes if scope.condition(str(name)) else no, scope)


def _and(argument: Any, scope: Scope) -> bool:
    return all(_conditions("Fn::And", argument, scope))


def _or(argument: Any, scope: Scope) -> bool:
    return any(_conditions("Fn::Or", argument, scope))


def _conditions(name: str, argument: Any, scope: Scope) -> list[bool]:
    return [bool(item) for item in _list_argument(name, argument, scope)]


def _condition(argument: Any, scope: Scope) -> Any:
    # `Condition` is also an ordinary key, for instance in an IAM statement.
    return (
        scope.condition(argument)
        if isinstance(argument, str)
        else {"Condition": _evaluate(argument, scope)}
    )


def _import_value(argument: Any, scope: Scope) -> Any:
    name = _evaluate(argument, scope)
    if is_unknown(name):
        return UNKNOWN
    value = scope.imported(str(name))
    scope.allowance.take_value(value)
    return value


def _of_list(name: str, function: _Evaluated) -> _Function:
    """Return the evaluation of a function of a list, whose items are evaluated first."""
    return lambda argument, scope: function(_list_argument(name, argument, scope), scope)


def _of_value(function: _Evaluated) -> _Function:
    """Return the evaluation of a function of a value, which is evaluated first."""
    return lambda argument, scope: function(_evaluate(argument, scope), scope)


_plain_join = _of_list("Fn::Join", functions.join)


def _join(argument: Any, scope: Scope) -> Any:
    """Join, and resolve a dynamic reference that the parts form, as CDK writes those to its own secrets."""
    joined = _plain_join(argument, scope)
    parts: Any = cast("list[Any]", argument)[1]
    begins = isinstance(parts, list) and any(
        isinstance(part, str) and part.rfind(_DYNAMIC_START) > part.rfind(_DYNAMIC_END)
        for part in cast("list[Any]", parts)
    )
    return _dynamic(joined, scope) if begins and isinstance(joined, str) else joined


_FUNCTIONS: dict[str, _Function] = {
    "Ref": _ref,
    "Condition": _condition,
    "Fn::GetAtt": _get_att,
    "Fn::Join": _join,
    "Fn::Sub": _sub,
    "Fn::Select": _of_list("Fn::Select", functions.select),
    "Fn::Split": _of_list("Fn::Split", functions.split),
    "Fn::If": _if,
    "Fn::Equals": _of_list("Fn::Equals", functions.equals),
    "Fn::And": _and,
    "Fn::Or": _or,
    "Fn::Not": _of_list("Fn::Not", functions.negate),
    "Fn::Contains": _of_list("Fn::Contains", functions.contains),
    "Fn::ImportValue": _import_value,
    "Fn::FindInMap": _of_list("Fn::FindInMap", functions.find_in_map),
    "Fn::Base64": _of_value(functions.encode_base64),
    "Fn::GetAZs": _of_value(functions.get_azs),
    "Fn::Cidr": _of_list("Fn::Cidr", functions.cidr),
    "Fn::ToJsonString": _of_value(functions.to_json_string),
    "Fn::Length": _of_value(functions.length),
}
