"""Patterns that are compiled when they are first used: of some 290, a run uses a few; all take a tenth of a start."""

from __future__ import annotations

import re
import sys
from typing import Any

_standard: Any = re.compile
_PACKAGE = "headrace."


def late_compile(pattern: Any, flags: int | re.RegexFlag = 0) -> Any:
    """Do what `re.compile` does, later when a module of headrace is imported; others get a pattern at once."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    caller = frame.f_globals.get("__name__", "")
    if isinstance(pattern, str | bytes) and caller.startswith(_PACKAGE):
        return _LatePattern(pattern, flags)
    return _standard(pattern, flags)


class _LatePattern:
    """Has the attributes of a pattern. The functions of `re` do not take it: it has methods for what they do."""

    def __init__(self, pattern: str | bytes, flags: int | re.RegexFlag) -> None:
        self._asked = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # It is kept in the module's `re` cache too, but that is small.
        compiled = vars(self).get("_compiled")
        if compiled is None:
            compiled = self._compiled = _standard(*self._asked)
        found = getattr(compiled, name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> Any:
        return _standard, self._asked

    def __repr__(self) -> str:
        return repr(_standard(*self._asked))
