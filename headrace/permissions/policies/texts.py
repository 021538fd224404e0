"""Compiles and matches texts of policies: wildcards, variables (`${aws:username, 'nobody'}`), and `${*}` for `*`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from headrace.core.wildcards import Glob, Wildcard, compile_glob

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
