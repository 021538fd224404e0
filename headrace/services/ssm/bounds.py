"""SSM: filters match in bounded time, documents are read within bounds, and parameters match their AllowedPattern.

Source: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html (documented);
the sentences were observed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.moto.bounds.yaml_documents import patch_yaml


def patch_parameters(models: ModuleType) -> None:
    """Make `moto.ssm.models` refuse values that do not match the parameter's AllowedPattern."""
    from moto.ssm.exceptions import SSMException

    backend: Any = models.SimpleSystemManagerBackend
    put: Any = backend.put_parameter

    @functools.wraps(put)
    def put_checked(
        self: Any, name: str, description: str, value: str, *args: Any, **named: Any
    ) -> Any:
        allowed = args[1] if len(args) > 1 else named.get("allowed_pattern")
        refusal = refusal_of(value or "", allowed)
        if refusal is not None:
            raise SSMException(*refusal)
        return put(self, name, description, value, *args, **named)

    backend.put_parameter = put_checked


def refusal_of(value: str, allowed_pattern: str | None) -> tuple[str, str] | None:
    """Return AWS's (code, message) for a value that does not match the pattern, or None."""
    if not allowed_pattern:
        return None
    try:
        matches = java_pattern(allowed_pattern).matches(value)
    except PatternRefused as error:
        return (
            "InvalidAllowedPatternException",
            f"The request does not meet the regular expression requirement: {error}",
        )
    except MatchTooLong:
        return (
            "InvalidAllowedPatternException",
            "The request does not meet the regular expression requirement: the pattern is too complex",
        )
    if not matches:
        return (
            "ParameterPatternMismatchException",
            f"Parameter value, cannot be validated against allowedPattern: {allowed_pattern}",
        )
    return None


def apply_bounds(models: ModuleType) -> None:
    """Match filters in bounded time, and read documents within bounds."""
    patch_parameters(models)
    patch_yaml(models)
