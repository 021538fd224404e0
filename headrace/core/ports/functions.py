"""The port through which services invoke Lambda functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class FunctionNotFound(Exception):
    """No such function, version or alias."""


class FunctionThrottled(Exception):
    """The function's concurrency is used up; try again later."""


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """The answer of a function. `function_error` is None, `Handled` or `Unhandled`."""

    payload: bytes
    function_error: str | None
    executed_version: str
    request_id: str
    log_tail: bytes = b""


class FunctionInvoker(Protocol):
    """Invokes Lambda functions synchronously."""

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """Run the function and wait. Raises FunctionNotFound, FunctionThrottled."""
        ...
