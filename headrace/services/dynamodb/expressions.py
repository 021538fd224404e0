"""Limits the length and the depth of DynamoDB expressions; moto does not, and its parser takes quadratic time.

Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html (documented: 4 KB); the
sentence was reported by clients of AWS (https://github.com/pynamodb/PynamoDB/issues/979).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

MOST_EXPRESSION_BYTES = 4096
_ACTIONS = (
    *("put_item", "get_item", "delete_item", "update_item", "query", "scan"),
    *("batch_get_item", "transact_get_items", "transact_write_items"),
)


def patch_expressions(responses: ModuleType) -> None:
    """Make `moto.dynamodb.responses` refuse expressions that are longer than AWS takes."""
    handler: Any = responses.DynamoHandler
    for action in _ACTIONS:
        setattr(handler, action, _check_first(getattr(handler, action)))


def _check_first(act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(act)
    def check_and_act(self: Any) -> Any:
        refusal = refusal_of(self.body)
        if refusal is not None:
            from moto.dynamodb.exceptions import MockValidationException

            raise MockValidationException(refusal)
        try:
            return act(self)
        except RecursionError:
            # Documented: at most 300 operators; moto reads each one level deeper. The sentence is assumed.
            from moto.dynamodb.exceptions import MockValidationException

            name = next((name for name, _ in _expressions(self.body)), "expression")
            message = f"Invalid {name}: The expression contains too many operators"
            raise MockValidationException(message) from None

    return check_and_act


def refusal_of(body: Mapping[str, Any]) -> str | None:
    """Return AWS's message for a request with an expression that is too long, or None."""
    for name, text in _expressions(body):
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MOST_EXPRESSION_BYTES:
            return (
                f"Invalid {name}: Expression size has exceeded the maximum allowed size;"
                f" expression size: {size}"
            )
    return None


def _expressions(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for the expressions of a request, and of the entries of a batch or a transaction."""
    for name, value in body.items():
        if isinstance(value, str) and name.endswith("Expression"):
            yield name, value
    batch = cast("Mapping[str, Any]", body.get("RequestItems") or {})
    for part in batch.values():
        yield from _expressions(part)
    for item in cast("list[Mapping[str, Any]]", body.get("TransactItems") or []):
        for part in item.values():
            yield from _expressions(part)
