"""Java's regular expressions, with groups, for records that anybody may have written.

RE2 runs in linear time, so that no line can stop an agent; a pattern that only backtracking engines know is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import re2  # pyright: ignore[reportMissingTypeStubs]

# Its types are incomplete.
_RE2: Any = re2


class JavaPattern:
    """A compiled pattern. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Compile it. Raises ValueError."""
        options = _RE2.Options()
        options.log_errors = False
        try:
            self._pattern: Any = _RE2.compile(text, options)
        except _RE2.error as error:
            raise ValueError(str(error)) from error
        self.groups = int(self._pattern.groups)

    def matches_start(self, line: bytes) -> bool:
        """Whether it matches at the start of a line, as Java's `lookingAt`."""
        return self._pattern.match(line.decode(errors="replace")) is not None

    def matches_whole(self, line: bytes) -> bool:
        """Whether it matches a whole line, without its newline."""
        return self._pattern.fullmatch(line.decode(errors="replace").rstrip("\n")) is not None

    def matches(self, text: str) -> bool:
        """Whether it matches a whole text."""
        return self._pattern.fullmatch(text) is not None

    def is_found(self, text: str) -> bool:
        """Whether it matches anywhere, as Java's `find`."""
        return self._pattern.search(text) is not None

    def groups_found(self, text: str) -> list[str | None] | None:
        """Return the groups of the first match anywhere; None without one."""
        match = self._pattern.search(text)
        return None if match is None else [match.group(n + 1) for n in range(self.groups)]

    def replace(self, text: str, replacement: Callable[[list[str | None]], str]) -> str:
        """Replace each match by what `replacement` makes of its groups, the whole match first."""
        parts, begin = list[str](), 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            groups = [match.group(n) for n in range(self.groups + 1)]
            parts += [text[begin:start], replacement(groups)]
            begin = end
        return "".join([*parts, text[begin:]])

    def fields(self, text: str) -> list[str | None] | None:
        """Return the groups of a match of the whole text; None without one."""
        match = self._pattern.fullmatch(text)
        return None if match is None else [match.group(n + 1) for n in range(self.groups)]

    def split(self, text: str) -> list[str]:
        """Return the parts between matches, as Java's `split` before it drops empty ones at the end."""
        parts, begin = list[str](), 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if start < end:
                parts.append(text[begin:start])
                begin = end
        return [*parts, text[begin:]]


def compile_java(text: str) -> JavaPattern:
    """Compile a pattern. Raises ValueError: it is none, or RE2 does not know it (look-around, back-references)."""
    return JavaPattern(text)
