"""EventBridge's patterns, and SNS's filter policies, in place of moto's.

moto turns a wildcard into a regular expression, which one event can make run for ever, and it walks a message's nested
lists again for every member of a filter policy. Patterns are `headrace.core.event_patterns`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

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
    """Replace how `moto.sns.utils` matches a message's body with a filter policy."""
    matcher: Any = utils.FilterPolicyMatcher
    matches: Any = matcher.matches

    def matches_within_depth(self: Any, message_attributes: Any, message: str) -> bool:
        try:
            return bool(matches(self, message_attributes, message))
        except RecursionError:
            return False  # no policy looks at deeper levels

    def body_based_match(self: Any, message: Any) -> bool:
        def leaf(name: str, rules: list[Any], body: Any) -> bool:
            return isinstance(body, dict) and matcher._field_match(name, rules, body, False)

        return _policy_holds(self.filter_policy, message, leaf)

    matcher.matches = matches_within_depth
    matcher._body_based_match = body_based_match


def _policy_holds(policy: Mapping[str, Any], body: Any, leaf: Any) -> bool:
    """Whether a body (or any item of a list) matches a policy; each part is visited once."""
    nested = {name: value for name, value in policy.items() if isinstance(value, dict)}
    rules = {name: value for name, value in policy.items() if isinstance(value, list)}
    if isinstance(body, list):
        items = cast("list[Any]", body)
        return (not nested or any(_policy_holds(policy, item, leaf) for item in items)) and all(
            any(leaf(name, value, item) for item in items) for name, value in rules.items()
        )
    if not isinstance(body, dict):
        return False
    members = cast("dict[str, Any]", body)
    return all(
        members.get(name) is not None and _policy_holds(value, members[name], leaf)
        for name, value in nested.items()
    ) and all(leaf(name, value, members) for name, value in rules.items())
