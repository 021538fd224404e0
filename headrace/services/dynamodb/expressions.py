"""Limits the length and the depth of DynamoDB expressions; moto does not, and its parser takes quadratic time.

Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html (documented: 4 KB); the
sentence was reported by clients of AWS (https://github.com/pynamodb/PynamoDB/issues/979).

DynamoDB's legacy members, which Java's Kinesis client library still sends: `Expected` and `AttributeUpdates`.

moto ignores `ConditionalOperator`, the value beside `Exists`, and all of `Expected` in DeleteItem, and stores the
values of a legacy update with another type. Source: documented (LegacyConditionalParameters in the developer guide);
the sentences of errors are those that dynalite's tests observed.

Refuses a Query without a key, a transaction's entry without exactly one action, and other requests, as AWS does.

The sentences are those that dynalite's and moto's tests observed on AWS.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import functools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import ModuleType
from typing import Any, cast

from headrace.moto.patching import check_first

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


INVALID = "One or more parameter values were invalid: "
# How many values each operator takes; None for one or more.
_ARGUMENTS: Mapping[str, int | None] = {
    "EQ": 1, "NE": 1, "LE": 1, "LT": 1, "GE": 1, "GT": 1, "NOT_NULL": 0, "NULL": 0,
    "CONTAINS": 1, "NOT_CONTAINS": 1, "BEGINS_WITH": 1, "IN": None, "BETWEEN": 2,
}  # fmt: skip
_ORDERED = frozenset({"S", "N", "B"})
_SETS = frozenset({"SS", "NS", "BS"})


def check_expected(body: Mapping[str, Any]) -> None:
    """Raise AWS's ValidationException when a request's legacy conditions are invalid."""
    expected = body.get("Expected")
    operator = body.get("ConditionalOperator")
    modern = [name for name in ("UpdateExpression", "ConditionExpression") if body.get(name)]
    legacy = [
        name for name in ("AttributeUpdates", "Expected", "ConditionalOperator") if body.get(name)
    ]
    if modern and legacy:
        raise _invalid(
            "Can not use both expression and non-expression parameters in the same request: Non-expression"
            f" parameters: {{{', '.join(legacy)}}} Expression parameters: {{{', '.join(modern)}}}"
        )
    if operator and not expected:
        raise _invalid("ConditionalOperator cannot be used without Filter or Expected")
    if operator and len(expected or ()) < 2:
        raise _invalid(
            "ConditionalOperator can only be used when Filter or Expected has two or more elements"
        )
    for name, condition in (expected or {}).items():
        _check_condition(name, condition)


def _check_condition(name: str, condition: Mapping[str, Any]) -> None:
    comparison = condition.get("ComparisonOperator")
    if comparison is None:
        if "AttributeValueList" in condition:
            raise _invalid(
                f"{INVALID}AttributeValueList can only be used with a ComparisonOperator for Attribute: {name}"
            )
        exists = condition.get("Exists")
        if exists is not False and "Value" not in condition:
            shown = "null" if exists is None else "true"
            raise _invalid(
                f"{INVALID}Value must be provided when Exists is {shown} for Attribute: {name}"
            )
        if exists is False and "Value" in condition:
            raise _invalid(
                f"{INVALID}Value cannot be used when Exists is false for Attribute: {name}"
            )
        return
    if "Exists" in condition:
        raise _invalid(
            f"{INVALID}Exists and ComparisonOperator cannot be used together for Attribute: {name}"
        )
    if "Value" in condition and "AttributeValueList" in condition:
        raise _invalid(
            f"{INVALID}Value and AttributeValueList cannot be used together for Attribute: {name}"
        )
    values = _values(condition)
    count = _ARGUMENTS.get(comparison)
    if not values and count != 0:
        raise _invalid(
            f"{INVALID}Value or AttributeValueList must be used with ComparisonOperator: {comparison}"
            f" for Attribute: {name}"
        )
    if count is not None and len(values) != count:
        raise _invalid(
            f"{INVALID}Invalid number of argument(s) for the {comparison} ComparisonOperator"
        )


def _invalid(message: str) -> Exception:
    from moto.dynamodb.exceptions import MockValidationException

    return MockValidationException(message)


def _values(condition: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "Value" in condition:
        return [condition["Value"]]
    return list(condition.get("AttributeValueList") or ())


def holds(expected: Mapping[str, Any], operator: str | None, item: Any) -> bool:
    """Return whether a request's legacy conditions are true for moto's `item`, which may be None."""
    attributes: Mapping[str, Any] = {} if item is None else item.attrs
    results = (_holds(condition, attributes.get(name)) for name, condition in expected.items())
    return any(results) if operator == "OR" and expected else all(results)


def _holds(condition: Mapping[str, Any], attribute: Any) -> bool:
    comparison = condition.get("ComparisonOperator")
    if comparison is None:
        if condition.get("Exists") is False:
            return attribute is None
        return _equal(attribute, _to_value(condition["Value"]))
    return _COMPARISONS[comparison](attribute, [_to_value(value) for value in _values(condition)])


def _to_value(value: Mapping[str, Any]) -> Any:
    from moto.dynamodb.models.dynamo_type import DynamoType

    return DynamoType(dict(value))


def _equal(attribute: Any, expected: Any) -> bool:
    return attribute is not None and bool(attribute == expected)


def _order(value: Any) -> Any:
    """Return the sort key of a type's values."""
    if value.type == "B":
        return value.value if isinstance(value.value, bytes) else base64.b64decode(value.value)
    return value.cast_value


def _build_comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, list[Any]], bool]:
    def holds_of(attribute: Any, expected: list[Any]) -> bool:
        return _comparable(attribute, expected[0]) and compare(
            _order(attribute), _order(expected[0])
        )

    return holds_of


def _comparable(attribute: Any, expected: Any) -> bool:
    return attribute is not None and attribute.type == expected.type and attribute.type in _ORDERED


def _contains(attribute: Any, expected: list[Any]) -> bool:
    if attribute is None:
        return False
    value = expected[0]
    if attribute.type == value.type and attribute.type in ("S", "B"):
        return bool(_order(value) in _order(attribute))
    if attribute.type == f"{value.type}S":
        return bool(value.cast_value in attribute.cast_value)
    return attribute.type == "L" and any(_equal(element, value) for element in attribute.value)


def _begins_with(attribute: Any, expected: list[Any]) -> bool:
    value = expected[0]
    return (
        _comparable(attribute, value)
        and attribute.type != "N"
        and bool(_order(attribute).startswith(_order(value)))
    )


def _between(attribute: Any, expected: list[Any]) -> bool:
    low, high = expected
    return (
        _comparable(attribute, low)
        and _comparable(attribute, high)
        and bool(_order(low) <= _order(attribute) <= _order(high))
    )


_COMPARISONS: Mapping[str, Callable[[Any, list[Any]], bool]] = {
    "EQ": lambda found, wanted: _equal(found, wanted[0]),
    "NE": lambda found, wanted: not _equal(found, wanted[0]),
    "LE": _build_comparison(lambda a, b: a <= b),
    "LT": _build_comparison(lambda a, b: a < b),
    "GE": _build_comparison(lambda a, b: a >= b),
    "GT": _build_comparison(lambda a, b: a > b),
    "NOT_NULL": lambda found, _: found is not None,
    "NULL": lambda found, _: found is None,
    "CONTAINS": _contains,
    "NOT_CONTAINS": lambda found, wanted: not _contains(found, wanted),
    "BEGINS_WITH": _begins_with,
    "IN": lambda found, wanted: any(_equal(found, value) for value in wanted),
    "BETWEEN": _between,
}


# --- AttributeUpdates ---------------------------------------------------------------------------


def check_updates(updates: Mapping[str, Any]) -> None:
    """Raise AWS's ValidationException when legacy updates are invalid."""
    for update in updates.values():
        action, value = update.get("Action") or "PUT", update.get("Value")
        if value is None:
            if action != "DELETE":
                raise _invalid(
                    f"{INVALID}Only DELETE action is allowed when no attribute value is specified"
                )
            continue
        kind = next(iter(value))
        if action == "DELETE" and kind not in _SETS:
            raise _invalid(
                f"{INVALID}DELETE action with value is not supported for the type {kind}"
            )
        if action == "ADD" and kind not in _SETS | {"N", "L"}:
            raise _invalid(f"{INVALID}ADD action is not supported for the type {kind}")


def apply_updates(item: Any, updates: Mapping[str, Any], key_names: list[str]) -> None:
    """Apply a request's legacy updates to moto's `item`. Raises AWS's ValidationException."""
    for name, update in updates.items():
        if name in key_names:
            raise _invalid(
                f"{INVALID}Cannot update attribute {name}. This attribute is part of the key"
            )
        action = update.get("Action") or "PUT"
        if "Value" not in update:
            item.attrs.pop(name, None)
            continue
        value, attribute = _to_value(update["Value"]), item.attrs.get(name)
        if action == "PUT" or (attribute is None and action == "ADD"):
            item.attrs[name] = value
        elif attribute is None:
            continue
        elif attribute.type != value.type:
            raise _invalid("Type mismatch for attribute to update")
        elif action == "ADD":
            item.attrs[name] = _sum(attribute, value)
        else:
            _take_away(item, name, attribute, value)


def _sum(attribute: Any, value: Any) -> Any:
    if value.type == "N":
        return _to_value({"N": f"{Decimal(attribute.value) + Decimal(value.value):f}"})
    if value.type == "L":
        return _to_value({"L": [*attribute.value, *value.value]})
    known = attribute.cast_value
    added = [
        element
        for element in value.value
        if _to_value({value.type[0]: element}).cast_value not in known
    ]
    return _to_value({value.type: [*attribute.value, *added]})


def _take_away(item: Any, name: str, attribute: Any, value: Any) -> None:
    gone = value.cast_value
    left = [
        element
        for element in attribute.value
        if _to_value({attribute.type[0]: element}).cast_value not in gone
    ]
    if left:
        item.attrs[name] = _to_value({attribute.type: left})
    else:
        del item.attrs[name]


def patch(handler: Any) -> None:
    """Add the checks before methods of moto's responses; called once."""
    for name, check in (
        ("query", _check_query),
        ("transact_write_items", _check_actions),
        ("create_table", _check_billing),
        ("execute_statement", _check_parameters),
    ):
        setattr(handler, name, check_first(check, getattr(handler, name)))
    _name_message()


def _check_query(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    if not body.get("KeyConditionExpression") and not body.get("KeyConditions"):
        raise _invalid(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )


def _check_actions(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    for entry in body.get("TransactItems") or ():
        if len([action for action in entry.values() if action is not None]) != 1:
            raise _invalid("TransactItems can only contain one of Check, Put, Update or Delete")


def _check_billing(handler: Any) -> None:
    body: Mapping[str, Any] = handler.body
    if body.get("BillingMode") == "PAY_PER_REQUEST" and body.get("ProvisionedThroughput"):
        raise _invalid(  # recorded
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be"
            " specified when BillingMode is PAY_PER_REQUEST"
        )


def _check_parameters(handler: Any) -> None:
    if handler.body.get("Parameters") == []:
        raise _invalid(  # recorded
            "1 validation error detected: Value '[]' at 'parameters' failed to satisfy constraint: Member must have"
            " length greater than or equal to 1"
        )


def _name_message() -> None:
    """Call the message of a failed condition with the item `Message`, as AWS does (recorded)."""
    from moto.dynamodb.exceptions import ConditionalCheckFailed

    failed: Any = ConditionalCheckFailed
    init: Any = failed.__init__

    @functools.wraps(init)
    def make(self: Any, msg: str | None = None, item: Mapping[str, Any] | None = None) -> None:
        init(self, msg, item)
        if item:
            members = json.loads(self.description)
            members["Message"] = members.pop("message")
            self.description = json.dumps(members)

    failed.__init__ = make
