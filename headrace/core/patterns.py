r"""Matches regular expressions that clients send, in bounded time, whatever the pattern and the text.

Java's regular expressions run on RE2, which takes time in proportion to the text. Patterns that RE2 cannot express
(lookaround, back references, possessive repeats) run on the `regex` module under a deadline of CPU time. Both let other
threads run meanwhile. A `MatchingBudget` limits the time that one request spends on all its patterns. Wildcards need
neither engine. No other code in headrace may make a regular expression from a client's
text; tests/security/test_patterns.py checks this.

Matches wildcards (`*` for any run of characters) in time proportional to the text. Pure functions.

EventBridge's wildcards (`Wildcard`) have `\*` and `\\` for the characters themselves. AWS limits a rule's complexity:
how many stars one text can hold open at once. The wildcards of IAM, EC2 and SQL (`Glob`, `glob_matches`) also have a
sign for any one character.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headrace.core import java_regex
from headrace.core.java_regex import BadPattern, NotLinear
from headrace.core.java_regex.nodes import MAX_CODE_POINT, CharacterSet, Concatenation, Node, Repeat

# Both engines are imported with the first pattern that needs them: `regex` takes 1.5 MB, RE2 2.4.
if TYPE_CHECKING:
    import regex

# The longest pattern in AWS's own models has 1,400 characters.
MOST_CHARACTERS = 8192
# The longest pattern that may need backtracking: while Python compiles it no other thread runs.
MOST_BACKTRACKING_CHARACTERS = 2048
# The memory that RE2 may use for one pattern, its automaton included.
MEMORY_BYTES = 2 << 20
# A program of n instructions takes n steps a byte at worst: two hundred millions are about half a second.
MOST_STEPS = 200_000_000
DEADLINE_S = 0.25
# What one request may spend in total: the steps of one match, four deadlines, and under a second of compilation.
MOST_BACKTRACKING_S = 1.0
MOST_CHARACTERS_A_REQUEST = 8 * MOST_CHARACTERS
_ASCII = 0x7F


class PatternRefused(ValueError):
    """The pattern cannot be used; the message is why, in one sentence."""


class MatchTooLong(Exception):
    """The match did not end in time."""


class Pattern(Protocol):
    """A compiled pattern. Thread-safe."""

    def matches(self, text: str, budget: MatchingBudget | None = None) -> bool:
        """Whether the whole text matches; the cost counts towards `budget`, if one is given. Raises MatchTooLong."""
        ...


@dataclass(slots=True)
class MatchingBudget:
    """The steps, seconds and characters that one request may still spend on clients' patterns. Not thread-safe.

    Each match is bounded, but a template with 200 patterns and thousands of values to check is many matches.
    """

    steps: int = MOST_STEPS
    backtracking_s: float = MOST_BACKTRACKING_S
    characters: int = MOST_CHARACTERS_A_REQUEST
    seen: set[str] = field(default_factory=set[str])

    def matches(self, pattern: str, text: str) -> bool:
        """Whether the whole text matches a pattern in Java's syntax. Raises PatternRefused, MatchTooLong."""
        if pattern not in self.seen:
            self.seen.add(pattern)
            self.characters -= len(pattern)
            if self.characters < 0:
                raise PatternRefused(
                    f"The patterns have more than {MOST_CHARACTERS_A_REQUEST} characters together"
                )
        return java_pattern(pattern).matches(text, self)


@functools.lru_cache(maxsize=256)
def java_pattern(pattern: str) -> Pattern:
    r"""Return a client's pattern in Java's syntax, which matches whole texts. Raises PatternRefused.

    Differs from Java where RE2 does: `$` never matches before a final line end, and `\b` knows ASCII words only.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise PatternRefused(f"The pattern is longer than {MOST_CHARACTERS} characters")
    return _compile(pattern, _Bounds(MEMORY_BYTES, MOST_STEPS))


@functools.cache
def model_pattern(pattern: str) -> Pattern:
    """Return a pattern of AWS's own models, for texts of any length. Raises PatternRefused.

    The patterns are known, and none takes RE2 more than a fraction of a second for a megabyte.
    """
    return _compile(pattern, _Bounds(4 * MEMORY_BYTES, None))


def of_node(node: Node, *, characters: int) -> Pattern:
    """Return a pattern that was parsed from another syntax than Java's. Raises PatternRefused."""
    if characters > MOST_CHARACTERS:
        raise PatternRefused(f"The pattern is longer than {MOST_CHARACTERS} characters")
    try:
        return _Re2Pattern(node, _Bounds(MEMORY_BYTES, MOST_STEPS))
    except (NotLinear, _RefusedByRe2, BadPattern) as error:
        raise PatternRefused(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Bounds:
    memory_bytes: int
    most_steps: int | None


def _compile(pattern: str, bounds: _Bounds) -> Pattern:
    try:
        node = java_regex.parse(pattern)
        run = java_regex.as_one_run(node)
        if run is not None:
            return _Run(re.compile(run))
        try:
            return _Re2Pattern(node, bounds)
        except (NotLinear, _RefusedByRe2):
            return _compile_timed(pattern, node)
    except BadPattern as error:
        raise PatternRefused(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Run:
    """A repeated set of characters, which `re` matches in linear time."""

    compiled: re.Pattern[str]

    def matches(self, text: str, budget: MatchingBudget | None = None) -> bool:
        return self.compiled.fullmatch(text) is not None


class _RefusedByRe2(Exception):
    """RE2 does not accept the pattern: it has nested counts, or a property that RE2 does not know."""


class _Re2Pattern:
    """A pattern on RE2: a small program for ASCII texts, and one for all texts."""

    def __init__(self, node: Node, bounds: _Bounds) -> None:
        self._node = node
        self._bounds = bounds
        self._ascii = _program(node, _ASCII, bounds)
        self._all: _Program | None = None

    def matches(self, text: str, budget: MatchingBudget | None = None) -> bool:
        if text.isascii():
            return self._ascii.matches(text.encode(), budget)
        if self._all is None:
            try:
                self._all = _program(self._node, MAX_CODE_POINT, self._bounds)
            except (BadPattern, _RefusedByRe2) as error:
                raise MatchTooLong from error
        # Lone surrogates, which JSON can carry, cannot be encoded; they match nothing but themselves.
        return self._all.matches(text.encode("utf-8", "surrogatepass"), budget)


@dataclass(frozen=True, slots=True)
class _Program:
    compiled: Any
    steps_a_byte: int
    most_steps: float

    def matches(self, data: bytes, budget: MatchingBudget | None) -> bool:
        steps = len(data) * self.steps_a_byte
        if budget is not None:
            budget.steps -= steps
        if steps > self.most_steps or (budget is not None and budget.steps < 0):
            raise MatchTooLong
        return self.compiled.fullmatch(data) is not None


def _program(node: Node, highest_point: int, bounds: _Bounds) -> _Program:
    """Return the pattern on RE2. Raises NotLinear, BadPattern, _NotTaken."""
    import re2  # its bindings have no types

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = bounds.memory_bytes
    try:
        text = java_regex.for_re2(node, highest_point=highest_point)
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        if "too large" in str(error):
            raise BadPattern("The pattern is too large") from error
        raise _RefusedByRe2 from error
    most = float("inf") if bounds.most_steps is None else bounds.most_steps
    return _Program(compiled, int(compiled.programsize), most)


@dataclass(frozen=True, slots=True)
class _BacktrackingPattern:
    """A pattern that needs backtracking."""

    compiled: regex.Pattern[str]

    def matches(self, text: str, budget: MatchingBudget | None = None) -> bool:
        left_s = DEADLINE_S if budget is None else min(DEADLINE_S, budget.backtracking_s)
        if left_s <= 0:
            raise MatchTooLong
        began_s = time.thread_time()
        try:
            return self.compiled.fullmatch(text, timeout=left_s) is not None
        except TimeoutError as error:
            raise MatchTooLong from error
        finally:
            if budget is not None:
                budget.backtracking_s -= time.thread_time() - began_s


def _compile_timed(pattern: str, node: Node) -> _BacktrackingPattern:
    import regex

    if len(pattern) > MOST_BACKTRACKING_CHARACTERS:
        raise BadPattern(
            f"A pattern that looks around or refers back may have {MOST_BACKTRACKING_CHARACTERS} characters"
        )
    try:
        return _BacktrackingPattern(regex.compile(java_regex.for_backtracking(node)))
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadPattern(str(error)) from error


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
    except (PatternRefused, MatchTooLong):
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
    return of_node(Concatenation(tuple(row)), characters=len(pattern))


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
