"""Parses DynamoDB's PartiQL into the expressions of DynamoDB's other requests.

moto's parser reads `a=1` and `f(a, 'b')` not at all, and ignores `IN`, `OR`, `ORDER BY` and most else without a word.

Documented: docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.html. Observed by others on AWS: the
sentences that a public suite of tests for DynamoDB's emulators has; others are assumed. Bounded: a statement has at
most 8,192 characters and 100 levels.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.permissions.requests.others import partiql_target

_MOST_CHARACTERS = 8192
_DEEPEST = 100
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


def refuse(message: str) -> Exception:
    """Return a ValidationException."""
    from moto.dynamodb.exceptions import MockValidationException

    return MockValidationException(message)


class _Parser:
    def __init__(self, text: str, parameters: list[Any]) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise refuse(f"{_MALFORMED}Statement is longer than {_MOST_CHARACTERS} characters")
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
                raise refuse(f"{_MALFORMED}Unexpected term")
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
        raise refuse(f"{_MALFORMED}Unexpected term")

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
            raise refuse(f"{_MALFORMED}Expected data manipulation")
        statement = {
            "SELECT": self.select, "INSERT": self.insert, "UPDATE": self.change, "DELETE": self.delete,
            "EXISTS": self.exists,
        }[verb]()  # fmt: skip
        if self.tokens[self.at][0] != "end":
            self.fail()
        if self.used_parameters != len(self.parameters):
            raise refuse("Number of parameters in request and statement don't match.")
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
                    raise refuse(f"{_MALFORMED}{function.lower()} changes the attribute itself")
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
            raise refuse(
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
            raise refuse(
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
                raise refuse("Number of parameters in request and statement don't match.")
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
        raise refuse(f"{_MALFORMED}Unexpected term")
    return statement
