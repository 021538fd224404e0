"""Checks the size and the AllowedPattern of SSM parameters, which moto does not.

Source: https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html and
API_PutParameter (documented); the sentences were observed, that of the advanced tier is assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern

MOST_STANDARD_BYTES = 4096
MOST_ADVANCED_BYTES = 8192
_UPGRADE = (
    " To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier. For more"
    " information, see"
    " https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html"
)


def patch_parameters(models: ModuleType) -> None:
    """Have `moto.ssm.models` refuse values that are too large or that the pattern does not allow."""
    from moto.ssm.exceptions import SSMException

    backend: Any = models.SimpleSystemManagerBackend
    put: Any = backend.put_parameter

    @functools.wraps(put)
    def put_checked(
        self: Any, name: str, description: str, value: str, *args: Any, **named: Any
    ) -> Any:
        allowed = args[1] if len(args) > 1 else named.get("allowed_pattern")
        refusal = refusal_of(value or "", allowed, str(named.get("tier") or ""))
        if refusal is not None:
            raise SSMException(*refusal)
        return put(self, name, description, value, *args, **named)

    backend.put_parameter = put_checked


def refusal_of(value: str, allowed_pattern: str | None, tier: str) -> tuple[str, str] | None:
    """Return the (code, message) with which AWS refuses a parameter, or None."""
    size = len(value.encode("utf-8", "surrogatepass"))
    if tier in ("", "Standard") and size > MOST_STANDARD_BYTES:
        sentence = f"Standard tier parameters support a maximum parameter value of {MOST_STANDARD_BYTES} characters."
        return "ValidationException", sentence + _UPGRADE
    if size > MOST_ADVANCED_BYTES:
        return (
            "ValidationException",
            f"Advanced tier parameters support a maximum parameter value of {MOST_ADVANCED_BYTES} characters.",
        )
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
