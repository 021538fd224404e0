"""Keeps all functions, in memory and in the state database."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from headrace.core.ports import FunctionNotFound
from headrace.services.lambda_.names import FunctionRef, parse_function
from headrace.services.lambda_.state import Function
from headrace.store.database import Database


class FunctionStore:
    """All functions. Thread-safe: change them inside `changing`, which makes the change durable."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_functions")
        self._lock = threading.RLock()
        self._functions: dict[str, Function] = {}

    def load(self) -> None:
        """Read every function from the state database."""
        with self._lock:
            self._functions = {
                key: Function.from_json(value) for key, value in self._documents.items()
            }

    def find(self, ref: FunctionRef) -> Function | None:
        """Return the function, or None."""
        return self._functions.get(ref.key)

    def of_key(self, key: str) -> Function | None:
        """Return the function with the key of its reference, or None."""
        return self._functions.get(key)

    def role_of(self, function_arn: str) -> str:
        """Return the ARN of a function's role; empty when there is no such function."""
        function = self.find(parse_function(function_arn, account="", region=""))
        return "" if function is None else str(function.latest.config.get("Role", ""))

    def get(self, ref: FunctionRef) -> Function:
        """Return the function. Raises FunctionNotFound."""
        function = self._functions.get(ref.key)
        if function is None:
            raise FunctionNotFound(ref.qualified_arn)
        return function

    @contextmanager
    def changing(self, ref: FunctionRef) -> Generator[Function]:
        """Give the function to change alone; it is durable when the block ends.

        Raises FunctionNotFound. A block that raises must not have changed anything. When storing fails, the change is
        undone.
        """
        with self._lock:
            function = self.get(ref)
            yield function
            try:
                self._documents.put(ref.key, function.to_json())
            except OSError:
                stored: dict[str, Any] = self._documents.get(ref.key) or {}
                self._functions[ref.key] = Function.from_json(stored)
                raise

    def add(self, function: Function) -> bool:
        """Store a new function; return False, and change nothing, when its name is taken."""
        with self._lock:
            key = function.key
            if key in self._functions:
                return False
            self._documents.put(key, function.to_json())
            self._functions[key] = function
            return True

    def remove(self, ref: FunctionRef) -> Function:
        """Forget a function with all its versions. Raises FunctionNotFound."""
        with self._lock:
            function = self.get(ref)
            self._documents.delete(ref.key)
            del self._functions[ref.key]
            return function

    def all(self, account: str, region: str) -> list[Function]:
        """Return the functions of an account and region, by name."""
        with self._lock:
            found = [
                f for f in self._functions.values() if f.account == account and f.region == region
            ]
        return sorted(found, key=lambda function: function.name)

    def of_url(self, url_id: str) -> tuple[Function, str] | None:
        """Return the function that has a URL, and its alias (empty: the function itself)."""
        with self._lock:
            for function in self._functions.values():
                for alias, config in function.urls.items():
                    if config["id"] == url_id:
                        return function, alias
        return None

    def any(self) -> bool:
        """Whether there is a function."""
        return bool(self._functions)

    def provisioned(self) -> list[Function]:
        """Return the functions that have provisioned concurrency."""
        with self._lock:
            return [function for function in self._functions.values() if function.provisioned]

    def digests(self) -> set[str]:
        """Return the packages that some version uses."""
        with self._lock:
            versions = [v for f in self._functions.values() for v in f.versions.values()]
            return {digest for v in versions for digest in (v.digest, *v.layers)}
