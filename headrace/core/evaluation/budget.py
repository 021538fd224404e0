"""What one evaluation in this process may still use.

An evaluation runs without waiting until it has used what quick ones do. Then it takes one of a few places, so that a
flood of large ones neither fills the memory nor holds up the quick ones: the interpreter runs one thread at a time.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from headrace.core.evaluation.errors import TooMuch
from headrace.core.evaluation.turns import Turns

MOST_STEPS = 200_000
MOST_BYTES = 128 * 1024 * 1024
MOST_CPU_S = 3.0
QUICK_STEPS = 20_000
QUICK_BYTES = 1024 * 1024
# Reading this many bytes counts as a step.
_BYTES_A_STEP = 2048
_STEPS_BETWEEN_LOOKS = 256
# Two, so that one long evaluation does not hold up the next; together they use at most twice MOST_BYTES.
LARGE = Turns(2)


class Budget:
    """Counts one evaluation's steps and bytes. A context manager, used by one thread; each method raises TooMuch."""

    __slots__ = (
        "_began_s", "_caller", "_is_large", "_look_at", "_may_wait", "bytes_made", "has_shared", "steps",
    )  # fmt: skip

    def __init__(self, caller: str, *, may_wait: bool = True) -> None:
        """Take the name of the caller, with whom its other evaluations share their turns.

        With `may_wait` false the evaluation may use no more than quick ones: for callers that hold a lock.
        """
        self._caller = caller
        self._may_wait = may_wait
        self._is_large = False
        self._look_at = _STEPS_BETWEEN_LOOKS
        self._began_s = time.thread_time()
        self.steps = 0
        self.bytes_made = 0
        # Set by an engine that has put a value into another: a value may now hold one several times, or itself.
        self.has_shared = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the place, if the evaluation has one."""
        if self._is_large:
            self._is_large = False
            LARGE.give_back()

    def step(self, count: int = 1) -> None:
        """Count steps."""
        self.steps += count
        if self.steps >= self._look_at:
            self._look()

    def read(self, size: int) -> None:
        """Count the reading of a value of `size` bytes."""
        self.step(1 + size // _BYTES_A_STEP)

    def make(self, size: int) -> None:
        """Count a value of `size` bytes, before it is made. What is let go of counts too: it was work."""
        self.bytes_made += size
        if self.bytes_made > MOST_BYTES:
            raise TooMuch(f"It makes values of more than {MOST_BYTES} bytes")
        if self.bytes_made > QUICK_BYTES and not self._is_large:
            self._grow()
        self.step(1 + size // _BYTES_A_STEP)

    def _look(self) -> None:
        self._look_at = self.steps + _STEPS_BETWEEN_LOOKS
        if self.steps > MOST_STEPS:
            raise TooMuch(f"It takes more than {MOST_STEPS} steps")
        if self.steps > QUICK_STEPS and not self._is_large:
            self._grow()
        if time.thread_time() - self._began_s > MOST_CPU_S:
            raise TooMuch(f"It takes more than {MOST_CPU_S:g} seconds of processor time")

    def _grow(self) -> None:
        if not self._may_wait:
            raise TooMuch(f"It takes more than {QUICK_STEPS} steps or {QUICK_BYTES} bytes")
        LARGE.take(self._caller)
        self._is_large = True
