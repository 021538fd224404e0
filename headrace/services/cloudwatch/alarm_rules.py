"""Decides the rules of CloudWatch's composite alarms, from the states of the alarms that they name. Pure functions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

MOST_RULE_CHARACTERS = 10_240
_MOST_LEVELS = 100
_STATES = ("ALARM", "OK", "INSUFFICIENT_DATA")
_AT_LEAST = "AT_LEAST"

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


def names_in(rule: str) -> set[str]:
    """Return the names of the alarms that a composite alarm's rule asks for, up to what cannot be read."""
    names: set[str] = set()

    def note(name: str) -> None:
        names.add(name.rsplit(":alarm:", 1)[-1])

    with contextlib.suppress(RuleRefused):
        decide_rule(rule, note)
    return names


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
    is_read = number.isascii() and number.isdecimal() and len(names) == len(between) + 1
    if not is_read or "," in names or {*between} - {","}:
        raise RuleRefused("AlarmRule has an AT_LEAST that cannot be read")
    met = sum((state_of(name) == state) is wanted for name in names)
    enough = met * 100 >= int(number) * len(names) if "%" in threshold else met >= int(number)
    return enough, _skip_bracket(words, end + 1)


def _skip_bracket(words: Sequence[str], at: int) -> int:
    if words[at : at + 1] != [")"]:
        raise RuleRefused("AlarmRule has a bracket that is not closed")
    return at + 1
