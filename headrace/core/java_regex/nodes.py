"""The nodes of a parsed regular expression.

Sets of characters as ranges of code points, and the sets that Java names. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF
Range = tuple[int, int]
Ranges = tuple[Range, ...]


class BadPattern(ValueError):
    """Java or headrace does not accept the pattern; the message says why."""


class NotLinear(Exception):
    """RE2 cannot express the pattern: it has lookaround, back references or possessive repeats."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """One character that is in these ranges and Unicode properties or, when negated, in none of them."""

    ranges: Ranges
    properties: tuple[str, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """A position between characters: `^`, `$`, `b` or `B`; by line when `lines`."""

    kind: str
    lines: bool = False


@dataclass(frozen=True, slots=True)
class BackReference:
    """The text that a group matched before, by the group's number or name."""

    group: str
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A group; `opening` is how it begins: `(`, `(?:`, `(?=`, `(?!`, `(?<=`, `(?<!`, `(?>` or `(?<name>`."""

    opening: str
    body: Node


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeated node; `highest` None means no limit; `mode` is empty (greedy), `?` or `+`."""

    body: Node
    lowest: int
    highest: int | None
    mode: str = ""


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Nodes that match one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Nodes, one of which matches."""

    options: tuple[Node, ...]


Node = CharacterSet | Anchor | BackReference | Group | Repeat | Concatenation | Alternation


def merge_ranges(ranges: Sequence[Range]) -> Ranges:
    """Return the ranges sorted, with adjacent ones merged."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def all_but(ranges: Sequence[Range]) -> Ranges:
    """Return the ranges of every code point that is in none of the given ones."""
    gaps_between: list[Range] = []
    at = 0
    for low, high in merge_ranges(ranges):
        if low > at:
            gaps_between.append((at, low - 1))
        at = high + 1
    if at <= MAX_CODE_POINT:
        gaps_between.append((at, MAX_CODE_POINT))
    return tuple(gaps_between)


def in_both(one: Ranges, other: Ranges) -> Ranges:
    """Return the ranges of the code points that are in both."""
    return all_but([*all_but(one), *all_but(other)])


def both_cases(ranges: Sequence[Range]) -> Ranges:
    """Return the ranges with the other case of every ASCII letter: Java folds no others by default."""
    cased = list(ranges)
    for low, high in ranges:
        for first, last, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if low <= last and high >= first:
                cased.append((max(low, first) + shift, min(high, last) + shift))
    return merge_ranges(cased)


def points(text: str) -> Ranges:
    """Return the characters of a text as ranges."""
    return merge_ranges([(ord(letter), ord(letter)) for letter in text])


LINE_ENDS = points("\n\r\u0085\u2028\u2029")
_DIGITS: Ranges = ((0x30, 0x39),)
_LOWER: Ranges = ((0x61, 0x7A),)
_UPPER: Ranges = ((0x41, 0x5A),)
_WORD = merge_ranges([*_DIGITS, *_LOWER, *_UPPER, (0x5F, 0x5F)])
_SPACE = points(" \t\n\x0b\f\r")
_PUNCT: Ranges = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_WIDE_SPACE = merge_ranges(
    [*points(" \t\u00a0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)],
)
KINDS = {
    "d": _DIGITS,
    "w": _WORD,
    "s": _SPACE,
    "h": _WIDE_SPACE,
    "v": merge_ranges([*LINE_ENDS, (0x0B, 0x0C)]),
}
POSIX: dict[str, Ranges] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ((0, 0x7F),),
    "Alpha": merge_ranges([*_LOWER, *_UPPER]),
    "Digit": _DIGITS,
    "Alnum": merge_ranges([*_DIGITS, *_LOWER, *_UPPER]),
    "Punct": _PUNCT,
    "Graph": ((0x21, 0x7E),),
    "Print": ((0x20, 0x7E),),
    "Blank": points(" \t"),
    "Cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": merge_ranges([*_DIGITS, (0x41, 0x46), (0x61, 0x66)]),
    "Space": _SPACE,
}
# Java's other names for Unicode's general categories.
CATEGORIES = {
    "javaLowerCase": "Ll",
    "javaUpperCase": "Lu",
    "javaLetter": "L",
    "javaDigit": "Nd",
    "IsLetter": "L",
    "IsDigit": "Nd",
    "IsPunctuation": "P",
    "IsControl": "Cc",
}
CONTROL_ESCAPES = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "a": 0x07, "e": 0x1B}
