"""The one way to match a client's pattern: in bounded time, whatever the pattern and the text.

Java's regular expressions run on RE2, which takes time in proportion to the text. What RE2 cannot express (looking
around, back references, possessive repeats) runs on the `regex` module under a deadline of CPU time. Both let other
threads run meanwhile. Wildcards need neither: see `headrace.core.wildcards`. Nothing else in headrace may make a
regular expression of a client's text, which tests/security/test_patterns.py holds.
"""

# RE2's bindings have no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, Protocol

import re2
import regex

from headrace.core import java_regex
from headrace.core.java_regex import BadPattern, Node, NotLinear
from headrace.core.java_regex.nodes import MAX_CODE_POINT

# The longest of AWS's own models has 1,400 characters.
MOST_CHARACTERS = 8192
# Where a pattern needs backtracking: compiling it is Python's own work, which lets nobody else run.
MOST_BACKTRACKING_CHARACTERS = 2048
# What RE2 may take for one pattern, its automaton included.
MEMORY_BYTES = 2 << 20
# A program of n instructions takes n steps a byte at worst: two hundred millions are about half a second.
MOST_STEPS = 200_000_000
DEADLINE_S = 0.25
# Two repeats that leave open how often are 16,641 ways through 128 characters: the worst found takes
# `re` 8 ms, RE2 less, which is five times as long about a usual one.
SHORT_CHARACTERS = 128
MOST_WAYS = 17_000
_ASCII = 0x7F


class PatternRefused(ValueError):
    """The pattern cannot be used; the message is why, in one sentence."""


class MatchTooLong(Exception):
    """Whether the text matches could not be told in time."""


class Pattern(Protocol):
    """A compiled pattern. Thread-safe."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches. Raises MatchTooLong."""
        ...


@functools.lru_cache(maxsize=256)
def java_pattern(pattern: str) -> Pattern:
    r"""Return a client's pattern in Java's syntax, which matches whole texts. Raises PatternRefused.

    Differs from Java where RE2 does: `$` never stands before a last line end, and words (`\b`) are of ASCII.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise PatternRefused(f"The pattern is longer than {MOST_CHARACTERS} characters")
    return _compiled(pattern, _Bounds(MEMORY_BYTES, MOST_STEPS))


@functools.cache
def model_pattern(pattern: str) -> Pattern:
    """Return a pattern of AWS's own models, for texts of any length. Raises PatternRefused.

    The patterns are known, and none takes RE2 more than a fraction of a second for a megabyte.
    """
    return _compiled(pattern, _Bounds(4 * MEMORY_BYTES, None))


def of_node(node: Node, *, characters: int) -> Pattern:
    """Return a pattern of a client's that another syntax than Java's was read into. Raises PatternRefused."""
    if characters > MOST_CHARACTERS:
        raise PatternRefused(f"The pattern is longer than {MOST_CHARACTERS} characters")
    try:
        return _Linear(node, _Bounds(MEMORY_BYTES, MOST_STEPS))
    except (NotLinear, _NotTaken, BadPattern) as error:
        raise PatternRefused(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Bounds:
    memory_bytes: int
    most_steps: int | None


def _compiled(pattern: str, bounds: _Bounds) -> Pattern:
    try:
        node = java_regex.parse(pattern)
        run = java_regex.as_one_run(node)
        if run is not None:
            return _Run(re.compile(run))
        try:
            linear = _Linear(node, bounds)
        except (NotLinear, _NotTaken):
            return _timed(pattern, node)
        if java_regex.ways(node, SHORT_CHARACTERS) > MOST_WAYS:
            return linear
        return _Short(re.compile(java_regex.for_backtracking(node)), linear)
    except BadPattern as error:
        raise PatternRefused(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Run:
    """One set of characters, some times over: `re` itself is linear."""

    compiled: re.Pattern[str]

    def matches(self, text: str) -> bool:
        return self.compiled.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Short:
    """A pattern that takes `re` a bounded number of steps for a short text, a fifth of the time of RE2."""

    compiled: re.Pattern[str]
    linear: Pattern

    def matches(self, text: str) -> bool:
        if len(text) <= SHORT_CHARACTERS:
            return self.compiled.fullmatch(text) is not None
        return self.linear.matches(text)


class _NotTaken(Exception):
    """RE2 does not take the pattern: nested counts, or a property that it does not know."""


class _Linear:
    """A pattern on RE2: one program for texts of ASCII, which is much smaller, and one for all."""

    def __init__(self, node: Node, bounds: _Bounds) -> None:
        self._node = node
        self._bounds = bounds
        self._ascii = _program(node, _ASCII, bounds)
        self._all: _Program | None = None

    def matches(self, text: str) -> bool:
        if text.isascii():
            return self._ascii.matches(text.encode())
        if self._all is None:
            try:
                self._all = _program(self._node, MAX_CODE_POINT, self._bounds)
            except (BadPattern, _NotTaken) as error:
                raise MatchTooLong from error
        # Lone surrogates, which JSON can carry, are in no text and match nothing but themselves.
        return self._all.matches(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class _Program:
    compiled: Any
    most_bytes: float

    def matches(self, data: bytes) -> bool:
        if len(data) > self.most_bytes:
            raise MatchTooLong
        return self.compiled.fullmatch(data) is not None


def _program(node: Node, highest_point: int, bounds: _Bounds) -> _Program:
    """Return the pattern on RE2. Raises NotLinear, BadPattern, _NotTaken."""
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
        raise _NotTaken from error
    most = bounds.most_steps
    return _Program(compiled, float("inf") if most is None else most / int(compiled.programsize))


@dataclass(frozen=True, slots=True)
class _Timed:
    """A pattern that needs backtracking."""

    compiled: regex.Pattern[str]

    def matches(self, text: str) -> bool:
        try:
            return self.compiled.fullmatch(text, timeout=DEADLINE_S) is not None
        except TimeoutError as error:
            raise MatchTooLong from error


def _timed(pattern: str, node: Node) -> _Timed:
    if len(pattern) > MOST_BACKTRACKING_CHARACTERS:
        raise BadPattern(
            f"A pattern that looks around or refers back may have {MOST_BACKTRACKING_CHARACTERS} characters"
        )
    try:
        return _Timed(regex.compile(java_regex.for_backtracking(node)))
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadPattern(str(error)) from error
