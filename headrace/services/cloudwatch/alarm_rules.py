"""Decides the rules of CloudWatch's composite alarms, from the states of the alarms that they name. Pure functions.

The reasons are recorded (LocalStack's test_composite_alarm_creation, 16-07-2024) and documented
(cloudwatch-and-eventbridge.html).
"""

from __future__ import annotations

import contextlib
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
_AT_LEAST = "AT_LEAST"
_MOST_DIGITS = 9

_RULE_TOKEN = re.compile(r'\s*(?:([()])|"([^"]*)"|([^\s()"]+))')


class RuleRefused(ValueError):
    """A composite alarm's rule cannot be read; the message says where."""


def decide_rule(rule: str, state_of: Callable[[str], str | None]) -> bool:
    """Whether a composite alarm's rule holds. Raises RuleRefused.

    Args:
        rule: such as `ALARM("a") AND NOT (OK(b) OR INSUFFICIENT_DATA(c))`, or `AT_LEAST(50%, NOT OK, (a, b, "c d"))`.
        state_of: returns the state of an alarm by its name or ARN; None for an unknown one, of which nothing holds.
    """
    if len(rule) > MOST_RULE_CHARACTERS:
        raise RuleRefused(f"AlarmRule must not exceed {MOST_RULE_CHARACTERS} characters")
    tokens = _RULE_TOKEN.findall(rule)
    if "".join("".join(t) for t in tokens) != re.sub(r'[\s"]', "", rule) and not any(
        t[1] for t in tokens
    ):
        raise RuleRefused(f"AlarmRule cannot be read: {rule[:200]}")
    words = _words(tokens)
    holds, end = _any_of(words, 0, state_of, 0)
    if end < len(words):
        raise RuleRefused(f"AlarmRule has {words[end]} where it should end or have AND or OR")
    return holds


def names_in(rule: str) -> list[str]:
    """Return the names of the alarms that a composite alarm's rule asks for, in its order, up to what is unreadable."""
    names: list[str] = []
    with contextlib.suppress(RuleRefused):
        decide_rule(rule, names.append)
    return list(dict.fromkeys(name.rsplit(":alarm:", 1)[-1] for name in names))


def _words(tokens: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a rule's words; only in AT_LEAST a comma is one of its own, since an alarm's name may have commas."""
    words: list[str] = []
    levels, at_least = 0, 0
    for bracket, quoted, word in tokens:
        if bracket == "(" and not at_least and words and words[-1].upper() == _AT_LEAST:
            at_least = levels + 1
        levels += {"(": 1, ")": -1}.get(bracket, 0)
        if levels < at_least:
            at_least = 0
        parts = re.split("(,)", word) if at_least else [word]
        words += [quoted] if quoted else [part for part in (bracket, *parts) if part]
    return words


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
    if word == _AT_LEAST and words[at + 1 : at + 2] == ["("]:
        return _at_least(words, at + 2, state_of)
    if word in _STATES and words[at + 1 : at + 2] == ["("] and at + 2 < len(words):
        return state_of(words[at + 2]) == word, _skip_bracket(words, at + 3)
    raise RuleRefused(f"AlarmRule has {words[at]}, which is no function of it")


def _at_least(words: Sequence[str], at: int, state_of: _States) -> tuple[bool, int]:
    """Read `2, ALARM, (a, b))`, or `50%, NOT OK, (a, b))`: so many of the alarms have the state, or another one."""
    end = words.index(")", at) if ")" in words[at:] else len(words)
    match [word.upper() for word in words[at:end]]:
        case [threshold, ",", "NOT", state, ",", "(", *_] if state in _STATES:
            first, wanted = at + 6, False
        case [threshold, ",", state, ",", "(", *_] if state in _STATES:
            first, wanted = at + 5, True
        case _:
            threshold, first, state, wanted = "", end, "", True
    names, between = words[first:end:2], words[first + 1 : end : 2]
    number = threshold.removesuffix("%")
    is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
    if not is_number or len(names) != len(between) + 1 or "," in names or {*between} - {","}:
        raise RuleRefused("AlarmRule has an AT_LEAST that cannot be read")
    met = sum((state_of(name) == state) is wanted for name in names)
    enough = met * 100 >= int(number) * len(names) if "%" in threshold else met >= int(number)
    return enough, _skip_bracket(words, end + 1)


def _skip_bracket(words: Sequence[str], at: int) -> int:
    if words[at : at + 1] != [")"]:
        raise RuleRefused("AlarmRule has a bracket that is not closed")
    return at + 1
