"""The nodes of a parsed regular expression."""

from __future__ import annotations

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
