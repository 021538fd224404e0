"""Evaluates JSONata expressions of state machines, with the engine of jsonata_child.py in a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.evaluation import POOL, Engine, TooMuch

_ENGINE = Engine(Path(__file__).with_name("jsonata_child.py"))


class QueryFailed(Exception):
    """An expression that is invalid or fails; `code` is JSONata's, empty for a limit of Step Functions."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class NoValue:
    """The expression has no JSON value: nothing, or, when not `is_nothing`, something else, such as a function."""

    is_nothing: bool


class Evaluator:
    """Evaluates expressions. Thread-safe; callers get their turns from the pool of all evaluations."""

    def value(self, expression: str, variables: dict[str, Any], caller: str = "") -> Any:
        """Return an expression's value as JSON, or a NoValue. Raises QueryFailed.

        Args:
            expression: without its `{%` and `%}`.
            variables: by their names, without dollar signs; JSON values.
            caller: whose evaluation it is: an execution's ARN.
        """
        request = {"is_check": False, "expression": expression, "variables": variables}
        answer = self._ask(request, caller)
        if "value" in answer:
            return answer["value"]
        return NoValue(is_nothing="nothing" in answer)

    def roots(self, expression: str) -> list[str]:
        """Return the names that an expression reads: names, `$$`, `$states.<name>`. Raises QueryFailed."""
        return self._ask({"is_check": True, "expression": expression}, "")["roots"]

    def _ask(self, request: dict[str, Any], caller: str) -> dict[str, Any]:
        try:
            answer = json.loads(POOL.ask(_ENGINE, json.dumps(request).encode(), caller=caller))
        except TooMuch:
            # Assumed: AWS's sentence for this limit is not public.
            raise QueryFailed(
                "", "Expression evaluation timeout: Check for infinite loop"
            ) from None
        if "message" in answer:
            raise QueryFailed(answer["code"], answer["message"])
        return answer


EVALUATOR = Evaluator()
