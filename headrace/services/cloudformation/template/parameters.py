"""What a template takes: checks a request's parameter values. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import (
    TemplateError,
    too_long,
)

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
