"""API Gateway's models are checked without their patterns: a backtracking engine would match them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, cast


def validate_without_patterns(models: ModuleType) -> None:
    """Check a model's schema without its patterns."""
    validate: Any = models.validate

    @functools.wraps(validate)
    def validate_without_patterns(document: Any, *args: Any, **named: Any) -> Any:
        # A backtracking engine matches a default against its schema's pattern.
        return validate(_without_patterns(document), *args, **named)

    vars(models)["validate"] = validate_without_patterns


def _without_patterns(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_patterns(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            key: _without_patterns(item)
            for key, item in cast("dict[str, Any]", value).items()
            if not (key == "pattern" and isinstance(item, str)) and key != "patternProperties"
        }
    return value
