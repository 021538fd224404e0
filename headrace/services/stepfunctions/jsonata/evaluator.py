"""Evaluates JSONata expressions of state machines in child processes with limited time and memory.

The processes (jsonata_child.py) are few, start when they are needed, and end with `close` or with this process.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHILD = Path(__file__).with_name("child.py")
_LENGTH = struct.Struct("<I")
# How many expressions are evaluated at a time; others wait.
_MOST_PROCESSES = 4


class QueryFailed(Exception):
    """An expression that is invalid or fails; `code` is JSONata's, empty for a limit of Step Functions."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class NoValue:
    """The expression has no JSON value: nothing, or, when not `is_nothing`, something else, such as a function."""

    is_nothing: bool


class _Process:
    """A child process that evaluates expressions. Used by one thread at a time."""

    def __init__(self) -> None:
        # -I: it ignores the environment and the user's folders; the package jsonata is found as in this process.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            close_fds=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. Raises OSError or EOFError when the process has ended."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        body = json.dumps(request).encode()
        process.stdin.write(_LENGTH.pack(len(body)) + body)
        process.stdin.flush()
        header = process.stdout.read(_LENGTH.size)
        if len(header) < _LENGTH.size:
            raise EOFError
        return json.loads(process.stdout.read(_LENGTH.unpack(header)[0]))

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    # The last request is still in the pipe's buffer.
                    continue
        self._process.wait()


class Evaluator:
    """Evaluates expressions. Thread-safe; at most a few at a time."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_MOST_PROCESSES)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []

    def value(self, expression: str, variables: dict[str, Any]) -> Any:
        """Return an expression's value as JSON, or a NoValue. Raises QueryFailed.

        Args:
            expression: without its `{%` and `%}`.
            variables: by their names, without dollar signs; JSON values.
        """
        answer = self._ask({"is_check": False, "expression": expression, "variables": variables})
        if "value" in answer:
            return answer["value"]
        return NoValue(is_nothing="nothing" in answer)

    def roots(self, expression: str) -> list[str]:
        """Return the names that an expression reads: names, `$$`, `$states.<name>`. Raises QueryFailed."""
        return self._ask({"is_check": True, "expression": expression})["roots"]

    def close(self) -> None:
        """End the idle processes; the next expression starts another."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._places:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            process = process or _Process()
            try:
                answer = process.ask(request)
            except (OSError, EOFError):
                process.end()
                # Assumed: AWS's sentence for this limit is not public.
                raise QueryFailed(
                    "", "Expression evaluation timeout: Check for infinite loop"
                ) from None
            with self._lock:
                self._idle.append(process)
        if "message" in answer:
            raise QueryFailed(answer["code"], answer["message"])
        return answer


EVALUATOR = Evaluator()
