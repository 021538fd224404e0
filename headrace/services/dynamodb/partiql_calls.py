"""Runs statements of DynamoDB's PartiQL: each becomes the request of its own kind, which moto's table then answers.

Observed by others on AWS: what a condition on a missing item does, RETURNING, the errors of batches and transactions.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
import re
from typing import Any

from headrace.core.values import parse_json
from headrace.permissions.requests.others import partiql_target
from headrace.services.dynamodb.items import once_per_token
from headrace.services.dynamodb.partiql import Condition, Statement, parse, refuse

_MOST_IN_BATCH = 25
_MOST_IN_TRANSACTION = 100

_NO_KEY = "Where clause does not contain a mandatory equality on all key attributes"
_KEY_OPERATORS = ("=", "<", "<=", ">", ">=", "BETWEEN", "begins_with")


def _keys_of(table: Any, index: str) -> list[str]:
    """Return the names of the key attributes of a table or an index, the partition key first."""
    if not index:
        return [table.hash_key_attr, *([table.range_key_attr] if table.range_key_attr else [])]
    for one in table.all_indexes():
        if one.name == index:
            by_type = {key["KeyType"]: key["AttributeName"] for key in one.schema}
            return [by_type[kind] for kind in ("HASH", "RANGE") if kind in by_type]
    raise refuse(f"The table does not have the specified index: {index}")


def _split_key(statement: Statement, keys: list[str]) -> tuple[dict[str, Any], list[Condition]]:
    """Return the primary key that a condition asks for, and what else it asks. Raises ValidationException."""
    key: dict[str, Any] = {}
    others: list[Condition] = []
    for part in statement.where.parts() if statement.where else ():
        equality = next((one for one in part.comparisons if one[1] == "="), None)
        if equality is not None and equality[0] in keys and equality[0] not in key:
            key[equality[0]] = equality[2][0]
        else:
            others.append(part)
    if len(key) < len(keys):
        raise refuse(_NO_KEY)
    return key, others


def _join_conditions(conditions: list[Condition]) -> str:
    # An expression with redundant parentheses is refused.
    if len(conditions) == 1:
        return conditions[0].text
    return " AND ".join(f"({one.text})" for one in conditions)


def _write_of(statement: Statement, table: Any) -> tuple[str, dict[str, Any]]:
    """Return the operation and the request of a write: PutItem, UpdateItem or DeleteItem."""
    keys = _keys_of(table, "")
    names = statement.names
    request: dict[str, Any] = {"TableName": statement.table}
    if statement.verb == "INSERT":
        mark = names.name(keys[0])
        condition = f"attribute_not_exists({mark})"
        return "Put", {
            **request, "Item": statement.item["M"], "ConditionExpression": condition,
            "ExpressionAttributeNames": {mark: keys[0]},
        }  # fmt: skip
    key, others = _split_key(statement, keys)
    request["Key"] = key
    condition = _join_conditions(others)
    mark = names.name(keys[0])
    if statement.verb == "UPDATE":
        condition = " AND ".join(
            [f"attribute_exists({mark})", *([f"({condition})"] if condition else [])]
        )
        request["UpdateExpression"] = statement.update
    elif condition:  # a missing item meets each, and nothing happens
        condition = f"attribute_not_exists({mark}) OR ({condition})"
    if condition:
        request["ConditionExpression"] = condition
    return ("Update" if statement.verb == "UPDATE" else "Delete"), {
        **request, **names.used(statement.update, condition),
    }  # fmt: skip


def _read_of(statement: Statement, table: Any) -> tuple[str, dict[str, Any]]:
    """Return `query` or `scan`, and its request: a query if the condition names a partition."""
    keys = _keys_of(table, statement.index)
    parts = list(statement.where.parts()) if statement.where else []
    on_key: list[Condition] = []
    for name, operators in zip(keys, (("=",), _KEY_OPERATORS), strict=False):
        if len(on_key) == keys.index(name):
            on_key += [
                part for part in parts
                if part.comparisons and part.comparisons[0][:1] == (name,) and part.comparisons[0][1] in operators
            ][:1]  # fmt: skip
    request: dict[str, Any] = {"TableName": statement.table}
    if statement.index:
        request["IndexName"] = statement.index
    others = [part for part in parts if part not in on_key]
    names = statement.names
    of_keys = {mark for name, mark in names.names.items() if name in keys}
    is_filter_free = not any(
        mark in re.findall(r"#n\d+", part.text) for part in others for mark in of_keys
    )
    if on_key and is_filter_free:
        request["KeyConditionExpression"] = " AND ".join(part.text for part in on_key)
        if statement.order is not None:
            request["ScanIndexForward"] = statement.order[1]
        if others:
            request["FilterExpression"] = _join_conditions(others)
    else:
        if statement.order is not None:
            raise refuse(
                "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."
            )
        if parts:
            request["FilterExpression"] = _join_conditions(parts)
    if statement.order is not None and statement.order[0] not in keys:
        raise refuse(
            f"Variable reference {statement.order[0]} in ORDER BY clause must be part of the primary key"
        )
    used = names.used(request.get("KeyConditionExpression"), request.get("FilterExpression"))
    return ("query" if "KeyConditionExpression" in request else "scan"), {**request, **used}


def _project(item: dict[str, Any], columns: list[tuple[str | int, ...]]) -> dict[str, Any]:
    """Return the columns of an item, each by the last name of its path."""
    if not columns:
        return item
    projected: dict[str, Any] = {}
    for steps in columns:
        value: Any = {"M": item}
        for step in steps:
            inner = value.get("L" if isinstance(step, int) else "M")
            if isinstance(step, int):
                value = inner[step] if inner is not None and step < len(inner) else None
            else:
                value = None if inner is None else inner.get(step)
            if value is None:
                break
        if value is not None:
            last = next(step for step in reversed(steps) if isinstance(step, str))
            projected[last] = value
    return projected


# --- the three calls -----------------------------------------------------------------------------


def add_calls(module: Any) -> None:
    """Replace the calls with PartiQL of moto's module of responses."""
    handler = module.DynamoHandler
    handler.execute_statement = _execute_statement
    handler.batch_execute_statement = _batch_execute_statement
    handler.execute_transaction = once_per_token(_execute_transaction)


def _call(self: Any, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run an operation of moto's handler with another request."""
    before, self.body = self.body, request
    try:
        result = getattr(self, operation)()
    finally:
        self.body = before
    return {} if result is None else result.result


def _table_of(self: Any, statement: Statement) -> Any:
    return self.dynamodb_backend.get_table(statement.table)


def _run(self: Any, statement: Statement, more: dict[str, Any]) -> dict[str, Any]:
    """Run a statement; return ExecuteStatement's answer. `more`: Limit, NextToken, ConsistentRead."""
    from moto.dynamodb.exceptions import ConditionalCheckFailed, DynamodbException

    table = _table_of(self, statement)
    if statement.verb == "EXISTS":
        raise refuse("EXISTS can only be used in ExecuteTransaction")
    if statement.verb == "SELECT":
        operation, request = _read_of(statement, table)
        token = more.get("NextToken")
        if token:
            request["ExclusiveStartKey"] = _read_token(token)
        for name in ("Limit", "ConsistentRead"):
            if more.get(name):
                request[name] = more[name]
        answer = _call(self, operation, request)
        items = [_project(item, statement.columns) for item in answer.get("Items", [])]
        last = answer.get("LastEvaluatedKey")
        following = {"NextToken": _make_token(last), "LastEvaluatedKey": last} if last else {}
        return {"Items": items, **following}
    kind, request = _write_of(statement, table)
    if statement.returning != "NONE":
        request["ReturnValues"] = statement.returning
    try:
        answer = _call(self, f"{kind.lower()}_item", request)
    except ConditionalCheckFailed:
        if kind == "Put":
            raise DynamodbException(
                "DuplicateItemException", "Duplicate primary key exists in table"
            ) from None
        raise
    attributes = answer.get("Attributes")
    return {"Items": [attributes] if attributes else []}


def _make_token(key: Any) -> str:
    return base64.b64encode(json.dumps(key).encode()).decode()


def _read_token(token: str) -> Any:
    try:
        key = parse_json(base64.b64decode(token, validate=True))
    except ValueError:
        key = None
    if not isinstance(key, dict):
        raise refuse("Given NextToken is invalid")
    return key


def _execute_statement(self: Any) -> Any:
    """ExecuteStatement."""
    from moto.core.responses import ActionResult

    body = self.body
    statement = parse(body.get("Statement", ""), body.get("Parameters") or [])
    return ActionResult(_run(self, statement, body))


def _batch_execute_statement(self: Any) -> Any:
    """BatchExecuteStatement: each statement has an answer of its own; a read names a whole primary key."""
    from moto.core.exceptions import JsonRESTError
    from moto.core.responses import ActionResult

    statements = self.body.get("Statements") or []
    if len(statements) > _MOST_IN_BATCH:
        raise refuse(f"Member must have length less than or equal to {_MOST_IN_BATCH}")
    targets = [partiql_target(one["Statement"]) for one in statements]
    if len({target[0] == "SELECT" for target in targets if target is not None}) > 1:
        # Documented: BatchExecuteStatement. The sentence is assumed: a transaction's.
        raise refuse("Batches cannot have both reads and writes")
    responses: list[dict[str, Any]] = []
    for one in statements:
        response: dict[str, Any] = {}
        try:
            statement = parse(one["Statement"], one.get("Parameters") or [])
            response["TableName"] = statement.table
            if statement.verb == "SELECT":
                _need_key(statement, _table_of(self, statement))
            items = _run(self, statement, one)["Items"]
            if items:
                response["Item"] = items[0]
        except JsonRESTError as error:
            name = str(error.error_type).rpartition("#")[2]
            codes = {
                "ValidationException": "ValidationError",
                "DuplicateItemException": "DuplicateItem",
            }
            response["Error"] = {
                "Code": codes.get(name, name.removesuffix("Exception")),
                "Message": error.message,
            }
        responses.append(response)
    return ActionResult({"Responses": responses})


def _need_key(statement: Statement, table: Any) -> None:
    try:
        _split_key(statement, _keys_of(table, ""))
    except Exception as error:
        raise refuse(
            "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
        ) from error


def _execute_transaction(self: Any) -> Any:
    """ExecuteTransaction: all reads, or all writes and checks; all or none of them happen."""
    from moto.core.responses import ActionResult

    listed = self.body.get("TransactStatements") or []
    if len(listed) > _MOST_IN_TRANSACTION:
        raise refuse(f"Member must have length less than or equal to {_MOST_IN_TRANSACTION}")
    statements = [parse(one["Statement"], one.get("Parameters") or []) for one in listed]
    reads = [statement.verb == "SELECT" for statement in statements]
    if any(reads) and not all(reads):
        raise refuse("Transactions cannot have both reads and writes")
    if all(reads):
        gets = [
            {"Get": {"TableName": one.table, "Key": _split_key(one, _keys_of(_table_of(self, one), ""))[0]}}
            for one in statements
        ]  # fmt: skip
        answer = _call(self, "transact_get_items", {"TransactItems": gets})
        return ActionResult(
            {
                "Responses": [
                    {"Item": _project(one["Item"], statement.columns)} if one.get("Item") else {}
                    for statement, one in zip(statements, answer["Responses"], strict=True)
                ]
            }
        )
    actions: list[dict[str, Any]] = []
    for statement in statements:
        table = _table_of(self, statement)
        if statement.verb == "EXISTS":
            keys = _keys_of(table, "")
            key, others = _split_key(statement, keys)
            condition = (
                _join_conditions(others) or f"attribute_exists({statement.names.name(keys[0])})"
            )
            check = {"TableName": statement.table, "Key": key, "ConditionExpression": condition}
            actions.append({"ConditionCheck": {**check, **statement.names.used(condition)}})
        else:
            kind, request = _write_of(statement, table)
            actions.append({kind: request})
    _call(self, "transact_write_items", {"TransactItems": actions})
    return ActionResult({"Responses": []})  # recorded
