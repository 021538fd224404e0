"""Stores all functions in memory and in the state database."""

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
    """All functions. Thread-safe. Change a function only inside `changing`, which makes the change durable."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("lambda_functions")
        self._lock = threading.RLock()
        self._functions: dict[str, Function] = {}

    def load(self) -> None:
        """Load all functions from the state database."""
        with self._lock:
            self._functions = {
                key: Function.from_json(value) for key, value in self._documents.items()
            }

    def find(self, ref: FunctionRef) -> Function | None:
        """Return the function, or None."""
        return self._functions.get(ref.key)

    def of_key(self, key: str) -> Function | None:
        """Return the function with this key (see `FunctionRef.key`), or None."""
        return self._functions.get(key)

    def role_of(self, function_arn: str) -> str:
        """Return the ARN of a function's role, or "" when the function does not exist."""
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
        """Yield the function for a change by one thread at a time. The change is durable when the block ends.

        Raises FunctionNotFound. A block that raises must not have changed anything. If the change cannot be stored, it
        is taken back.
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
        """Store a new function. Return False, having changed nothing, when its name is taken."""
        with self._lock:
            key = function.key
            if key in self._functions:
                return False
            self._documents.put(key, function.to_json())
            self._functions[key] = function
            return True

    def remove(self, ref: FunctionRef) -> Function:
        """Delete a function with all its versions. Raises FunctionNotFound."""
        with self._lock:
            function = self.get(ref)
            self._documents.delete(ref.key)
            del self._functions[ref.key]
            return function

    def all(self, account: str, region: str) -> list[Function]:
        """Return the functions of an account and region, sorted by name."""
        with self._lock:
            functions = [
                f for f in self._functions.values() if f.account == account and f.region == region
            ]
        return sorted(functions, key=lambda function: function.name)

    def of_url(self, url_id: str) -> tuple[Function, str] | None:
        """Return the function that has a function URL, and its alias ("": the function itself), or None."""
        with self._lock:
            for function in self._functions.values():
                for alias, config in function.urls.items():
                    if config["id"] == url_id:
                        return function, alias
        return None

    def any(self) -> bool:
        """Whether any function exists."""
        return bool(self._functions)

    def list_provisioned(self) -> list[Function]:
        """Return the functions that have provisioned concurrency."""
        with self._lock:
            return [function for function in self._functions.values() if function.provisioned]

    def digests(self) -> set[str]:
        """Return the digests of the packages that versions use."""
        with self._lock:
            versions = [v for f in self._functions.values() for v in f.versions.values()]
            return {digest for v in versions for digest in (v.digest, *v.layers)}
