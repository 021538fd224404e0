"""Evaluates condition blocks: all of IAM's operators, with ForAllValues, ForAnyValue, IfExists and Null.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html and
reference_policies_condition-single-vs-multi-valued-context-keys.html.

Compiles and matches texts of policies: wildcards, variables (`${aws:username, 'nobody'}`), and `${*}` for `*`.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Literal

from headrace.core.patterns import Glob, Wildcard, compile_glob

# Returns the values of a condition key; None or nothing when the request does not have the key.
Values = Callable[[str], tuple[str, ...]]

# Marks for `*` and `?` while values are inserted, in which both are ordinary characters. IAM refuses policies with
# these marks.
_RUN, _ONE = "\x00", "\x01"
_SIGNS = {"*": _RUN, "?": _ONE}
_NO_SIGNS: Mapping[str, str] = {}
_LITERALS = ("*", "?", "$")


@dataclass(frozen=True, slots=True)
class Variable:
    """A condition key whose value is inserted; `default` is used when the request has none (None: no default)."""

    key: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Text:
    """A compiled text: literal parts, wildcards and variables, against which values are matched. Thread-safe."""

    source: str
    parts: tuple[str | Variable, ...]
    is_literal: bool
    _glob: Wildcard | Glob | None = field(default=None, compare=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The condition keys of the text's variables, in lower case."""
        return tuple(part.key for part in self.parts if isinstance(part, Variable))

    def matches(self, text: str, values: Values) -> bool:
        """Whether `text` matches. A variable without a value matches nothing."""
        if self.is_literal:
            return self.parts[0] == text
        if self._glob is not None:
            return self._glob.matches(text)
        pattern = self.resolve(values)
        return pattern is not None and field_matches(pattern, text)

    def resolve(self, values: Values) -> str | None:
        """Return the text with its variables' values and marks for wildcards; None when one has no single value."""
        row: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                row.append(part)
                continue
            context_values = values(part.key)
            if len(context_values) == 1:
                row.append(context_values[0])
            elif part.default is not None and not context_values:
                row.append(part.default)
            else:
                return None
        return "".join(row)

    def fields(self, values: Values) -> tuple[str, ...] | None:
        """Return the text's parts between colons (at most six, as in an ARN); None when a value is missing."""
        pattern = self.resolve(values)
        return None if pattern is None else tuple(pattern.split(":", 5))


def field_matches(pattern: str, text: str) -> bool:
    """Whether a text matches one field of `Text.fields`."""
    return compile_glob(pattern, _RUN, _ONE).matches(text)


@lru_cache(maxsize=16384)
def compile_text(
    source: str, *, has_variables: bool, has_wildcards: bool, in_lower_case: bool = False
) -> Text:
    """Compile a policy's text. `in_lower_case` is for texts that are compared case-insensitively."""
    cased = source.lower() if in_lower_case else source
    signs = _SIGNS if has_wildcards else _NO_SIGNS
    parts = _parts(cased, signs) if has_variables else (_mark(cased, signs),)
    if any(isinstance(part, Variable) for part in parts):
        return Text(source, parts, is_literal=False)
    text = "".join(part for part in parts if isinstance(part, str))
    is_literal = _RUN not in text and _ONE not in text
    return Text(source, (text,), is_literal, compile_glob(text, _RUN, _ONE))


def _mark(text: str, signs: Mapping[str, str]) -> str:
    for sign, mark in signs.items():
        text = text.replace(sign, mark)
    return text


def _parts(text: str, signs: Mapping[str, str]) -> tuple[str | Variable, ...]:
    row: list[str | Variable] = []
    at = 0
    while True:
        start = text.find("${", at)
        end = text.find("}", start)
        if start < 0 or end < 0:
            row.append(_mark(text[at:], signs))
            return tuple(row)
        row.append(_mark(text[at:start], signs))
        inner = text[start + 2 : end]
        row.append(inner if inner in _LITERALS else _variable(inner))
        at = end + 1


def _variable(inner: str) -> Variable:
    key, comma, rest = inner.partition(",")
    default = rest.strip()
    quoted = len(default) >= 2 and default[0] == default[-1] == "'"
    return Variable(key.strip().lower(), default[1:-1] if comma and quoted else None)


Qualifier = Literal["", "foranyvalue", "forallvalues"]
_Test = Callable[[Text, str, Values], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key: `StringEquals: {aws:SourceAccount: [...]}`. `key` is in lower case."""

    operator: str
    name: str
    qualifier: Qualifier
    if_exists: bool
    key: str
    values: tuple[Text, ...]

    def holds(self, values: Values) -> bool:
        """Whether the request meets the condition."""
        context_values = values(self.key)
        if self.name == "null":
            return any(
                (text.source.lower() == "true") == (not context_values) for text in self.values
            )
        test, is_negated = OPERATORS[self.name]
        if not context_values:
            return self._without_key(is_negated)
        if self.qualifier == "forallvalues":
            return all(self._meets(test, value, values) != is_negated for value in context_values)
        if self.qualifier == "foranyvalue":
            return any(self._meets(test, value, values) != is_negated for value in context_values)
        # AWS does not define several values without a qualifier; here one matching value is enough (assumed).
        return any(self._meets(test, value, values) for value in context_values) != is_negated

    def _without_key(self, is_negated: bool) -> bool:
        if self.if_exists or self.qualifier == "forallvalues":
            return True
        return is_negated and self.qualifier != "foranyvalue"

    def _meets(self, test: _Test, value: str, values: Values) -> bool:
        return any(test(text, value, values) for text in self.values)

    @property
    def keys(self) -> tuple[str, ...]:
        """The condition keys on which the result depends: its own, and those of its variables."""
        return (self.key, *(key for text in self.values for key in text.variables))


def split_operator(operator: str) -> tuple[Qualifier, str, bool]:
    """Return an operator's qualifier, its name in lower case, and whether it ends in IfExists."""
    prefix, colon, rest = operator.lower().partition(":")
    qualifier: Qualifier = ""
    name = rest
    if not colon:
        name = prefix
    elif prefix == "foranyvalue":
        qualifier = "foranyvalue"
    elif prefix == "forallvalues":
        qualifier = "forallvalues"
    else:
        return "", operator.lower(), False
    if name.endswith("ifexists"):
        return qualifier, name.removesuffix("ifexists"), True
    return qualifier, name, False


def is_operator(operator: str) -> bool:
    """Whether IAM knows the operator, with its qualifier and IfExists (which Null cannot have)."""
    _, name, if_exists = split_operator(operator)
    return name in OPERATORS or (name == "null" and not if_exists)


def compile_condition(
    operator: str, key: str, values: tuple[str, ...], *, has_variables: bool
) -> Condition:
    """Return a compiled condition. The operator must be one that IAM knows."""
    qualifier, name, if_exists = split_operator(operator)
    texts = tuple(
        compile_text(
            value,
            has_variables=has_variables,
            has_wildcards=name in _WITH_WILDCARDS,
        )
        for value in values
    )
    return Condition(operator, name, qualifier, if_exists, key.lower(), texts)


# --- the operators --------------------------------------------------------------------------------


def _same(text: Text, value: str, values: Values) -> bool:
    return text.resolve(values) == value


def _same_without_case(text: Text, value: str, values: Values) -> bool:
    expected = text.resolve(values)
    return expected is not None and expected.lower() == value.lower()


def _like(text: Text, value: str, values: Values) -> bool:
    return text.matches(value, values)


def _same_arn(text: Text, value: str, values: Values) -> bool:
    """Compare ARNs field by field, as documented for ArnEquals and ArnLike, which are the same."""
    fields = text.fields(values)
    parts_of_value = value.split(":", 5)
    if fields is None or len(fields) != 6 or len(parts_of_value) != 6:
        return text.source == "*" and len(parts_of_value) == 6
    return all(map(field_matches, fields, parts_of_value))


def _same_bool(text: Text, value: str, values: Values) -> bool:
    expected = (text.resolve(values) or "").lower()
    return expected in ("true", "false") and expected == value.lower()


def _same_bytes(text: Text, value: str, values: Values) -> bool:
    try:
        return base64.b64decode(text.resolve(values) or "", validate=True) == base64.b64decode(
            value, validate=True
        )
    except (binascii.Error, ValueError):
        return False


def _in_network(text: Text, value: str, values: Values) -> bool:
    try:
        network = ipaddress.ip_network(text.resolve(values) or "", strict=False)
        return ipaddress.ip_address(value) in network
    except ValueError:
        return False


def _build_comparison(
    read: Callable[[str], Decimal | None], compare: Callable[[Decimal, Decimal], bool]
) -> _Test:
    def test(text: Text, value: str, values: Values) -> bool:
        expected, actual = read(text.resolve(values) or ""), read(value)
        return expected is not None and actual is not None and compare(actual, expected)

    return test


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def read_date(text: str) -> Decimal | None:
    """Return a date's seconds since 1970: ISO 8601 (a day, or a time with its zone; UTC without one) or the seconds."""
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Decimal(str(moment.timestamp()))


# For each operator: the test of one value, and whether the result is negated.
OPERATORS: dict[str, tuple[_Test, bool]] = {
    "stringequals": (_same, False),
    "stringnotequals": (_same, True),
    "stringequalsignorecase": (_same_without_case, False),
    "stringnotequalsignorecase": (_same_without_case, True),
    "stringlike": (_like, False),
    "stringnotlike": (_like, True),
    "bool": (_same_bool, False),
    "binaryequals": (_same_bytes, False),
    "ipaddress": (_in_network, False),
    "notipaddress": (_in_network, True),
    "arnequals": (_same_arn, False),
    "arnlike": (_same_arn, False),
    "arnnotequals": (_same_arn, True),
    "arnnotlike": (_same_arn, True),
}
_COMPARISONS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "equals": lambda found, wanted: found == wanted,
    "lessthan": lambda found, wanted: found < wanted,
    "lessthanequals": lambda found, wanted: found <= wanted,
    "greaterthan": lambda found, wanted: found > wanted,
    "greaterthanequals": lambda found, wanted: found >= wanted,
}
for _kind, _read in (("numeric", _number), ("date", read_date)):
    for _name, _compare in _COMPARISONS.items():
        OPERATORS[_kind + _name] = (_build_comparison(_read, _compare), False)
    OPERATORS[_kind + "notequals"] = (_build_comparison(_read, _COMPARISONS["equals"]), True)

_WITH_WILDCARDS = {
    "stringlike", "stringnotlike", "arnequals", "arnlike", "arnnotequals", "arnnotlike",
}  # fmt: skip
