"""DynamoDB's PartiQL: a statement becomes the request of its own kind, which moto's table then answers.

moto's parser reads `a=1` and `f(a, 'b')` not at all, and ignores `IN`, `OR`, `ORDER BY` and most else without a word.

Documented: docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.html. Observed by others on AWS: what
a condition on a missing item does, RETURNING, the sentences that a public suite of tests for DynamoDB's emulators has.
Assumed: other sentences. Bounded: a statement has at most 8,192 characters and 100 levels.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.permissions.requests.others import partiql_target

_MOST_CHARACTERS = 8192
_DEEPEST = 100
_MOST_IN_BATCH = 25
_MOST_IN_TRANSACTION = 100
_TOKEN = re.compile(
    r"""\s+|(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><<|>>|<=|>=|<>|!=|[=<>()\[\]{},:.?*+-])"""
)
_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FUNCTIONS = (
    "begins_with",
    "contains",
    "attribute_type",
    "attribute_exists",
    "attribute_not_exists",
)
_SET_TYPES = {"S": "SS", "N": "NS", "B": "BS"}
_MALFORMED = "Statement wasn't well formed, can't be processed: "


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; its text has the placeholders of `Names`.

    Attributes:
        comparisons: what all must hold of one attribute and constants: (attribute, operator, values).
    """

    text: str
    comparisons: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()
    rest: tuple[Condition, ...] = ()

    def parts(self) -> tuple[Condition, ...]:
        """Return the conditions that all must hold."""
        return self.rest or (self,)


@dataclass(slots=True)
class Names:
    """The placeholders of an expression's names and values."""

    names: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def name(self, name: str) -> str:
        """Return the placeholder of a name."""
        return self.names.setdefault(name, f"#n{len(self.names)}")

    def value(self, value: Any) -> str:
        """Return the placeholder of a value in DynamoDB's JSON."""
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def used(self, *texts: str | None) -> dict[str, Any]:
        """Return the request's members for the placeholders that occur in some expressions."""
        tokens = {token for text in texts if text for token in re.findall(r"[#:][nv]\d+", text)}
        names = {mark: name for name, mark in self.names.items() if mark in tokens}
        values = {mark: value for mark, value in self.values.items() if mark in tokens}
        return {
            **({"ExpressionAttributeNames": names} if names else {}),
            **({"ExpressionAttributeValues": values} if values else {}),
        }


@dataclass(slots=True)
class Statement:
    """A parsed statement.

    Attributes:
        verb: SELECT, INSERT, UPDATE, DELETE or EXISTS.
        columns: the paths of a SELECT, each with its steps; empty for all.
        order: the attribute by which a SELECT is ordered, and whether it ascends.
        update: an UPDATE's expression.
        returning: ReturnValues.
    """

    verb: str
    table: str
    index: str = ""
    columns: list[tuple[str | int, ...]] = field(default_factory=list[tuple[str | int, ...]])
    where: Condition | None = None
    order: tuple[str, bool] | None = None
    item: Any = None
    update: str = ""
    returning: str = "NONE"
    names: Names = field(default_factory=Names)


def _refuse(message: str) -> Exception:
    from moto.dynamodb.exceptions import MockValidationException

    return MockValidationException(message)


class _Parser:
    def __init__(self, text: str, parameters: list[Any]) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise _refuse(f"{_MALFORMED}Statement is longer than {_MOST_CHARACTERS} characters")
        self.tokens = list(self._tokens(text))
        self.at, self.depth = 0, 0
        self.parameters = parameters
        self.used_parameters = 0
        self.names = Names()

    @staticmethod
    def _tokens(text: str) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _refuse(f"{_MALFORMED}Unexpected term")
            if match.lastgroup is not None:
                yield match.lastgroup, match[0]
            at = match.end()
        yield "end", ""

    # --- tokens ---

    def next_is(self, *texts: str) -> bool:
        kind, text = self.tokens[self.at]
        return kind in ("word", "sign") and (
            text in texts or (kind == "word" and text.upper() in texts)
        )

    def take(self, *texts: str) -> str:
        """Go past one of some words or signs; return it in upper case, or nothing."""
        if not self.next_is(*texts):
            return ""
        self.at += 1
        return self.tokens[self.at - 1][1].upper()

    def need(self, *texts: str) -> str:
        return self.take(*texts) or self.fail()

    def fail(self) -> Any:
        raise _refuse(f"{_MALFORMED}Unexpected term")

    def identifier(self) -> str:
        kind, text = self.tokens[self.at]
        if kind not in ("word", "name"):
            self.fail()
        self.at += 1
        return text if kind == "word" else text[1:-1].replace('""', '"')

    # --- statements ---

    def parse(self) -> Statement:
        verb = self.take("SELECT", "INSERT", "UPDATE", "DELETE", "EXISTS")
        if not verb:
            raise _refuse(f"{_MALFORMED}Expected data manipulation")
        statement = {
            "SELECT": self.select, "INSERT": self.insert, "UPDATE": self.change, "DELETE": self.delete,
            "EXISTS": self.exists,
        }[verb]()  # fmt: skip
        if self.tokens[self.at][0] != "end":
            self.fail()
        if self.used_parameters != len(self.parameters):
            raise _refuse("Number of parameters in request and statement don't match.")
        statement.names = self.names
        return statement

    def exists(self) -> Statement:
        self.need("(")
        self.need("SELECT")
        statement = self.select()
        self.need(")")
        statement.verb = "EXISTS"
        return statement

    def select(self) -> Statement:
        columns: list[tuple[str | int, ...]] = []
        if not self.take("*"):
            columns.append(self.path())
            while self.take(","):
                columns.append(self.path())
        self.need("FROM")
        statement = Statement("SELECT", self.identifier(), columns=columns)
        if self.take("."):
            statement.index = self.identifier()
        statement.where = self.where()
        if self.take("ORDER"):
            self.need("BY")
            by = self.identifier()
            statement.order = (by, self.take("ASC", "DESC") != "DESC")
        return statement

    def insert(self) -> Statement:
        self.need("INTO")
        statement = Statement("INSERT", self.identifier())
        self.need("VALUE")
        statement.item = self.value()
        if "M" not in statement.item:
            self.fail()
        return statement

    def change(self) -> Statement:
        statement = Statement("UPDATE", self.identifier())
        sets: list[str] = []
        removes: list[str] = []
        adds: list[str] = []
        deletes: list[str] = []
        while verb := self.take("SET", "REMOVE"):
            while True:
                target = self.expression_path(self.path())
                if verb == "REMOVE":
                    removes.append(target)
                else:
                    self.need("=")
                    self.assignment(target, sets, adds, deletes)
                if not self.take(","):
                    break
        clauses = (("SET", sets), ("REMOVE", removes), ("ADD", adds), ("DELETE", deletes))
        statement.update = " ".join(
            f"{name} {', '.join(parts)}" for name, parts in clauses if parts
        )
        if not statement.update:
            self.fail()
        statement.where = self.where()
        statement.returning = self.returning()
        return statement

    def assignment(self, target: str, sets: list[str], adds: list[str], deletes: list[str]) -> None:
        for function, clause in (("SET_ADD", adds), ("SET_DELETE", deletes)):
            if self.take(function):
                self.need("(")
                if self.expression_path(self.path()) != target:
                    raise _refuse(f"{_MALFORMED}{function.lower()} changes the attribute itself")
                self.need(",")
                clause.append(f"{target} {self.names.value(self.value())}")
                self.need(")")
                return
        operand = self.operand()
        sign = self.take("+", "-")
        sets.append(
            f"{target} = {operand} {sign} {self.operand()}" if sign else f"{target} = {operand}"
        )

    def operand(self) -> str:
        """Return an assignment's operand as an update expression has it."""
        for function in ("LIST_APPEND", "IF_NOT_EXISTS"):
            if self.take(function):
                self.need("(")
                first = self.operand()
                self.need(",")
                second = self.operand()
                self.need(")")
                return f"{function.lower()}({first}, {second})"
        if self.is_path():
            return self.expression_path(self.path())
        return self.names.value(self.value())

    def delete(self) -> Statement:
        self.need("FROM")
        statement = Statement("DELETE", self.identifier())
        statement.where = self.where()
        statement.returning = self.returning()
        if statement.returning not in ("NONE", "ALL_OLD"):
            clause = statement.returning.replace("UPDATED", "MODIFIED").replace("_", " ")
            raise _refuse(
                f"Invalid returning clause: RETURNING {clause} *. Only RETURNING ALL OLD * is allowed in DELETE "
                "statements."
            )
        return statement

    def returning(self) -> str:
        if not self.take("RETURNING"):
            return "NONE"
        which = f"{self.need('ALL', 'MODIFIED')}_{self.need('OLD', 'NEW')}"
        self.need("*")
        return which.replace("MODIFIED", "UPDATED")

    # --- conditions ---

    def where(self) -> Condition | None:
        return self.alternatives() if self.take("WHERE") else None

    def alternatives(self) -> Condition:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail()
        parts = [self.conjunction()]
        while self.take("OR"):
            parts.append(self.conjunction())
        self.depth -= 1
        if len(parts) == 1:
            return parts[0]
        return Condition(" OR ".join(f"({part.text})" for part in parts))

    def conjunction(self) -> Condition:
        parts = [self.negation()]
        while self.take("AND"):
            parts.append(self.negation())
        if len(parts) == 1:
            return parts[0]
        rest = tuple(one for part in parts for one in part.parts())
        return Condition(" AND ".join(f"({part.text})" for part in parts), rest=rest)

    def negation(self) -> Condition:
        if self.take("NOT"):
            self.depth += 1
            if self.depth > _DEEPEST:
                self.fail()
            negated = self.negation()
            self.depth -= 1
            return Condition(f"NOT ({negated.text})")
        if self.take("("):
            condition = self.alternatives()
            self.need(")")
            return condition
        for function in _FUNCTIONS:
            if self.next_is(function.upper()) and self.tokens[self.at + 1][1] == "(":
                return self.function(function)
        return self.comparison()

    def function(self, name: str) -> Condition:
        self.need(name.upper())
        self.need("(")
        if not self.is_path():
            raise _refuse(
                f"Operator or function requires a document path; operator or function: {name}"
            )
        steps = self.path()
        if name.startswith("attribute_") and name.endswith("exists"):
            self.need(")")
            return Condition(f"{name}({self.expression_path(steps)})")
        self.need(",")
        value = self.value()
        self.need(")")
        text = f"{name}({self.expression_path(steps)}, {self.names.value(value)})"
        return Condition(text, _of_attribute(steps, name, value))

    def comparison(self) -> Condition:
        if not self.is_path():  # a constant before its attribute
            value = self.names.value(self.value())
            operator = _COMPARISONS[self.need(*_COMPARISONS)]
            return Condition(f"{value} {operator} {self.expression_path(self.path())}")
        if self.take("SIZE"):
            self.need("(")
            steps: tuple[str | int, ...] = ()
            left = f"size({self.expression_path(self.path())})"
            self.need(")")
        else:
            steps = self.path()
            left = self.expression_path(steps)
        if self.take("IS"):
            is_negated = bool(self.take("NOT"))
            if self.need("MISSING", "NULL") == "MISSING":
                return Condition(f"attribute_{'exists' if is_negated else 'not_exists'}({left})")
            is_null = f"attribute_type({left}, {self.names.value({'S': 'NULL'})})"
            return Condition(f"NOT {is_null}" if is_negated else is_null)
        is_negated = bool(self.take("NOT"))
        condition = self.predicate(left, steps)
        return Condition(f"NOT ({condition.text})") if is_negated else condition

    def predicate(self, left: str, steps: tuple[str | int, ...]) -> Condition:
        if self.take("BETWEEN"):
            low = self.value()
            self.need("AND")
            high = self.value()
            text = f"{left} BETWEEN {self.names.value(low)} AND {self.names.value(high)}"
            return Condition(text, _of_attribute(steps, "BETWEEN", low, high))
        if self.take("IN"):
            end = {"(": ")", "[": "]"}[self.need("(", "[")]
            values = [self.value()]
            while self.take(","):
                values.append(self.value())
            self.need(end)
            marks = ", ".join(self.names.value(value) for value in values)
            return Condition(f"{left} IN ({marks})", _of_attribute(steps, "IN", *values))
        operator = _COMPARISONS[self.need(*_COMPARISONS)]
        if self.is_path():
            return Condition(f"{left} {operator} {self.expression_path(self.path())}")
        value = self.value()
        text = f"{left} {operator} {self.names.value(value)}"
        return Condition(text, _of_attribute(steps, operator, value))

    # --- paths and values ---

    def is_path(self) -> bool:
        kind, text = self.tokens[self.at]
        return kind == "name" or (kind == "word" and text.upper() not in ("TRUE", "FALSE", "NULL"))

    def path(self) -> tuple[str | int, ...]:
        steps: list[str | int] = [self.identifier()]
        while True:
            if self.take("."):
                steps.append(self.identifier())
            elif self.next_is("[") and self.tokens[self.at + 1][0] == "number":
                self.at += 1
                number = self.tokens[self.at][1]
                self.at += 1
                self.need("]")
                steps.append(int(number) if number.isdigit() and len(number) < 10 else self.fail())
            else:
                return tuple(steps)

    def expression_path(self, steps: tuple[str | int, ...]) -> str:
        parts = [
            f"[{step}]" if isinstance(step, int) else f".{self.names.name(step)}" for step in steps
        ]
        return "".join(parts).removeprefix(".")

    def value(self) -> dict[str, Any]:
        """Go past a constant or a parameter; return it in DynamoDB's JSON."""
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail()
        kind, text = self.tokens[self.at]
        self.at += 1
        value: dict[str, Any] = {}
        if kind == "text":
            value = {"S": text[1:-1].replace("''", "'")}
        elif kind == "number":
            value = {"N": text}
        elif text in ("-", "+") and self.tokens[self.at][0] == "number":
            value = {"N": ("-" if text == "-" else "") + self.tokens[self.at][1]}
            self.at += 1
        elif kind == "word" and text.upper() in ("TRUE", "FALSE", "NULL"):
            value = {"NULL": True} if text.upper() == "NULL" else {"BOOL": text.upper() == "TRUE"}
        elif text == "?":
            if self.used_parameters >= len(self.parameters):
                raise _refuse("Number of parameters in request and statement don't match.")
            value = self.parameters[self.used_parameters]
            self.used_parameters += 1
        elif text == "[":
            value = {"L": self.elements("]")}
        elif text == "<<":
            value = self.set_of(self.elements(">>"))
        elif text == "{":
            value = {"M": self.members()}
        else:
            self.fail()
        self.depth -= 1
        return value

    def elements(self, end: str) -> list[Any]:
        elements: list[Any] = []
        if not self.take(end):
            elements.append(self.value())
            while self.take(","):
                elements.append(self.value())
            self.need(end)
        return elements

    def set_of(self, elements: list[Any]) -> dict[str, Any]:
        kinds = {kind for element in elements for kind in element}
        if len(kinds) != 1 or not kinds <= {*_SET_TYPES}:
            self.fail()
        (kind,) = kinds
        return {_SET_TYPES[kind]: [element[kind] for element in elements]}

    def members(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self.take("}"):
            if members:
                self.need(",")
            kind, text = self.tokens[self.at]
            name = (
                self.value()["S"] if kind == "text" else self.identifier() if text else self.fail()
            )
            self.need(":")
            members[name] = self.value()
        return members


def _of_attribute(
    steps: tuple[str | int, ...], operator: str, *values: Any
) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return ((str(steps[0]), operator, values),) if len(steps) == 1 else ()


def parse(text: str, parameters: list[Any]) -> Statement:
    """Parse a statement. Raises moto's ValidationException."""
    statement = _Parser(text, parameters).parse()
    # Whoever may run a statement was decided by what this reads in it.
    if partiql_target(text) != (statement.verb, statement.table, statement.index):
        raise _refuse(f"{_MALFORMED}Unexpected term")
    return statement


# --- statements as requests ----------------------------------------------------------------------

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
    raise _refuse(f"The table does not have the specified index: {index}")


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
        raise _refuse(_NO_KEY)
    return key, others


def _joined(conditions: list[Condition]) -> str:
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
    condition = _joined(others)
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
            request["FilterExpression"] = _joined(others)
    else:
        if statement.order is not None:
            raise _refuse(
                "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."
            )
        if parts:
            request["FilterExpression"] = _joined(parts)
    if statement.order is not None and statement.order[0] not in keys:
        raise _refuse(
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
    handler.execute_transaction = _execute_transaction


def _call(self: Any, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run an operation of moto's handler with another request."""
    before, self.body = self.body, request
    try:
        result = getattr(self, operation)()
    finally:
        self.body = before
    return json.loads(json.dumps(result.result, default=str)) if result is not None else {}


def _table_of(self: Any, statement: Statement) -> Any:
    return self.dynamodb_backend.get_table(statement.table)


def _run(self: Any, statement: Statement, more: dict[str, Any]) -> dict[str, Any]:
    """Run a statement; return ExecuteStatement's answer. `more`: Limit, NextToken, ConsistentRead."""
    from moto.dynamodb.exceptions import ConditionalCheckFailed, DynamodbException

    table = _table_of(self, statement)
    if statement.verb == "EXISTS":
        raise _refuse("EXISTS can only be used in ExecuteTransaction")
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
        key = json.loads(base64.b64decode(token, validate=True))
    except ValueError:
        key = None
    if not isinstance(key, dict):
        raise _refuse("Given NextToken is invalid")
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
        raise _refuse(f"Member must have length less than or equal to {_MOST_IN_BATCH}")
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
        raise _refuse(
            "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
        ) from error


def _execute_transaction(self: Any) -> Any:
    """ExecuteTransaction: all reads, or all writes and checks; all or none of them happen."""
    from moto.core.responses import ActionResult

    listed = self.body.get("TransactStatements") or []
    if len(listed) > _MOST_IN_TRANSACTION:
        raise _refuse(f"Member must have length less than or equal to {_MOST_IN_TRANSACTION}")
    statements = [parse(one["Statement"], one.get("Parameters") or []) for one in listed]
    reads = [statement.verb == "SELECT" for statement in statements]
    if any(reads) and not all(reads):
        raise _refuse("Transactions cannot have both reads and writes")
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
            condition = _joined(others) or f"attribute_exists({statement.names.name(keys[0])})"
            check = {"TableName": statement.table, "Key": key, "ConditionExpression": condition}
            actions.append({"ConditionCheck": {**check, **statement.names.used(condition)}})
        else:
            kind, request = _write_of(statement, table)
            actions.append({kind: request})
    _call(self, "transact_write_items", {"TransactItems": actions})
    return ActionResult({"Responses": [{} for _ in statements]})
