"""Limits the length and the depth of DynamoDB expressions; moto does not, and its parser takes quadratic time.

Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html (documented: 4 KB); the
sentence was reported by clients of AWS (https://github.com/pynamodb/PynamoDB/issues/979).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

MOST_EXPRESSION_BYTES = 4096
_ASSIGNMENT = re.compile(r"(#?[A-Za-z][A-Za-z0-9_]*) *= *(:[A-Za-z][A-Za-z0-9_]*)")
_EXISTENCE = re.compile(r"attribute_exists\((#?[A-Za-z][A-Za-z0-9_]*)\)")
_ACTIONS = (
    *("put_item", "get_item", "delete_item", "update_item", "query", "scan"),
    *("batch_get_item", "transact_get_items", "transact_write_items"),
)


def patch_expressions(responses: ModuleType) -> None:
    """Make `moto.dynamodb.responses` refuse expressions that are longer than AWS takes."""
    handler: Any = responses.DynamoHandler
    for action in _ACTIONS:
        setattr(handler, action, _check_first(getattr(handler, action)))
    _quicken_updates()


def _quicken_updates() -> None:
    """Parse an expression once for all requests that have it, and visit its nodes without searching classes."""
    from moto.dynamodb.comparisons import ConditionExpressionParser
    from moto.dynamodb.parsing.ast_nodes import DepthFirstTraverser
    from moto.dynamodb.parsing.expressions import UpdateExpressionParser

    parser: Any = UpdateExpressionParser
    # Nobody changes the tree: moto's validator works on a copy. 256 trees of at most 4 KB of text.
    parser.make = functools.lru_cache(256)(parser.make)
    conditions: Any = ConditionExpressionParser
    conditions._lex_condition_expression = _lex_once(conditions._lex_condition_expression)
    traverser: Any = DepthFirstTraverser
    traverser.traverse_node_recursively = _visit_of(traverser.traverse_node_recursively)


def _lex_once(lex: Any) -> Any:
    """Return moto's lexer of conditions, which reads each of the last 256 texts once; nodes do not change."""

    @functools.lru_cache(256)
    def nodes_of(parser: Any, text: str) -> tuple[Any, ...]:
        return tuple(lex(parser(text, None, None)))

    @functools.wraps(lex)
    def lex_text(self: Any) -> Any:
        return deque(nodes_of(type(self), self.condition_expression))

    return lex_text


@functools.lru_cache(256)
def plain_assignments(expression: str) -> tuple[tuple[str, str], ...] | None:
    """Return (name, value's name) of each assignment of `SET a = :v, #b = :w`; None for any other expression."""
    from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

    if not expression.startswith("SET "):
        return None
    matches = [_ASSIGNMENT.fullmatch(text.strip(" ")) for text in expression[4:].split(",")]
    assignments = tuple((match[1], match[2]) for match in matches if match is not None)
    if len(assignments) < len(matches):
        return None
    reserved = ReservedKeywords.get_reserved_keywords()
    return None if any(name.upper() in reserved for name, _ in assignments) else assignments


@functools.lru_cache(256)
def plain_conditions(expression: str) -> tuple[tuple[str, str], ...] | None:
    """Return (name, value's name) of each part of `a = :v AND attribute_exists(b)`; None for any other expression.

    The value's name is empty for an attribute that must exist.
    """
    from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

    if not expression:
        return ()
    conditions: list[tuple[str, str]] = []
    for text in re.split(" AND ", expression):
        match = _ASSIGNMENT.fullmatch(text) or _EXISTENCE.fullmatch(text)
        if match is None:
            return None
        conditions.append((match[1], match[2] if match.re is _ASSIGNMENT else ""))
    reserved = ReservedKeywords.get_reserved_keywords()
    is_reserved = any(name.upper() in reserved for name, _ in conditions)
    return None if is_reserved else tuple(conditions)


def _visit_of(visit: Any) -> Any:
    """Return moto's visit of a tree, with the function for a class of nodes looked up once for each traverser."""
    from moto.dynamodb.parsing.ast_nodes import Node

    @functools.wraps(visit)
    def visit_node(self: Any, node: Any, child_id: int = -1) -> Any:
        kind: Any = type(node)
        if Node not in kind.__mro__:
            return node
        functions = self.__dict__.setdefault("headrace_functions", {})
        if kind not in functions:
            by_class = self._processing_map().items()
            functions[kind] = next((run for cls, run in by_class if cls in kind.__mro__), None)
        parent = node.parent
        for index, child in enumerate(node.children or ()):
            self.pre_processing_of_child(node, index)
            visit_node(self, child, index)
        if functions[kind] is None:
            return node
        processed = functions[kind](node)
        processed.parent = parent
        if parent:
            parent.children[child_id] = processed
        return processed

    return visit_node


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
