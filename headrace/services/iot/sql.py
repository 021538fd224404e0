"""Evaluates the SQL of IoT's rules: whether a rule selects a message, and the resulting message.

A part of https://docs.aws.amazon.com/iot/latest/developerguide/iot-sql-reference.html: SELECT of `*`, attributes,
literals and a few functions, FROM a topic filter, WHERE with comparisons, arithmetic, AND, OR, NOT. Anything else
raises IotSqlError, which names it. A statement's length bounds its steps; a `Budget` bounds the texts that it makes.
"""

from __future__ import annotations

import functools
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from headrace.core.evaluation import Budget, TooMuch, check_json_size, text_size

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|'(?P<text>(?:[^']|'')*)'|\"(?P<quoted>[^\"]*)\""
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign><>|!=|<=|>=|[-+*/%(),.=<>\[\]]))"
)
_WORDS = ("SELECT", "FROM", "WHERE", "AS", "AND", "OR", "NOT", "VALUE")
# Documented: the maximum length of a rule's query.
MOST_CHARACTERS = 65_536
# Assumed: AWS's bound on nesting is not public.
MOST_LEVELS = 50
# Eight times what a message may have (documented: 128 KB).
MOST_RESULT_CHARACTERS = 1024 * 1024
_LONGEST_INTEGER = 2**63
_UNDEFINED: Any = object()


class IotSqlError(ValueError):
    """A statement, or a part of one, that is not supported."""


class StatementTooLarge(IotSqlError):
    """A statement that is too long or nests too deeply."""


def _quick() -> Budget:
    return Budget("iot", may_wait=False)


@dataclass(frozen=True, slots=True)
class Message:
    """A published message: its payload as JSON, or as bytes when it is not JSON.

    `budget` is what the evaluation of one statement or template may still use. `client_id` and `principal` (the id of
    a certificate) are the publisher's; AWS says N/A of one over HTTPS.
    """

    topic: str
    payload: Any
    now_ms: int
    client_id: str = "N/A"
    principal: str = "N/A"
    budget: Budget = field(default_factory=_quick, compare=False)


_Expression = Callable[[Message], Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """A rule's statement; `parse` creates it."""

    topic_filter: str
    items: tuple[tuple[str, _Expression | None], ...]
    where: _Expression | None

    def result(self, message: Message, *, is_direct: bool = False) -> Any:
        """Return the resulting message; None when the rule does not select it. Raises IotSqlError.

        `is_direct`: the message was sent to the rule itself, whose FROM does not count then.
        """
        if not is_direct and not filter_matches(self.topic_filter, message.topic):
            return None
        try:
            outcome: Any = self._build(replace(message, budget=_quick()))
            if not isinstance(outcome, bytes):
                check_json_size(outcome, MOST_RESULT_CHARACTERS)
        except TooMuch as error:
            raise IotSqlError(f"the statement asks for too much: {error}") from error
        return cast("Any", outcome)

    def _build(self, message: Message) -> Any:
        if self.where is not None and self.where(message) is not True:
            return None
        if len(self.items) == 1 and self.items[0][1] is None:
            return message.payload
        document: dict[str, Any] = {}
        for name, expression in self.items:
            if expression is None:
                payload: Any = message.payload
                if not isinstance(payload, dict):
                    raise IotSqlError("`*` beside other attributes needs a JSON object")
                document.update(cast("dict[str, Any]", payload))
                continue
            value = expression(message)
            if value is not _UNDEFINED:
                document[name] = value
        return document


@functools.lru_cache(maxsize=128)
def parse(statement: str) -> Statement:
    """Return a statement. Raises IotSqlError."""
    return _Parser(statement).statement()


def refusal_of(statement: str) -> str:
    """Return why no rule may have a statement; an empty text for others, even if they cannot run here."""
    try:
        parse(statement)
    except StatementTooLarge as error:
        return f"{error}".capitalize()
    except IotSqlError:
        return ""
    return ""


def fill_template(template: str, message: Message) -> str:
    """Return a text with each `${...}` replaced. Raises IotSqlError."""
    message = replace(message, budget=_quick())
    parts, at = list[str](), 0
    try:
        while (start := template.find("${", at)) >= 0:
            end = template.find("}", start)
            if end < 0:
                break
            value = _Parser(template[start + 2 : end]).whole_expression()(message)
            check_json_size(value, MOST_RESULT_CHARACTERS)
            shown = "" if value is _UNDEFINED else value
            parts += [template[at:start], shown if isinstance(shown, str) else json.dumps(shown)]
            message.budget.make(text_size(parts[-1]))
            at = end + 1
    except TooMuch as error:
        raise IotSqlError(f"the template asks for too much: {error}") from error
    return "".join([*parts, template[at:]])


def filter_matches(topic_filter: str, topic: str) -> bool:
    """Whether an MQTT topic filter, with `+` for a level and `#` for the rest, matches a topic."""
    levels_of_filter, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and levels_of_filter[0] in ("+", "#"):
        return False  # MQTT 3.1.1, 4.7.2
    for at, level in enumerate(levels_of_filter):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels_of_filter) == len(levels)


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise StatementTooLarge("the statement is too long")
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise IotSqlError(f"headrace's IoT SQL does not know {text[at : at + 20]!r}")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
            at = match.end()
        self._at = 0
        self._depth = 0

    def statement(self) -> Statement:
        self._take("SELECT")
        items = [self._item()]
        while self._has(","):
            items.append(self._item())
        self._take("FROM")
        kind, topic_filter = self._next()
        if kind not in ("text", "quoted"):
            raise IotSqlError("FROM takes a topic filter in quotes")
        where = self._either() if self._has("WHERE") else None
        self._end()
        return Statement(topic_filter, tuple(items), where)

    def whole_expression(self) -> _Expression:
        condition = self._either()
        self._end()
        return condition

    # --- tokens -----------------------------------------------------------------------------------

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise IotSqlError("the statement ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _has(self, word: str) -> bool:
        kind, value = self._peek()
        if kind in ("name", "sign") and value.upper() == word:
            self._at += 1
            return True
        return False

    def _take(self, word: str) -> None:
        if not self._has(word):
            raise IotSqlError(f"{word} is missing before {self._peek()[1] or 'the end'}")

    def _end(self) -> None:
        if self._peek()[0]:
            raise IotSqlError(f"headrace's IoT SQL does not know what {self._peek()[1]!r} is for")

    # --- expressions ------------------------------------------------------------------------------

    def _item(self) -> tuple[str, _Expression | None]:
        if self._has("*"):
            return "*", None
        start = self._at
        expression = self._either()
        if self._has("AS"):
            return self._next()[1], expression
        kind, value = self._tokens[self._at - 1]
        if kind not in ("name", "quoted") or self._tokens[start][0] not in ("name", "quoted"):
            raise IotSqlError("an expression without AS has no name")
        return value, expression

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MOST_LEVELS:
            raise StatementTooLarge(f"the expression nests more than {MOST_LEVELS} levels deep")

    def _either(self) -> _Expression:
        self._deeper()
        parts = [self._both()]
        while self._has("OR"):
            parts.append(self._both())
        self._depth -= 1
        if len(parts) == 1:
            return parts[0]
        # A flat list: thousands of ORs would be as many calls in each other.
        return lambda message: any(part(message) is True for part in parts)

    def _both(self) -> _Expression:
        parts = [self._not()]
        while self._has("AND"):
            parts.append(self._not())
        return (
            parts[0]
            if len(parts) == 1
            else lambda message: all(part(message) is True for part in parts)
        )

    def _not(self) -> _Expression:
        if self._has("NOT"):
            self._deeper()
            inner = self._not()
            self._depth -= 1
            return lambda message: inner(message) is False
        return self._parse_comparison()

    def _parse_comparison(self) -> _Expression:
        left = self._sum()
        kind, sign = self._peek()
        compare = _COMPARISONS.get(sign) if kind == "sign" else None
        if compare is None:
            return left
        self._at += 1
        return _join(left, self._sum(), compare)

    def _sum(self) -> _Expression:
        return self._row(self._product, ("+", "-"))

    def _product(self) -> _Expression:
        return self._row(self._value, ("*", "/", "%"))

    def _row(self, part: Callable[[], _Expression], signs: tuple[str, ...]) -> _Expression:
        first = part()
        rest: list[tuple[Callable[[Any, Any], Any], _Expression]] = []
        while self._peek()[0] == "sign" and self._peek()[1] in signs:
            _, sign = self._next()
            rest.append((_NUMBERS[sign], part()))
        return first if not rest else lambda message: _compute_row(message, first, rest)

    def _value(self) -> _Expression:
        kind, value = self._next()
        if kind == "number":
            return _constant(float(value) if "." in value else int(value))
        if kind == "text":
            return _constant(value.replace("''", "'"))
        if (kind, value) == ("sign", "-"):
            self._deeper()
            inner = self._value()
            self._depth -= 1
            return _join(_constant(0), inner, _NUMBERS["-"])
        if (kind, value) == ("sign", "("):
            inner = self._either()
            self._take(")")
            return inner
        if kind == "quoted":
            return self._path(value)
        if kind == "name" and value.upper() not in _WORDS:
            if value.lower() in ("true", "false", "null"):
                return _constant({"true": True, "false": False, "null": None}[value.lower()])
            return self._call(value) if self._has("(") else self._path(value)
        raise IotSqlError(f"headrace's IoT SQL does not know what {value!r} is for")

    def _path(self, first: str) -> _Expression:
        path: list[str | int] = [first]
        while self._peek() in (("sign", "."), ("sign", "[")):
            _, sign = self._next()
            kind, value = self._next()
            path.append(int(value) if sign == "[" and kind == "number" else value)
            if sign == "[":
                self._take("]")
        return lambda message: _at(message.payload, path)

    def _call(self, name: str) -> _Expression:
        arguments: list[_Expression] = []
        if not self._has(")"):
            arguments.append(self._either())
            while self._has(","):
                arguments.append(self._either())
            self._take(")")
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            raise IotSqlError(f"headrace's IoT SQL has no function {name}")
        return lambda message: function(message, [argument(message) for argument in arguments])


def _constant(value: Any) -> _Expression:
    return lambda _: value


def _join(left: _Expression, right: _Expression, act: Callable[[Any, Any], Any]) -> _Expression:
    return lambda message: act(left(message), right(message))


def _compute_row(
    message: Message,
    first: _Expression,
    rest: list[tuple[Callable[[Any, Any], Any], _Expression]],
) -> Any:
    outcome: Any = first(message)
    for act, part in rest:
        outcome = act(outcome, part(message))
        if isinstance(outcome, str):
            message.budget.make(text_size(outcome))
        elif isinstance(outcome, list):
            message.budget.make(64 * len(cast("list[Any]", outcome)))
    return cast("Any", outcome)


def _at(value: Any, path: list[str | int]) -> Any:
    for key in path:
        if isinstance(value, Mapping) and key in value:
            value = cast("Mapping[Any, Any]", value)[key]
        elif isinstance(value, list) and isinstance(key, int) and key < len(cast("Any", value)):
            value = cast("list[Any]", value)[key]
        else:
            return _UNDEFINED
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _build_comparison(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        are_numbers = _is_number(left) and _is_number(right)
        if are_numbers or (isinstance(left, str) and isinstance(right, str)):
            return holds(left, right)
        return _UNDEFINED

    return compare


def _build_computation(act: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        try:
            outcome = act(left, right)
            if isinstance(outcome, int) and abs(outcome) > _LONGEST_INTEGER:
                outcome = float(outcome)  # a product of long numbers is longer than its statement
        except (TypeError, ZeroDivisionError, OverflowError):
            return _UNDEFINED
        return outcome if not isinstance(outcome, float) or math.isfinite(outcome) else _UNDEFINED

    return compute


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: _UNDEFINED if _UNDEFINED in (a, b) else a == b,
    "<>": lambda a, b: _UNDEFINED if _UNDEFINED in (a, b) else a != b,
    "!=": lambda a, b: _UNDEFINED if _UNDEFINED in (a, b) else a != b,
    "<": _build_comparison(lambda a, b: a < b),
    "<=": _build_comparison(lambda a, b: a <= b),
    ">": _build_comparison(lambda a, b: a > b),
    ">=": _build_comparison(lambda a, b: a >= b),
}
_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": _build_computation(lambda a, b: a + b),
    "-": _build_computation(lambda a, b: a - b),
    "*": _build_computation(lambda a, b: a * b if _is_number(a) and _is_number(b) else _UNDEFINED),
    "/": _build_computation(lambda a, b: a / b),
    "%": _build_computation(lambda a, b: a % b if _is_number(a) else _UNDEFINED),
}


def _topic(message: Message, arguments: list[Any]) -> Any:
    if not arguments:
        return message.topic
    levels, number = message.topic.split("/"), arguments[0]
    is_there = isinstance(number, int) and 1 <= number <= len(levels)
    return levels[number - 1] if is_there else _UNDEFINED


def _of_text(act: Callable[[str], Any]) -> Callable[[Message, list[Any]], Any]:
    return lambda _, given: act(given[0]) if given and isinstance(given[0], str) else _UNDEFINED


def _concat(message: Message, operands: list[Any]) -> str:
    texts = [text for text in operands if isinstance(text, str)]
    message.budget.make(sum(map(text_size, texts)))
    return "".join(texts)


_FUNCTIONS: dict[str, Callable[[Message, list[Any]], Any]] = {
    "topic": _topic,
    "timestamp": lambda message, _: message.now_ms,
    "newuuid": lambda _, __: str(uuid.uuid4()),
    "clientid": lambda message, _: message.client_id,
    "principal": lambda message, _: message.principal,
    "lower": _of_text(str.lower),
    "upper": _of_text(str.upper),
    "length": _of_text(len),
    "concat": _concat,
    "isundefined": lambda _, given: bool(given) and given[0] is _UNDEFINED,
}
