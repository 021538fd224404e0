"""The memory that many holders share, so that all together stay within a bound."""

from __future__ import annotations

import threading

from headrace.core.evaluation.errors import TooMuch


class Ledger:
    """Counts the bytes that each holder keeps. Thread-safe."""

    def __init__(self, *, one: int, all_together: int) -> None:
        """Take the most bytes of one holder, and of all together."""
        self._one, self._all = one, all_together
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._total = 0

    def take(self, holder: str, size: int) -> None:
        """Note that a holder keeps `size` bytes more. Raises TooMuch, and then it may not keep them."""
        with self._lock:
            held = self._held.get(holder, 0) + size
            if held > self._one or self._total + size > self._all:
                raise TooMuch(f"It keeps more than {min(self._one, self._all)} bytes in memory")
            self._held[holder] = held
            self._total += size

    def give_back(self, holder: str) -> None:
        """Note that a holder keeps nothing any more."""
        with self._lock:
            self._total -= self._held.pop(holder, 0)
