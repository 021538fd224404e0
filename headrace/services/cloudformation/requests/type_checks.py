"""Refuses templates with unknown resource types, and says what to do instead.

In strict mode it also refuses properties that would be ignored.
"""

from __future__ import annotations

import difflib

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.resources import (
    coded_types,
    declared_types,
    resource_type,
)
from headrace.services.cloudformation.resources.schemas import aws_types
from headrace.services.cloudformation.template.template import Template


def check_types(template: Template, *, strict: bool) -> None:
    """Raise AwsError for an unknown resource type or, in strict mode, for a property that would be ignored."""
    kinds = {str(resource["Type"]) for resource in template.resources.values()}
    unknown = sorted(kind for kind in kinds if resource_type(kind) is None)
    if unknown:
        raise AwsError(
            "ValidationError",
            f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]"
            f" ({_unknown_sentence(unknown)}{_what_instead(unknown)})",
        )
    if strict:
        dropped = [row for row in fidelity_of(template) if row["level"] == "ignored"]
        if dropped:
            shown = ", ".join(f"{row['resource']}.{row['property']}" for row in dropped)
            raise AwsError(
                "ValidationError",
                f"headrace --strict refuses properties it would ignore: {shown}",
            )


def _unknown_sentence(unknown: list[str]) -> str:
    """Return a sentence: which unknown types AWS has, and which are unknown here; AWS may have newer types."""
    lacking = [name for name in unknown if name in aws_types()]
    wrong = [name for name in unknown if name not in lacking]
    parts: list[str] = []
    if lacking:
        parts.append(f"AWS has {', '.join(lacking)}, which headrace does not support")
    if wrong:
        parts.append(f"not in headrace: {', '.join(wrong)}{_nearest(wrong)}")
    return "; ".join(parts)


def _nearest(unknown: list[str]) -> str:
    """Return a suggestion of known types with similar names, as the end of a sentence."""
    known = [*coded_types(), *declared_types()]
    near = [match for name in unknown for match in difflib.get_close_matches(name, known, 1, 0.85)]
    return f"; nearest: {', '.join(near)}" if near else ""


_INSTEAD = {
    "::MODULE": "modules are not expanded: put their resources into the template",
}


def _what_instead(unknown: list[str]) -> str:
    """Return the alternatives to modules and stack sets, as the end of a sentence."""
    advice = (
        sentence
        for end, sentence in _INSTEAD.items()
        if any(kind.endswith(end) for kind in unknown)
    )
    return "".join(f"; {sentence}" for sentence in advice)
