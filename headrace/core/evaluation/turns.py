"""A few places for evaluations, which callers get in turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

from headrace.core.evaluation.errors import Stopped, TooMuch

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
