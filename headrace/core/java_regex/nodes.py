"""What a regular expression is made of, as values."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF
Range = tuple[int, int]
Ranges = tuple[Range, ...]


class BadPattern(ValueError):
    """The text is no pattern that Java, or headrace, takes; the message says why."""


class NotLinear(Exception):
    """RE2 cannot express the pattern: it looks around, refers back or repeats possessively."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character: of these ranges and Unicode properties, or, negated, of none of them."""

    ranges: Ranges
    properties: tuple[str, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A place between characters: `^`, `$`, `b` or `B`; by line when `lines`."""

    kind: str
    lines: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """What a group matched before, by its number or its name."""

    group: str
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A group; `opening` is how it begins: `(`, `(?:`, `(?=`, `(?!`, `(?<=`, `(?<!`, `(?>` or `(?<name>`."""

    opening: str
    body: Node


@dataclass(frozen=True, slots=True)
class Repeat:
    """Something again and again; `highest` of None is without end, `mode` greedy (empty), `?` or `+`."""

    body: Node
    lowest: int
    highest: int | None
    mode: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One or the other."""

    options: tuple[Node, ...]


Node = OneOf | Place | Again | Group | Repeat | Row | Choice
