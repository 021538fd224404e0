"""Enforces the concurrency limits: the account's limit, and a function's reserved and provisioned concurrency.

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
    """An invocation that counts towards the limits.

    Attributes:
        running: how many invocations of the function ran when this one started, itself included.
        provisioned: True if it uses provisioned concurrency, False if it spills over, None if there is none.
    """

    running: int
    provisioned: bool | None


class Concurrency:
    """Counts running invocations, and refuses an invocation that would exceed a limit. Thread-safe."""

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
        """Count an invocation of the function while the block runs. Raises Throttled."""
        key, account = function.key, (function.account, function.region)
        # Choose the counts once, so that the end lowers the same ones even if the configuration changes meanwhile.
        name = _find_provisioned_name(function, qualifier, version)
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
            if pooled and self._unreserved[account] >= self._find_pool(account):
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
            # Keep no zero counts, since their functions may have been deleted.
            del counts[key]

    def _find_pool(self, account: tuple[str, str]) -> int:
        # AWS always leaves this much unreserved. Below it, there is no need to add up all functions' reservations.
        least = min(self._account_limit, UNRESERVED_CONCURRENCY_LEFT)
        if self._unreserved[account] < least:
            return least
        return count_unreserved(self._functions.all(*account), self._account_limit)


def _on_demand_limit(function: Function) -> int:
    """Return the reserved concurrency that is not provisioned. If it is 0, only provisioned versions can run."""
    return (function.reserved_concurrency or 0) - sum(function.provisioned.values())


def count_unreserved(functions: list[Function], account_limit: int = ACCOUNT_CONCURRENCY) -> int:
    """Return the unreserved concurrency of an account: what reserved and provisioned concurrency leave of the limit."""
    taken = 0
    for function in functions:
        reserved = function.reserved_concurrency
        taken += sum(function.provisioned.values()) if reserved is None else reserved
    return account_limit - taken


def _find_provisioned_name(
    function: Function, qualifier: str | None, version: Version
) -> str | None:
    """Return the version or alias whose provisioned concurrency an invocation may use, or None."""
    if not function.provisioned:
        return None
    return next((n for n in (qualifier, version.number) if n in function.provisioned), None)
