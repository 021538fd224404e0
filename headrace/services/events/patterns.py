"""EventBridge's patterns, and SNS's filter policies, in place of moto's.

moto turns a wildcard into a regular expression, which one event can make run for ever, and it walks a message's nested
lists again for every member of a filter policy. Patterns that AWS refuses are refused here with its sentences,
recorded in shared conformance data and at
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, cast

from headrace.core.wildcards import BadWildcard, is_too_complex, parse_wildcard

# Quota: the size of an event pattern (the model's own maximum).
MOST_PATTERN_CHARACTERS = 4096
MOST_NESTED = 100
# AWS refuses a rule when one text can keep more wildcard positions open in a field (observed by others, assumed exact).
MOST_OPEN_WILDCARDS = 10
TOO_COMPLEX = (
    "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a wildcard"
    " character"
)


class PatternReason(ValueError):
    """The reason why EventBridge refuses a pattern."""


# --- EventBridge ------------------------------------------------------------------------------


def patch_events(models: ModuleType) -> None:
    """Replace how `moto.events.models` parses patterns and matches wildcards."""
    refused: Any = models.InvalidEventPatternException

    def parse(self: Any) -> dict[str, Any]:
        try:
            return read_pattern(self.pattern)
        except PatternReason as error:
            raise refused(reason=str(error)) from error

    models.EventPatternParser.parse = parse
    models.EventPattern._wildcard_match = staticmethod(_matches_wildcard)


def read_pattern(text: str | None) -> dict[str, Any]:
    """Return a validated event pattern. Raises PatternReason."""
    if not text:
        return {}
    if len(text) > MOST_PATTERN_CHARACTERS:
        raise PatternReason(f"Filter is longer than {MOST_PATTERN_CHARACTERS} characters")
    try:
        pattern: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PatternReason("Invalid JSON") from error
    if not isinstance(pattern, dict):
        raise PatternReason("Filter is not an object")
    wildcards: dict[str, list[Any]] = defaultdict(list)
    for path, matcher in _leaves(cast("dict[str, Any]", pattern), "", 0):
        for wildcard in _wildcards_of(matcher):
            try:
                wildcards[path].append(parse_wildcard(wildcard))
            except BadWildcard as error:
                raise PatternReason(str(error)) from error
    if any(is_too_complex(found, MOST_OPEN_WILDCARDS) for found in wildcards.values()):
        raise PatternReason(TOO_COMPLEX)
    return cast("dict[str, Any]", pattern)


def _leaves(pattern: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (field's path, matcher) for a pattern; `$or` adds no path element. Raises PatternReason."""
    if depth > MOST_NESTED:
        raise PatternReason(f"Filter is nested more than {MOST_NESTED} deep")
    for name, value in pattern.items():
        if name == "$or" and isinstance(value, list):
            for one in cast("list[Any]", value):
                if not isinstance(one, dict):
                    raise PatternReason("$or must be an array of objects")
                yield from _leaves(cast("dict[str, Any]", one), path, depth + 1)
        elif isinstance(value, dict):
            yield from _leaves(cast("dict[str, Any]", value), f"{path}.{name}", depth + 1)
        elif isinstance(value, list):
            if not value:
                raise PatternReason("Empty arrays are not allowed")
            for matcher in cast("list[Any]", value):
                yield f"{path}.{name}", matcher
        else:
            raise PatternReason(f"'{name}' must be an object or an array")


def _wildcards_of(matcher: Any) -> list[str]:
    if not isinstance(matcher, dict):
        return []
    members = cast("dict[str, Any]", matcher)
    inner: Any = members.get("anything-but")
    if isinstance(inner, dict) and "wildcard" in inner:
        given = cast("dict[str, Any]", inner)["wildcard"]
        found = cast("list[Any]", given) if isinstance(given, list) else [given]
    elif "wildcard" in members:
        found = [members["wildcard"]]
    else:
        return []
    if not all(isinstance(text, str) for text in found):
        raise PatternReason("wildcard match pattern must be a string")
    return cast("list[str]", found)


def _matches_wildcard(item: Any, pattern: str) -> bool:
    return isinstance(item, str) and parse_wildcard(pattern).matches(item)


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
