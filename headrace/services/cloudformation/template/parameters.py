"""What a template takes and gives: checks a request's parameter values, and evaluates outputs. Pure functions.

A template's rules say what its parameters must be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused
from headrace.core.values import get_list
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import (
    NoSuchAttribute,
    ResourceFailed,
    TemplateError,
    too_long,
)
from headrace.services.cloudformation.template.functions import (
    check_export_name,
    check_output_value,
    output_text,
)
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate
from headrace.services.cloudformation.template.template import Template


def check_rules(template: Template, scope: Scope) -> None:
    """Raise TemplateError when a rule's assertion does not hold."""
    for rule in template.rules.values():
        condition = rule.get("RuleCondition")
        if condition is not None and not evaluate(condition, scope):
            continue
        for assertion in get_list(rule, "Assertions"):
            if not evaluate(assertion["Assert"], scope):
                described = assertion.get("AssertDescription", "an assertion failed")
                raise TemplateError(f"Template constraint violation: {described}")


def evaluate_outputs(template: Template, scope: Scope) -> list[dict[str, str]]:
    """Return a template's outputs in the API's form. Raises TemplateError, ResourceFailed."""
    outputs: list[dict[str, str]] = []
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        try:
            value = evaluate(output["Value"], scope)
        except NoSuchAttribute as error:
            raise _at_its_place(f"/Outputs/{name}/Value", output["Value"], error) from error
        entry = {"OutputKey": name, "OutputValue": output_text(value)}
        if output.get("Description"):
            entry["Description"] = str(output["Description"])
        if output.get("Export"):
            entry["ExportName"] = str(evaluate(output["Export"]["Name"], scope))
        outputs.append(entry)
    return outputs


def check_outputs(template: Template, scope: Scope) -> None:
    """Raise TemplateError for what AWS refuses in outputs and what depends on no resource: export names, no value."""
    for name, output in template.outputs.items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        check_output_value(_choose_branch(output["Value"], scope), template)
        if output.get("Export"):
            check_export_name(name, evaluate(output["Export"]["Name"], scope))


def _choose_branch(value: Any, scope: Scope) -> Any:
    """Return the branch of an output's value that its conditions choose."""
    while isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["Fn::If"]:
        name, yes, no = cast("list[Any]", value["Fn::If"])
        value = yes if scope.condition(str(name)) else no
    return cast("Any", value)


def _at_its_place(path: str, value: Any, error: NoSuchAttribute) -> ResourceFailed:
    """Return the error for an attribute, with the path of its Fn::GetAtt in the template (recorded)."""
    expected = [error.logical_id, *error.name.split(".")]
    for where, path_found in _attributes(path, value):
        parts = (
            path_found.split(".")
            if isinstance(path_found, str)
            else ".".join(map(str, path_found)).split(".")
        )
        if parts == expected:
            path = where
            break
    return ResourceFailed(
        f"[Error] {path}: Resource type {error.kind} does not support attribute {{{error.name}}}."
    )


def _attributes(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each Fn::GetAtt in a value with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "Fn::GetAtt" and isinstance(item, (str, list)):
                yield f"{path}/{key}", cast("Any", item)
            else:
                yield from _attributes(f"{path}/{key}", item)
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _attributes(f"{path}/{at}", item)


HIDDEN = "****"
_SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's value as given, its SSM value if its type reads SSM, and whether to hide it."""

    value: str
    resolved: str | None = None
    no_echo: bool = False
    is_list: bool = False

    @property
    def effective(self) -> Any:
        """The value that `Ref` returns."""
        text = self.value if self.resolved is None else self.resolved
        return [item.strip() for item in text.split(",")] if self.is_list else text


def effective_values(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Ref` returns for each of a stack's stored parameters."""
    return {name: Parameter(**value).effective for name, value in stored.items()}


def resolve(
    declared: Mapping[str, Any],
    values: Mapping[str, str],
    previous: Mapping[str, str],
    use_previous: set[str],
    read_ssm: Callable[[str], str],
) -> dict[str, Parameter]:
    """Return every declared parameter's value. Raises TemplateError."""
    for number, value in enumerate(values.values(), 1):
        member = f"parameters.{number}.member.parameterValue"
        if refusal := too_long(value, member, errors.PARAMETER_VALUE_BYTES):
            raise refusal
    unknown = sorted(set(values) - set(declared))
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    missing: list[str] = []
    parameters: dict[str, Parameter] = {}
    budget = MatchingBudget()
    for name, declaration in declared.items():
        if name in use_previous and name in previous:
            value: str | None = previous[name]
        else:
            value = values.get(name)
            if value is None and "Default" in declaration:
                value = _text(declaration["Default"])
        if value is None:
            if _SSM_VALUE.fullmatch(str(declaration.get("Type"))):  # recorded
                raise TemplateError(
                    f"Parameter {name} should either have input value or default value"
                )
            missing.append(name)
            continue
        parameters[name] = _check_value(name, declaration, value, read_ssm, budget)
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(sorted(missing))}] must have values")
    return parameters


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))  # type: ignore[arg-type]
    return str(value)


def _check_value(
    name: str,
    declaration: Mapping[str, Any],
    value: str,
    read_ssm: Callable[[str], str],
    budget: MatchingBudget,
) -> Parameter:
    if too_long(value, name, errors.PARAMETER_VALUE_BYTES):
        raise TemplateError(
            f"Template format error: The default of parameter '{name}' is longer than"
            f" {errors.PARAMETER_VALUE_BYTES} bytes."
        )
    kind = str(declaration.get("Type", "String"))
    ssm = _SSM_VALUE.fullmatch(kind)
    resolved = None
    if ssm is not None:
        resolved = read_ssm(value)
        kind = ssm.group(1)
    allowed = declaration.get("AllowedValues")
    if allowed is not None and value not in [_text(item) for item in allowed]:
        shown = ", ".join(_text(item) for item in allowed)
        raise _build_refusal(name, declaration, f"must be one of AllowedValues [{shown}]")
    pattern = declaration.get("AllowedPattern")
    # A list's pattern must match each of its items (documented: parameters-section-structure).
    items = [item.strip() for item in value.split(",")] if kind == "CommaDelimitedList" else [value]
    if pattern is not None and not all(
        _matches(name, str(pattern), item, budget) for item in items
    ):
        raise _build_refusal(name, declaration, f"must match pattern {pattern}")
    if kind == "Number":
        _check_number(name, declaration, value)
    else:
        if "MinLength" in declaration and len(value) < _read_bound(name, declaration, "MinLength"):
            raise _build_refusal(
                name, declaration, f"must contain at least {declaration['MinLength']} characters"
            )
        if "MaxLength" in declaration and len(value) > _read_bound(name, declaration, "MaxLength"):
            raise _build_refusal(
                name, declaration, f"must contain at most {declaration['MaxLength']} characters"
            )
    return Parameter(
        value,
        resolved,
        no_echo=declaration.get("NoEcho") in (True, "true"),
        is_list=kind == "CommaDelimitedList" or kind.startswith("List<"),
    )


def _matches(name: str, pattern: str, value: str, budget: MatchingBudget) -> bool:
    try:
        return budget.matches(pattern, value)
    except PatternRefused as error:
        raise TemplateError(
            f"Template format error: AllowedPattern of parameter '{name}' is not a pattern that can be used: {error}"
        ) from error
    except MatchTooLong as error:
        raise TemplateError(
            f"Parameter '{name}' cannot be held against its AllowedPattern in time: the pattern is too complex"
        ) from error


def _check_number(name: str, declaration: Mapping[str, Any], value: str) -> None:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise TemplateError(f"Parameter '{name}' must be a number.")
    if "MinValue" in declaration and number < _read_bound(name, declaration, "MinValue"):
        raise _build_refusal(
            name, declaration, f"must be a number not less than {declaration['MinValue']}"
        )
    if "MaxValue" in declaration and number > _read_bound(name, declaration, "MaxValue"):
        raise _build_refusal(
            name, declaration, f"must be a number not greater than {declaration['MaxValue']}"
        )


def _read_bound(name: str, declaration: Mapping[str, Any], key: str) -> float:
    try:
        return float(declaration[key])
    except (TypeError, ValueError) as error:
        raise TemplateError(
            f"Template format error: {key} of parameter '{name}' must be a number."
        ) from error


def _build_refusal(name: str, declaration: Mapping[str, Any], why: str) -> TemplateError:
    described = declaration.get("ConstraintDescription")
    reason = f"failed to satisfy constraint: {described}" if described else why
    return TemplateError(f"Parameter '{name}' {reason}")
