"""What one evaluation in this process may still use, and what all evaluations share: memory and places.

An evaluation runs without waiting until it has used what quick ones do. Then it takes one of a few places, so that a
flood of large ones neither fills the memory nor holds up the quick ones: the interpreter runs one thread at a time. The
size of a value is known before the value is made.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast


class TooMuch(Exception):
    """The evaluation exceeds a bound; the message is which one, in one sentence."""


class Stopped(TooMuch):
    """The cloud stops, and the evaluation with it."""


MOST_STEPS = 200_000
MOST_BYTES = 128 * 1024 * 1024
MOST_CPU_S = 3.0
QUICK_STEPS = 20_000
QUICK_BYTES = 1024 * 1024
# Reading this many bytes counts as a step.
_BYTES_A_STEP = 2048
_STEPS_BETWEEN_LOOKS = 256


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


# What an empty list or object takes, and a member of one beside its text.
_CONTAINER_BYTES = 96
_MEMBER_BYTES = 40


def text_size(text: str) -> int:
    """Return the bytes that a text takes in memory, at most."""
    return len(text) if text.isascii() else 4 * len(text)


def bound_parsed_bytes(text: str) -> int:
    """Return the bytes that a JSON text takes when it is parsed, at most; `[[],[],...]` grows thirty-fold."""
    containers = text.count("[") + text.count("{")
    return text_size(text) + _CONTAINER_BYTES * containers + _MEMBER_BYTES * text.count(",")


def check_json_size(value: Any, most: int) -> int:
    """Return how many characters a value has as compact JSON, about; raises TooMuch above `most`.

    The work is bounded by `most`: a list that holds another one twice, which does so too, and so on, is small in memory
    and endless as text.
    """
    size, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            size += len(part) + 2
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            size += 2 + sum(map(len, members)) + 4 * len(members)
            pending += members.values()
        elif isinstance(part, list):
            items = cast("list[Any]", part)
            size += 2 + len(items)
            pending += items
        else:
            size += 4 if part is None or isinstance(part, bool) else len(str(part))
        if size > most:
            raise TooMuch(f"The value has more than {most} characters")
    return size


# How long an evaluation waits for a place: as long as API Gateway waits for an integration.
LONGEST_WAIT_S = 29.0


class _Ticket:
    def __init__(self) -> None:
        self.called = threading.Event()
        self.is_stopped = False


class Turns:
    """Places that callers get in turn, however many evaluations each of them has. Thread-safe."""

    def __init__(self, places: int) -> None:
        """Take the number of evaluations that may run at a time."""
        self._lock = threading.Lock()
        self._free = places
        # The callers in the order of their next turns.
        self._waiting: dict[str, deque[_Ticket]] = {}

    @contextmanager
    def place(self, caller: str) -> Generator[None]:
        """Hold a place; wait for one if there is none. Raises TooMuch, Stopped."""
        self.take(caller)
        try:
            yield
        finally:
            self.give_back()

    def take(self, caller: str) -> None:
        """Take a place, which `give_back` returns. Raises TooMuch when none becomes free in time, and Stopped."""
        ticket = _Ticket()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.setdefault(caller, deque()).append(ticket)
        if not ticket.called.wait(LONGEST_WAIT_S) and self._leave(caller, ticket):
            raise TooMuch("Too many evaluations take long at the same time")
        if ticket.is_stopped:
            raise Stopped("The cloud stops")

    def give_back(self) -> None:
        """Give the place to the caller whose turn it is, if one waits."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            caller = next(iter(self._waiting))
            tickets = self._waiting.pop(caller)
            ticket = tickets.popleft()
            if tickets:
                self._waiting[caller] = tickets  # its next turn is after everybody else's
        ticket.called.set()

    def stop_waiting(self) -> None:
        """Make everybody who waits fail with Stopped."""
        with self._lock:
            tickets = [ticket for line in self._waiting.values() for ticket in line]
            self._waiting.clear()
        for ticket in tickets:
            ticket.is_stopped = True
            ticket.called.set()

    def _leave(self, caller: str, ticket: _Ticket) -> bool:
        """Whether the ticket still waited, and does no more."""
        with self._lock:
            line = self._waiting.get(caller)
            if line is None or ticket not in line:
                return False
            line.remove(ticket)
            if not line:
                del self._waiting[caller]
            return True


# Two, so that one long evaluation does not hold up the next; together they use at most twice MOST_BYTES.
LARGE = Turns(2)
