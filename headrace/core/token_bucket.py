"""Limits a rate by a token bucket, which holds the tokens of one second at most. Not thread-safe."""

from __future__ import annotations


class TokenBucket:
    """A token bucket of one second. A larger amount may be taken when the bucket is full, and leaves a debt."""

    __slots__ = ("_at_ms", "_level", "_per_s")

    def __init__(self, per_s: int, now_ms: int) -> None:
        self._per_s = per_s
        self._level = float(per_s)
        self._at_ms = now_ms

    def has(self, amount: int, now_ms: int) -> bool:
        """Whether `amount` may be taken now."""
        if now_ms > self._at_ms:
            more = (now_ms - self._at_ms) * self._per_s / 1000
            self._level = min(float(self._per_s), self._level + more)
            self._at_ms = now_ms
        return self._level >= min(amount, self._per_s)

    def take(self, amount: int) -> None:
        """Take the amount; call `has` first."""
        self._level -= amount

    def is_full(self, now_ms: int) -> bool:
        """Whether the bucket is full, as a new one is."""
        return self.has(self._per_s, now_ms)
