"""Checks the arguments of a template's functions before any function is evaluated, as ValidateTemplate does.

Pure functions. The sentences are AWS's, as its users report them and as Eucalyptus imitates them; where neither has
one, it is assumed. `functions` checks the values of arguments when it evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.template import (
    FUNCTIONS,
    PSEUDO_PARAMETERS,
    Template,
    mentions,
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


NO_STRING = (
    "Template format error: The Value field of every Outputs member must evaluate to a String"
)


def check_output_value(value: Any, template: Template) -> None:
    """Raise TemplateError for an output's value that cannot be a string."""
    if isinstance(value, list):
        raise TemplateError(f"{NO_STRING} and not a List.")
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    name, argument = next(iter(mapping.items())) if len(mapping) == 1 else ("", "")
    if name != "Ref" and not name.startswith("Fn::"):
        raise TemplateError(f"{NO_STRING} and not a Map.")
    kind = str(template.parameters.get(str(argument), {}).get("Type")) if name == "Ref" else ""
    has_no_value = name == "Ref" and argument == "AWS::NoValue"
    if (
        has_no_value
        or name in (*_LISTS, *_CONDITIONS)
        or kind.startswith(("List<", "CommaDelimitedList"))
    ):
        raise TemplateError(f"{NO_STRING}.")


def _check_conditions(template: Template) -> None:
    known = {*template.parameters, *PSEUDO_PARAMETERS}
    named = {name for _, name, _ in mentions(list(template.conditions.values()))}
    if missing := sorted(named - known):
        raise TemplateError(
            f"Template format error: Unresolved dependencies [{', '.join(missing)}]. Cannot reference resources in the"
            " Conditions block of the template"
        )
