"""EventBridge's patterns, and SNS's filter policies, in place of moto's.

moto turns a wildcard into a regular expression, which one event can make run for ever, walks a message's nested lists
again for every member of a filter policy, and loses the messages of one with `$or`. Patterns are
`headrace.core.event_patterns`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event

# Quota: the size of an event pattern (the model's own maximum).
MOST_PATTERN_CHARACTERS = 4096


# --- EventBridge ------------------------------------------------------------------------------


def patch_events(models: ModuleType) -> None:
    """Replace how `moto.events.models` parses patterns and matches events."""
    refused: Any = models.InvalidEventPatternException

    def parse(self: Any) -> dict[str, Any]:
        if not self.pattern:
            return {}
        try:
            check_pattern(self.pattern)
        except BadEventPattern as error:
            raise refused(reason=str(error)) from error
        return cast("dict[str, Any]", json.loads(self.pattern))

    def matches(self: Any, event: Any) -> bool:
        pattern = self.get_pattern()
        text = self.dump()
        if not pattern:
            return True
        return matches_event(
            compile_pattern(text if isinstance(text, str) else json.dumps(pattern)), event
        )

    models.EventPatternParser.parse = parse
    models.EventPattern.matches_event = matches


def check_pattern(text: str) -> None:
    """Raise BadEventPattern unless a text is a pattern of at most AWS's size."""
    if len(text) > MOST_PATTERN_CHARACTERS:
        raise BadEventPattern(f"Filter is longer than {MOST_PATTERN_CHARACTERS} characters")
    compile_pattern(text)


# --- SNS --------------------------------------------------------------------------------------


def patch_filter_policies(utils: ModuleType) -> None:
    """Replace how `moto.sns.utils` matches a message with a filter policy.

    SNS's policies are patterns on the message's body, or on its attributes (documented:
    https://docs.aws.amazon.com/sns/latest/dg/sns-subscription-filter-policies.html). What is no pattern of
    EventBridge's is left to moto.
    """
    matcher: Any = utils.FilterPolicyMatcher
    matches_by_moto: Any = matcher.matches

    def matches(self: Any, message_attributes: Any, message: str) -> bool:
        if not self.filter_policy:
            return True
        try:
            alternatives = _compile_policy(json.dumps(self.filter_policy))
            if self.filter_policy_scope == "MessageAttributes":
                event: Any = _read_attributes(message_attributes or {})
            else:
                event = json.loads(message)
            return isinstance(event, dict) and matches_event(alternatives, event)
        except BadEventPattern:
            return bool(matches_by_moto(self, message_attributes, message))
        except (ValueError, RecursionError):
            return False  # the body is no JSON, or deeper than any policy looks

    matcher.matches = matches


@functools.lru_cache(maxsize=64)
def _compile_policy(text: str) -> tuple[dict[str, list[Any]], ...]:
    # A policy may have 256 KB: `compile_pattern` would keep a thousand of them.
    return compile_pattern.__wrapped__(text)


def _read_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's attributes by their names: text, numbers and lists; binary ones match nothing."""
    values: dict[str, Any] = {}
    for name, attribute in attributes.items():
        kind, value = str(attribute.get("Type")), attribute.get("Value")
        if kind.startswith(("Number", "String.Array")):
            values[name] = json.loads(str(value))
        elif kind.startswith("String"):
            values[name] = value
    return values
