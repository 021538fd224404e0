"""Attacks on patterns with long texts made of what they speak of; run by test_patterns.py in a process of its own.

Reads patterns as JSON lines and prints for each, as a JSON line, the most seconds that a text took it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import regex

CHARACTERS = 6_000
_LITERALS = re.compile(r"[A-Za-z0-9_:/.=-]+")


def attacks(pattern: str) -> Iterator[str]:
    """Yield texts: a beginning, one or two characters over and over, an end that cannot match."""
    literals = sorted({found.strip("-.") for found in _LITERALS.findall(pattern)} - {""}, key=len)
    letters = sorted({letter for one in literals for letter in one[:2]} | set("a0-./ _:'"))[:24]
    pumps = [*letters, *(one + other for one in "a0-." for other in "-./:" if one != other)]
    for beginning in ("", *literals[-8:]):
        for pump in pumps:
            yield beginning + pump * (CHARACTERS // len(pump)) + "\0"


def main() -> None:
    for line in sys.stdin:
        pattern = json.loads(line)
        engine: Any = regex if r"\p{" in pattern else re
        compiled = engine.compile(pattern)
        longest = 0.0
        for text in attacks(compiled.pattern):
            began = time.process_time()
            compiled.fullmatch(text)
            longest = max(longest, time.process_time() - began)
        sys.stdout.write(json.dumps(longest) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
