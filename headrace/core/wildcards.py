r"""Matches wildcards (`*` for any run of characters) in time proportional to the text. Pure functions.

EventBridge's wildcards (`Wildcard`) have `\*` and `\\` for the characters themselves. AWS limits a rule's complexity:
how many stars one text can hold open at once. The wildcards of IAM, EC2 and SQL (`Glob`, `glob_matches`) also have a
sign for any one character.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core import patterns
from headrace.core.java_regex.nodes import MAX_CODE_POINT, CharacterSet, Concatenation, Node, Repeat
from headrace.core.patterns import Pattern, PatternRefused

# How many sets of open wildcards are examined before a pattern counts as too complex.
_MOST_SETS = 5_000
_ANY = CharacterSet(((0, MAX_CODE_POINT),))


class BadWildcard(ValueError):
    """The text is not a wildcard pattern; the message is EventBridge's reason."""


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A pattern of literal parts with any run of characters between them; a single part has no wildcard."""

    parts: tuple[str, ...]

    def matches(self, text: str) -> bool:
        """Whether the whole text matches; each part is matched at its earliest position."""
        if len(self.parts) == 1:
            return self.parts[0] == text
        first, *middle, last = self.parts
        if len(text) < len(first) + len(last):
            return False
        if not text.startswith(first) or not text.endswith(last):
            return False
        offset, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, offset, end)
            if at < 0:
                return False
            offset = at + len(part)
        return True


@functools.lru_cache(maxsize=4096)
def parse_wildcard(pattern: str) -> Wildcard:
    """Return EventBridge's wildcard pattern. Raises BadWildcard.

    The sentence about consecutive wildcards is recorded, the one about escapes assumed.
    """
    parts: list[str] = []
    part: list[str] = []
    letters = enumerate(pattern)
    for offset, letter in letters:
        if letter == "*":
            if pattern[offset + 1 : offset + 2] == "*":
                raise BadWildcard(f"Consecutive wildcard characters at pos {offset + 1}")
            parts.append("".join(part))
            part = []
        elif letter == "\\":
            _, escaped = next(letters, (0, ""))
            if escaped not in ("*", "\\"):
                raise BadWildcard(f"Invalid escape character at pos {offset + 1}")
            part.append(escaped)
        else:
            part.append(letter)
    return Wildcard((*parts, "".join(part)))


# --- patterns with signs for any run and for any one character ---------------------------------


def glob_matches(
    pattern: str, text: str, *, any_run: str = "*", any_one: str = "?", escape: str = ""
) -> bool:
    """Whether the whole text matches a pattern with `any_run` (any run of characters) and `any_one` (any character).

    A pattern that is too long to be compiled matches only itself.
    """
    try:
        return _glob(pattern, any_run, any_one, escape).matches(text)
    except (PatternRefused, patterns.MatchTooLong):
        return pattern == text


@functools.lru_cache(maxsize=256)
def _glob(pattern: str, any_run: str, any_one: str, escape: str) -> Pattern | Wildcard:
    if any_one not in pattern and not (escape and escape in pattern):
        return Wildcard(tuple(pattern.split(any_run)))
    row: list[Node] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == any_run:
            row.append(Repeat(_ANY, 0, None))
        elif letter == any_one:
            row.append(_ANY)
        else:
            literal = next(letters, letter) if escape and letter == escape else letter
            row.append(CharacterSet(((ord(literal), ord(literal)),)))
    return patterns.of_node(Concatenation(tuple(row)), characters=len(pattern))


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern with `*` and `?`, matched by a state machine whose set of states is the bits of one number.

    Bit i of a state means that the first i characters of the pattern have been matched. Each character of a text takes
    one step: a few operations on a number that has as many bits as the pattern has characters.
    """

    length: int
    stars: int  # bit mask: positions at which a run may continue
    anything: int  # bit mask: positions of the sign for any one character
    letters: dict[str, int]  # character -> bit mask of the positions that it matches

    @staticmethod
    def parse(pattern: str, any_run: str, any_one: str) -> Glob:
        """Return the state machine of a pattern."""
        stars = anything = length = 0
        letters: dict[str, int] = {}
        for letter in pattern:
            if letter == any_run:
                stars |= 1 << length
                continue
            if letter == any_one:
                anything |= 1 << length
            else:
                letters[letter] = letters.get(letter, 0) | 1 << length
            length += 1
        fitting = {letter: places | anything for letter, places in letters.items()}
        return Glob(length, stars, anything, fitting)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        reached = 1
        for letter in text:
            fitting = reached & self.letters.get(letter, self.anything)
            reached = (fitting << 1) | (reached & self.stars)
            if not reached:
                return False
        return bool(reached >> self.length & 1)


def compile_glob(pattern: str, any_run: str, any_one: str) -> Wildcard | Glob:
    """Compile a pattern with signs for any run and any one character, which matches in linear time.

    For patterns that the caller keeps; `glob_matches` caches the patterns that were used last.
    """
    if any_one in pattern:
        return Glob.parse(pattern, any_run, any_one)
    return Wildcard(tuple(pattern.split(any_run)))


# --- complexity -------------------------------------------------------------------------------


def is_too_complex(wildcards: Iterable[Wildcard], most_open: int) -> bool:
    """Whether some text can hold more than `most_open` places of these patterns open at once.

    A place is a position in a pattern that the text read so far can have reached, counted per pattern: after `*a*a*a`
    has read `aaa`, all its stars are open. The positions of all patterns are the bits of one number, so a step takes a
    few operations however many there are.
    """
    machine = _Machine.of(wildcards)
    seen = {machine.start}
    pending = [machine.start]
    while pending:
        reached = pending.pop()
        for letter in machine.letters:
            following = machine.step(reached, letter)
            if machine.open_places(following) > most_open:
                return True
            if following and following not in seen:
                if len(seen) == _MOST_SETS:
                    return True
                seen.add(following)
                pending.append(following)
    return False


@dataclass(frozen=True, slots=True)
class _Machine:
    """The patterns side by side. Bit i of a set: the token before position i has just been read."""

    start: int
    stars: int  # bit mask: positions before a star
    literals: dict[int, int]  # byte -> bit mask: positions before this byte
    letters: tuple[int, ...]  # the bytes in the patterns, and -1 for all others

    @staticmethod
    def of(wildcards: Iterable[Wildcard]) -> _Machine:
        start = stars = position = 0
        literals: dict[int, int] = {-1: 0}
        for wildcard in wildcards:
            start |= 1 << position
            # Event patterns are matched as JSON: a text stands in quotes.
            for count, part in enumerate((f'"{wildcard.parts[0]}', *wildcard.parts[1:])):
                if count:
                    stars |= 1 << position
                    position += 1
                end = '"' if count == len(wildcard.parts) - 1 else ""
                for byte in f"{part}{end}".encode("utf-8", "surrogatepass"):
                    literals[byte] = literals.get(byte, 0) | 1 << position
                    position += 1
            position += 1
        return _Machine(start, stars, literals, tuple(literals))

    def step(self, reached: int, letter: int) -> int:
        literal = self.literals[letter]
        at_star = reached & self.stars
        inside = reached & (self.stars << 1)  # the star matches this byte too
        skipped = ((at_star << 1) & literal) << 1  # the star matches nothing, then comes this byte
        return ((reached & literal) << 1) | (at_star << 1) | inside | skipped

    def open_places(self, reached: int) -> int:
        return (reached | ((reached & self.stars) << 1)).bit_count()
