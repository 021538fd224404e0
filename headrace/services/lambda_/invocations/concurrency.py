"""How many invocations may run at a time: an account's, a function's reserved and provisioned concurrency.

Source: https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html (documented).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.services.lambda_.errors import Throttled
from headrace.services.lambda_.limits import ACCOUNT_CONCURRENCY, UNRESERVED_CONCURRENCY_LEFT
from headrace.services.lambda_.state import Function, Version
from headrace.services.lambda_.store import FunctionStore

RESERVED_REACHED = "ReservedFunctionConcurrentInvocationLimitExceeded"
ACCOUNT_REACHED = "ConcurrentInvocationLimitExceeded"


@dataclass(frozen=True, slots=True)
class Slot:
    """A held invocation.

    Attributes:
        running: the function's invocations at the time, this one among them.
        provisioned: True on provisioned concurrency, False beyond it, None when the function has none.
    """

    running: int
    provisioned: bool | None


class Concurrency:
    """Counts running invocations and refuses those over a limit. Thread-safe."""

    def __init__(
        self, functions: FunctionStore, *, account_limit: int = ACCOUNT_CONCURRENCY
    ) -> None:
        self._functions = functions
        self._account_limit = account_limit
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._on_provisioned: Counter[tuple[str, str]] = Counter()
        self._unreserved: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def hold(self, function: Function, qualifier: str | None, version: Version) -> Generator[Slot]:
        """Hold one of the function's concurrent invocations. Raises Throttled."""
        key, account = function.key, (function.account, function.region)
        # The same counts go down at the end, whatever has been configured meanwhile.
        name = _provisioned_name(function, qualifier, version)
        reserved = function.reserved_concurrency
        with self._lock:
            provisioned = name is not None and (
                self._on_provisioned[key, name] < function.provisioned.get(name, 0)
            )
            if reserved is not None and (
                self._running[key] >= reserved
                or (not provisioned and self._on_demand(function) >= _on_demand_limit(function))
            ):
                raise Throttled(function.ref.arn, RESERVED_REACHED)
            pooled = reserved is None and not provisioned
            if pooled and self._unreserved[account] >= self._pool(account):
                raise Throttled(function.ref.arn, ACCOUNT_REACHED)
            self._running[key] += 1
            self._unreserved[account] += pooled
            if provisioned and name is not None:
                self._on_provisioned[key, name] += 1
            slot = Slot(self._running[key], None if name is None else provisioned)
        try:
            yield slot
        finally:
            with self._lock:
                self._give_back(self._running, key)
                self._unreserved[account] -= pooled
                if provisioned and name is not None:
                    self._give_back(self._on_provisioned, (key, name))

    def _on_demand(self, function: Function) -> int:
        """Return how many of the function's invocations run beyond its provisioned concurrency."""
        counts = self._on_provisioned
        return self._running[function.key] - sum(
            counts[function.key, name] for name in function.provisioned
        )

    @staticmethod
    def _give_back(counts: Counter[Any], key: Any) -> None:
        counts[key] -= 1
        if not counts[key]:
            # No count is kept for functions that may have been deleted.
            del counts[key]

    def _pool(self, account: tuple[str, str]) -> int:
        # AWS always leaves so much unreserved: below it the functions need not be added up.
        least = min(self._account_limit, UNRESERVED_CONCURRENCY_LEFT)
        if self._unreserved[account] < least:
            return least
        return unreserved(self._functions.all(*account), self._account_limit)


def _on_demand_limit(function: Function) -> int:
    """Return how much of a reservation provisioning leaves: none, and only what is provisioned is invoked."""
    return (function.reserved_concurrency or 0) - sum(function.provisioned.values())


def unreserved(functions: list[Function], account_limit: int = ACCOUNT_CONCURRENCY) -> int:
    """Return the concurrency that reservations and provisioning leave to an account's other functions."""
    taken = 0
    for function in functions:
        reserved = function.reserved_concurrency
        taken += sum(function.provisioned.values()) if reserved is None else reserved
    return account_limit - taken


def _provisioned_name(function: Function, qualifier: str | None, version: Version) -> str | None:
    """Return the version or alias whose provisioned concurrency serves an invocation, None when there is none."""
    if not function.provisioned:
        return None
    return next((n for n in (qualifier, version.number) if n in function.provisioned), None)
