"""Intrinsic functions whose arguments have been evaluated: Fn::Join, Fn::Select, Fn::Cidr and others.

A function takes the size of its result from the allowance before it builds the result. With an UNKNOWN argument, the
result is UNKNOWN.

Checks the arguments of a template's functions before any function is evaluated, as ValidateTemplate does.

Pure functions. The sentences are AWS's, as its users report them and as Eucalyptus imitates them; where neither has
one, it is assumed. `functions` checks the values of arguments when it evaluates them.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, cast

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.produced_values import (
    UNKNOWN,
    Allowance,
    is_unknown,
    scalar,
    substitute,
)
from headrace.services.cloudformation.template.template import (
    FUNCTIONS,
    PSEUDO_PARAMETERS,
    Template,
    mentions,
    sub_names,
)

JOIN = (
    "every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of strings to be joined or a"
    " function that returns a list of strings (such as Fn::GetAZs) to be joined."
)
SPLIT = (
    "every Fn::Split object requires two parameters, (1) a string delimiter and (2) a string to be split or a function"
    " that returns a string to be split."
)
FIND_IN_MAP = (
    "every Fn::FindInMap object requires three parameters, the map name, map key and the attribute for return"
    " value"
)
SELECT = (
    "Fn::Select requires a list argument with two elements: an integer index and a list"  # recorded
)
CIDR = (
    "every Fn::Cidr object requires an address block, the number of blocks to make of it and, optionally, the bits of"
    " each"
)
EQUALS = "every Fn::Equals object requires a list of 2 string parameters."
NOT = "Fn::Not requires a list argument with one element"
_BOOLEANS = "every {} object requires a list of at least 2 and at most 10 boolean parameters."
# The number of arguments that each function takes, and AWS's error for another number.
_COUNTS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Fn::Join": (lambda n: n == 2, JOIN),
    "Fn::Split": (lambda n: n == 2, SPLIT),
    "Fn::Select": (lambda n: n == 2, SELECT),
    "Fn::Equals": (lambda n: n == 2, EQUALS),
    "Fn::Not": (lambda n: n == 1, NOT),
    # The fourth is the default that AWS::LanguageExtensions adds.
    "Fn::FindInMap": (lambda n: n in (3, 4), FIND_IN_MAP),
    "Fn::Cidr": (lambda n: n in (2, 3), CIDR),
    "Fn::If": (lambda n: n == 3, "Fn::If requires a list argument with three elements"),
    "Fn::And": (lambda n: 2 <= n <= 10, _BOOLEANS.format("Fn::And")),
    "Fn::Or": (lambda n: 2 <= n <= 10, _BOOLEANS.format("Fn::Or")),
    "Fn::Contains": (lambda n: n == 2, "every Fn::Contains object requires two parameters"),
}
_EXPORT = re.compile("[a-zA-Z0-9:-]+")
_TEXTS = ("Fn::Base64", "Fn::GetAZs")
_EXTENSIONS = ("Fn::Length", "Fn::ToJsonString")
_ADDED = ("Fn::Transform", "Fn::ForEach", *_EXTENSIONS)
_LISTS = ("Fn::Split", "Fn::GetAZs", "Fn::Cidr")
_CONDITIONS = ("Fn::And", "Fn::Or", "Fn::Not", "Fn::Equals", "Fn::Contains")


def template_error(sentence: str) -> TemplateError:
    """Return the error for a function."""
    return TemplateError(f"Template error: {sentence}")


def build_unsupported_error(name: str) -> TemplateError:
    """Return the error for an unknown function (reported by many)."""
    return template_error(
        f"Encountered unsupported function: {name} Supported functions are: [{', '.join(FUNCTIONS)}]"
    )


def no_string_ref() -> TemplateError:
    """Return the error for a Ref whose argument is not a name (observed by many)."""
    return TemplateError("Template format error: Every Ref object must have a single String value.")


def string_typed(name: str) -> TemplateError:
    """Return the error for a function whose argument is not a string."""
    return template_error(f"every {name} object must have a String-typed value.")


def check_count(name: str, argument: Any) -> None:
    """Raise TemplateError when a function has the wrong number of arguments."""
    if name in _COUNTS:
        fits, sentence = _COUNTS[name]
        if not isinstance(argument, list) or not fits(len(cast("list[Any]", argument))):
            raise template_error(sentence)


def check_forms(template: Template) -> None:
    """Raise TemplateError for a function that is wrong whatever its arguments' values are."""
    for resource in template.resources.values():
        _check_values(resource.get("Properties"), template)
    for output in template.outputs.values():
        _check_values(output.get("Value"), template)
        check_output_value(output.get("Value"), template)
    _check_values(list(template.conditions.values()), template)
    _check_conditions(template)


def check_unextended(template: Template) -> None:
    """Raise TemplateError for a function that only the transform AWS::LanguageExtensions gives."""
    name = _find_extension([template.resources, template.outputs, template.conditions])
    if name:
        raise build_unsupported_error(name)


def _find_extension(value: Any) -> str:
    names = (next(iter(mapping)) for mapping in _objects_in(value) if len(mapping) == 1)
    return next((name for name in names if name in _EXTENSIONS), "")


def check_export(output: str, name: Any, template: Template) -> None:
    """Raise TemplateError for an export whose name, as the template writes it, can never be valid."""
    _check_values(name, template)
    if isinstance(name, dict) and _depends(name, template):
        # Reported with two spaces: aws-cloudformation/cfn-lint#1632.
        raise TemplateError(
            f"Template format error: Output {output} is malformed.  The Name field of Export must not depend on any"
            " resources, imported values, or Fn::GetAZs."
        )
    if not isinstance(name, dict):
        check_export_name(output, name)


def check_export_name(output: str, name: Any) -> None:
    """Raise TemplateError for an export name that AWS refuses (reported: aws/aws-cdk#28563 and others)."""
    if not isinstance(name, str) or not _EXPORT.fullmatch(name):
        raise TemplateError(
            f"Template format error: Output {output} is malformed. The Name field of every Export member must be"
            " specified and consist only of alphanumeric characters, colons, or hyphens."
        )


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a template's value, itself included; no depth is too much."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(cast("list[Any]", one))
        elif isinstance(one, dict):
            mapping = cast("dict[str, Any]", one)
            pending.extend(mapping.values())
            yield mapping


def _check_values(value: Any, template: Template) -> None:
    for mapping in _objects_in(value):
        if len(mapping) == 1:
            _check_function(*next(iter(mapping.items())), template)


def _check_function(name: str, argument: Any, template: Template) -> None:
    if name.startswith("Fn::") and name not in FUNCTIONS and not name.startswith(_ADDED):
        raise build_unsupported_error(name)
    check_count(name, argument)
    if name in _COUNTS:
        _check_arguments(name, cast("list[Any]", argument), template)
    elif name in _TEXTS and isinstance(argument, list):
        raise string_typed(name)
    elif name == "Ref" and not isinstance(argument, str):
        raise no_string_ref()
    elif name == "Fn::ImportValue" and _depends(argument, template):
        raise template_error(
            "the attribute in Fn::ImportValue must not depend on any resources, imported values, or Fn::GetAZs"
        )


def _check_arguments(name: str, arguments: list[Any], template: Template) -> None:
    first = arguments[0]
    if name == "Fn::If" and not isinstance(first, str):
        raise template_error(
            "Fn::If requires a list argument with the first element being a condition"
        )
    if name == "Fn::If" and first not in template.conditions:
        raise template_error(f"unresolved condition dependency {first} in Fn::If")
    # AWS::LanguageExtensions' DefaultValue also replaces a missing map.
    if name == "Fn::FindInMap" and len(arguments) == 3 and isinstance(first, str):
        check_map(first, template.mappings)


def check_map(name: str, mappings: Mapping[str, Any]) -> None:
    """Raise TemplateError when the template has no such map."""
    if name not in mappings:
        raise template_error(
            f"Mapping named '{name}' is not present in the 'Mappings' section of template."
        )


def _depends(argument: Any, template: Template) -> bool:
    """Whether the name of an import depends on resources, other imports or Fn::GetAZs."""
    if any(name in template.resources for _, name, _ in mentions(argument)):
        return True
    others = {"Fn::ImportValue", "Fn::GetAZs"}
    return any(mapping.keys() & others for mapping in _objects_in(argument))


_NO_STRING = (
    "Template format error: The Value field of every Outputs member must evaluate to a String"
)


def output_text(value: Any) -> str:
    """Return an output's value, now that it is known, as text. Raises TemplateError."""
    if isinstance(value, (list, dict)):  # such as an attribute that is a list
        raise TemplateError(f"{_NO_STRING}.")
    return scalar(value)


def check_output_value(value: Any, template: Template) -> None:
    """Raise TemplateError for an output's value that cannot be a string."""
    if isinstance(value, list):
        raise TemplateError(f"{_NO_STRING} and not a List.")
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    name, argument = next(iter(mapping.items())) if len(mapping) == 1 else ("", "")
    if name != "Ref" and not name.startswith("Fn::"):
        raise TemplateError(f"{_NO_STRING} and not a Map.")
    kind = str(template.parameters.get(str(argument), {}).get("Type")) if name == "Ref" else ""
    has_no_value = name == "Ref" and argument == "AWS::NoValue"
    if (
        has_no_value
        or name in (*_LISTS, *_CONDITIONS)
        or kind.startswith(("List<", "CommaDelimitedList"))
    ):
        raise TemplateError(f"{_NO_STRING}.")


def _check_conditions(template: Template) -> None:
    known = {*template.parameters, *PSEUDO_PARAMETERS}
    named = {name for _, name, _ in mentions(list(template.conditions.values()))}
    if missing := sorted(named - known):
        raise TemplateError(
            f"Template format error: Unresolved dependencies [{', '.join(missing)}]. Cannot reference resources in the"
            " Conditions block of the template"
        )


class TemplateContext(Protocol):
    """What functions see of the template that they stand in."""

    @property
    def names(self) -> Mapping[str, Any]:
        """Parameters and pseudo parameters by name."""
        ...

    @property
    def mappings(self) -> Mapping[str, Any]:
        """The template's mappings."""
        ...

    @property
    def allowance(self) -> Allowance:
        """How many bytes functions may still produce."""
        ...


def join(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Join."""
    delimiter, items = arguments
    if is_unknown(items):
        return UNKNOWN
    if not isinstance(items, list) or not isinstance(delimiter, str):
        raise template_error(JOIN)
    texts = [scalar(item) for item in cast("list[Any]", items)]
    context.allowance.take(sum(map(len, texts)) + len(delimiter) * max(0, len(texts) - 1))
    return delimiter.join(texts)


def sub(text: str, values: Mapping[str, Any], context: TemplateContext) -> Any:
    """Fn::Sub, with the values of the names in its text."""
    if is_unknown(values):
        return UNKNOWN
    texts = {name: scalar(value) for name, value in values.items()}
    context.allowance.take(len(text) + sum(len(texts[name]) for name in sub_names(text)))
    return substitute(text, texts)


def select(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Select."""
    index, items = arguments
    if is_unknown(items):
        return UNKNOWN
    index_text = str(index).strip()
    if not isinstance(items, list) or not (index_text.isascii() and index_text.isdigit()):
        raise _not_selectable()
    choices = cast("list[Any]", items)
    if len(index_text) > len(str(len(choices))) or int(index_text) >= len(choices):
        raise _not_selectable()
    return choices[int(index_text)]


def _not_selectable() -> TemplateError:
    # Recorded for all three: the index is not a number, there is no list, or the index is out of range.
    return template_error(SELECT)


def split(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Split."""
    delimiter, text = arguments
    if is_unknown(text):
        return [UNKNOWN]
    if not isinstance(text, str) or not isinstance(delimiter, str) or not delimiter:
        raise template_error(SPLIT)
    context.allowance.take(len(text) + 3 * text.count(delimiter))
    return text.split(delimiter)


def equals(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Equals."""
    left, right = arguments
    return _loosely(left) == _loosely(right)


def _loosely(value: Any) -> Any:
    # CloudFormation compares strings: 1 equals "1", true equals "true".
    return cast("Any", value) if isinstance(value, (dict, list)) else scalar(value)


def negate(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Not."""
    return not arguments[0]


def contains(arguments: list[Any], context: TemplateContext) -> bool:
    """Fn::Contains."""
    items, operands = arguments
    return operands in items


def find_in_map(keys: list[Any], context: TemplateContext) -> Any:
    """Fn::FindInMap; AWS::LanguageExtensions adds `DefaultValue` as a fourth argument."""
    value: Any = context.mappings
    for key in keys[:3]:
        if is_unknown(key):
            return UNKNOWN
        if len(keys) > 3 and (not isinstance(value, Mapping) or key not in value):
            return keys[3]["DefaultValue"]
        if value is context.mappings and isinstance(key, str):
            check_map(key, context.mappings)
        if not isinstance(value, Mapping) or not isinstance(key, str) or key not in value:
            raise TemplateError(
                f"Template error: Unable to get mapping for {'::'.join(map(str, keys[:3]))}"
            )
        value = cast("Mapping[str, Any]", value)[key]
    context.allowance.take_value(value)
    return value


def encode_base64(text: Any, context: TemplateContext) -> Any:
    """Fn::Base64."""
    if is_unknown(text):
        return UNKNOWN
    if isinstance(text, (dict, list)):
        raise string_typed("Fn::Base64")
    data = scalar(text).encode("utf-8", "surrogatepass")
    context.allowance.take(len(data) * 4 // 3)
    return base64.b64encode(data).decode()


def get_azs(region: Any, context: TemplateContext) -> list[str]:
    """Fn::GetAZs."""
    if isinstance(region, (dict, list)):
        raise string_typed("Fn::GetAZs")
    region = region or context.names["AWS::Region"]
    # The zones of another region are not known to the account's region: AWS returns none (measured by others, 2026).
    own = context.names["AWS::Region"]
    return [f"{region}{letter}" for letter in "abc"] if region == own else []


def cidr(arguments: list[Any], context: TemplateContext) -> Any:
    """Fn::Cidr."""
    if is_unknown(arguments):
        return [UNKNOWN]
    try:
        block, count, *bits = map(str, arguments)
        network = ipaddress.ip_network(block, strict=False)
        prefix = network.max_prefixlen - int(bits[0] if bits else 8)
        block_count = int(count)
        if not 1 <= block_count <= errors.CIDRS:
            raise ValueError(f"count is not between 1 and {errors.CIDRS}")
        if network.prefixlen > prefix or block_count > 1 << (prefix - network.prefixlen):
            raise ValueError(f"{block} does not hold {block_count} blocks of that size")
    except ValueError as error:
        raise template_error(f"{CIDR} ({error})") from error
    subnets = network.subnets(new_prefix=prefix)
    return [str(next(subnets)) for _ in range(block_count)]


def to_json_string(value: Any, context: TemplateContext) -> Any:
    """Fn::ToJsonString."""
    if is_unknown(value):
        return UNKNOWN
    context.allowance.take_value(value)
    text = json.dumps(value, separators=(",", ":"))
    context.allowance.take(len(text))
    return text


def length(value: Any, context: TemplateContext) -> int:
    """Fn::Length."""
    return len(value)
