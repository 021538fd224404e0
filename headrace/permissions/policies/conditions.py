"""Evaluates condition blocks: all of IAM's operators, with ForAllValues, ForAnyValue, IfExists and Null.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html and
reference_policies_condition-single-vs-multi-valued-context-keys.html.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Literal

from headrace.permissions.policies.texts import Text, Values, compile_text, field_matches

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
