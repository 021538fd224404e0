"""The nodes of a parsed regular expression."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF
Range = tuple[int, int]
Ranges = tuple[Range, ...]


class BadPattern(ValueError):
    """The text is not a pattern that Java or headrace accepts; the message says why."""


class NotLinear(Exception):
    """RE2 cannot express the pattern: it looks around, refers back or repeats possessively."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """One character: of these ranges and Unicode properties, or, negated, of none of them."""

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
    """A repeated node; `highest` of None is without end, `mode` greedy (empty), `?` or `+`."""

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
    """Nodes of which one matches."""

    options: tuple[Node, ...]


Node = CharacterSet | Anchor | BackReference | Group | Repeat | Concatenation | Alternation
