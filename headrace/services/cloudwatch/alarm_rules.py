"""Decides the rules of CloudWatch's composite alarms, from the states of the alarms that they name. Pure functions.

The reasons are recorded (LocalStack's test_composite_alarm_creation, 16-07-2024) and documented
(cloudwatch-and-eventbridge.html).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MOST_RULE_CHARACTERS = 10_240
_MOST_LEVELS = 100
_STATES = ("ALARM", "OK", "INSUFFICIENT_DATA")

_RULE_TOKEN = re.compile(r'\s*(?:([()])|"([^"]*)"|([^\s()"]+))')


class RuleRefused(ValueError):
    """A composite alarm's rule cannot be read; the message says where."""


def decide_rule(rule: str, state_of: Callable[[str], str | None]) -> bool:
    """Whether a composite alarm's rule holds. Raises RuleRefused.

    Args:
        rule: such as `ALARM("a") AND NOT (OK(b) OR INSUFFICIENT_DATA(c))`.
        state_of: returns the state of an alarm by its name or ARN; None for an unknown one, of which nothing holds.
    """
    if len(rule) > MOST_RULE_CHARACTERS:
        raise RuleRefused(f"AlarmRule must not exceed {MOST_RULE_CHARACTERS} characters")
    tokens = _RULE_TOKEN.findall(rule)
    words = [bracket or quoted or word for bracket, quoted, word in tokens]
    if "".join("".join(t) for t in tokens) != re.sub(r'[\s"]', "", rule) and not any(
        t[1] for t in tokens
    ):
        raise RuleRefused(f"AlarmRule cannot be read: {rule[:200]}")
    holds, end = _any_of(words, 0, state_of, 0)
    if end < len(words):
        raise RuleRefused(f"AlarmRule has {words[end]} where it should end or have AND or OR")
    return holds


def names_in(rule: str) -> list[str]:
    """Return the names of the alarms that a composite alarm's rule asks for, in its order."""
    words = [bracket or quoted or word for bracket, quoted, word in _RULE_TOKEN.findall(rule)]
    return list(
        dict.fromkeys(
            name.rsplit(":alarm:", 1)[-1]
            for function, bracket, name in zip(words, words[1:], words[2:], strict=False)
            if function.upper() in _STATES and bracket == "("
        )
    )


def in_order(composites: Sequence[Any]) -> list[Any]:
    """Return composite alarms so that each comes after those that it names; those of a circle last."""
    by_name = {alarm.name: alarm for alarm in composites}
    named_by: dict[str, list[str]] = defaultdict(list)
    waits_for: dict[str, int] = {}
    for alarm in composites:
        names = by_name.keys() & names_in(str(alarm.rule))
        waits_for[alarm.name] = len(names)
        for name in names:
            named_by[name].append(alarm.name)
    order = [name for name, count in waits_for.items() if not count]
    for name in order:  # which grows
        for other in named_by[name]:
            waits_for[other] -= 1
            if not waits_for[other]:
                order.append(other)
    return [by_name[name] for name in dict.fromkeys([*order, *by_name])]


@dataclass(frozen=True, slots=True)
class Child:
    """An alarm that a rule names: its ARN, its state, and when it came to it."""

    arn: str
    state: str
    since: datetime


def explain(arn: str, state: str, children: Sequence[Child], *, is_new: bool) -> tuple[str, str]:
    """Return why a composite alarm has another state, as a sentence and as JSON. `is_new`: it is its first."""
    if is_new or not children:
        reason, told = f"{arn} was created and its alarm rule evaluates to {state}", children
    else:
        last = max(children, key=lambda child: child.since)
        at = last.since.astimezone(UTC)
        reason = f"{last.arn} transitioned to {last.state} at {at:%A %d %B, %Y %H:%M:%S} UTC"
        told = [child for child in children if child.since == last.since]
    alarms = [
        {"arn": child.arn, "state": {"value": child.state, "timestamp": time_text(child.since)}}
        for child in told
    ]
    return reason, json.dumps({"triggeringAlarms": alarms}, separators=(",", ":"))


def time_text(moment: datetime) -> str:
    """Return a time as CloudWatch's alarms write it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}+0000"


_States = Callable[[str], str | None]


def _any_of(words: Sequence[str], at: int, state_of: _States, level: int) -> tuple[bool, int]:
    holds, at = _all_of(words, at, state_of, level)
    while at < len(words) and words[at].upper() == "OR":
        also, at = _all_of(words, at + 1, state_of, level)
        holds = holds or also
    return holds, at


def _all_of(words: Sequence[str], at: int, state_of: _States, level: int) -> tuple[bool, int]:
    holds, at = _term(words, at, state_of, level)
    while at < len(words) and words[at].upper() == "AND":
        also, at = _term(words, at + 1, state_of, level)
        holds = holds and also
    return holds, at


def _term(words: Sequence[str], at: int, state_of: _States, level: int) -> tuple[bool, int]:
    if at >= len(words) or level > _MOST_LEVELS:
        raise RuleRefused("AlarmRule ends too early, or has too many levels")
    word = words[at].upper()
    if word == "NOT":
        holds, at = _term(words, at + 1, state_of, level + 1)
        return not holds, at
    if word == "(":
        holds, at = _any_of(words, at + 1, state_of, level + 1)
        return holds, _skip_bracket(words, at)
    if word in ("TRUE", "FALSE"):
        return word == "TRUE", at + 1
    if (
        word in ("ALARM", "OK", "INSUFFICIENT_DATA")
        and words[at + 1 : at + 2] == ["("]
        and at + 2 < len(words)
    ):
        return state_of(words[at + 2]) == word, _skip_bracket(words, at + 3)
    raise RuleRefused(f"AlarmRule has {words[at]}, which is no function of it")


def _skip_bracket(words: Sequence[str], at: int) -> int:
    if words[at : at + 1] != [")"]:
        raise RuleRefused("AlarmRule has a bracket that is not closed")
    return at + 1
