"""Computes expressions without Spark, with the results that Spark has: NULL for what cannot be computed."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import re2

from headrace.sql.expressions import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Interval,
    Item,
    Lambda,
    Literal,
    Map,
    Operation,
    Struct,
    Tick,
)
from headrace.sql.functions import FUNCTIONS, MOST_CHARACTERS, MOST_ITEMS
from headrace.sql.types import SqlType

# A row: its values by relation ('' for a group's keys and aggregates, and for a lambda's parameters) and name.
Row = Mapping[tuple[str, str], Any]
Evaluator = Callable[[Row], Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_BOUNDS = {"INT": 2**31, "BIGINT": 2**63}


class TooLarge(Exception):
    """A value that is larger than a record can be."""


def millis(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def moment(since_1970_ms: int) -> datetime:
    """Return the time of some milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=since_1970_ms)


def evaluator(expression: Expression) -> Evaluator:
    """Return the function that computes `expression` for a row; it raises TooLarge alone."""
    inner = _evaluator(expression)

    def evaluate(row: Row) -> Any:
        try:
            return inner(row)
        except TooLarge:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, re2.error):
            # What a part of it cannot compute is NULL, as in Spark without ANSI mode and in ksqlDB.
            return None

    return evaluate


def _evaluator(expression: Expression) -> Evaluator:
    match expression:
        case Literal(value=value, type=type_):
            constant = Decimal(value) if type_.name == "DECIMAL" else value
            return lambda row: constant
        case Interval(duration_ms=duration_ms):
            interval = timedelta(milliseconds=duration_ms)
            return lambda row: interval
        case Column(name=name, relation=relation):
            key = (relation or "", name)
            return lambda row: row[key]
        case Field(of=of, name=name):
            return _when_there(lambda value: _field(value, name), evaluator(of))
        case Item(of=of, index=index):
            return _when_there(_item, evaluator(of), evaluator(index))
        case Operation():
            return _operation(expression)
        case Call():
            return _call(expression)
        case Cast(of=of, type=type_):
            return _when_there(lambda value: cast(value, type_), evaluator(of))
        case Case():
            return _case(expression)
        case Struct(names=names, values=values):
            parts = [evaluator(value) for value in values]
            return lambda row: {name: part(row) for name, part in zip(names, parts)}
        case Array(values=values):
            parts = [evaluator(value) for value in values]
            return lambda row: [part(row) for part in parts]
        case Map(keys=keys, values=values):
            pairs = [(evaluator(key), evaluator(value)) for key, value in zip(keys, values)]
            return lambda row: {key(row): value(row) for key, value in pairs}
        case Tick(of=of, duration_ms=size):
            return _when_there(lambda value: moment(millis(value) // size * size), evaluator(of))
        case _:
            raise TypeError(expression)


def _when_there(function: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """Return what computes `function` of the parts, and is None if one of them is."""

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if None in values else function(*values)

    return evaluate


def _field(value: Any, name: str) -> Any:
    return value.get(name)


def _item(value: Any, index: Any) -> Any:
    if isinstance(value, dict):
        return value.get(index)
    if index == 0 or abs(index) > len(value):
        return None
    return value[index - 1 if index > 0 else index]


def _call(call: Call) -> Evaluator:
    if call.star:
        return lambda row: 1
    function = FUNCTIONS[call.name]
    parts: list[Evaluator] = []
    for argument in call.arguments:
        parts.append(_lambda(argument) if isinstance(argument, Lambda) else evaluator(argument))

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        if not function.takes_null and None in values:
            return None
        return _bounded(function.python(*values))

    return evaluate


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise TooLarge(f"a text of {len(value):,} characters; a record has at most 10 MiB")
    if isinstance(value, (list, dict)) and len(value) > MOST_ITEMS:
        raise TooLarge(f"a collection of {len(value):,} items; the most are {MOST_ITEMS:,}")
    return value


def _lambda(function: Lambda) -> Evaluator:
    """Return what makes a row's function of a lambda."""
    body = evaluator(function.body)
    keys = [("", name) for name in function.parameters]
    return lambda row: lambda *values: body({**row, **dict(zip(keys, values))})


def _case(case: Case) -> Evaluator:
    branches = [(evaluator(test), evaluator(value)) for test, value in case.branches]
    otherwise = (lambda row: None) if case.otherwise is None else evaluator(case.otherwise)

    def evaluate(row: Row) -> Any:
        for test, value in branches:
            if test(row):
                return value(row)
        return otherwise(row)

    return evaluate


def _operation(operation: Operation) -> Evaluator:
    parts = [evaluator(operand) for operand in operation.operands]
    match operation.operator:
        case "AND":
            return lambda row: _all_of(part(row) for part in parts)
        case "OR":
            return lambda row: _negate(_all_of(_negate(part(row)) for part in parts))
        case "NOT":
            return lambda row: _negate(parts[0](row))
        case "IS NULL":
            return lambda row: parts[0](row) is None
        case "IS DISTINCT FROM":
            return lambda row: _distinct(parts[0](row), parts[1](row))
        case "IN":
            return lambda row: _is_in(*[part(row) for part in parts])
        case "LIKE":
            return _when_there(_like, *parts)
        case operator if len(parts) == 1:
            return _when_there(lambda value: -value, *parts)
        case operator:
            return _when_there(_BINARY[operator], *parts)


def _all_of(values: Any) -> bool | None:
    result: bool | None = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def _negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def _distinct(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is not right
    return not _equal(left, right)


def _is_in(value: Any, *others: Any) -> bool | None:
    if value is None:
        return None
    if any(other is not None and _equal(value, other) for other in others):
        return True
    return None if None in others else False


def _pair(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two values as ones that can be compared: a text with a time is a time, milliseconds with a time too."""
    if isinstance(left, datetime) and not isinstance(right, datetime):
        return left, _as_time(right)
    if isinstance(right, datetime) and not isinstance(left, datetime):
        return _as_time(left), right
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left), right
    if isinstance(left, float) and isinstance(right, Decimal):
        return left, float(right)
    return left, right


def _as_time(value: Any) -> datetime:
    return (
        moment(value) if isinstance(value, int) else datetime.fromisoformat(value).astimezone(UTC)
    )


def _equal(left: Any, right: Any) -> bool:
    left, right = _pair(left, right)
    # Spark's NaN equals itself, and is above every other number.
    return left == right or (_is_nan(left) and _is_nan(right))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _less(left: Any, right: Any) -> bool:
    left, right = _pair(left, right)
    if _is_nan(left) or _is_nan(right):
        return not _is_nan(left)
    return left < right


def _quotient(left: Any, right: Any) -> Any:
    return None if right == 0 else left / right


def _whole_quotient(left: int, right: int) -> int | None:
    """Return a quotient rounded towards zero, as in Java."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    return (
        math.fmod(left, right)
        if isinstance(left, float) or isinstance(right, float)
        else left - right * int(left / right)
    )


def _mixed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: (
        function(*_pair(left, right)) if not isinstance(right, timedelta) else function(left, right)
    )


_BINARY: dict[str, Callable[..., Any]] = {
    "=": _equal,
    "<>": lambda left, right: not _equal(left, right),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: not _less(right, left),
    ">=": lambda left, right: not _less(left, right),
    "BETWEEN": lambda value, low, high: not _less(value, low) and not _less(high, value),
    "+": _mixed(lambda left, right: left + right),
    "-": _mixed(lambda left, right: left - right),
    "*": lambda left, right: left * right,
    "/": _mixed(_quotient),
    "DIV": _whole_quotient,
    "%": _mixed(_remainder),
    "||": lambda left, right: _bounded(text(left) + text(right)),
}


def _like(value: str, pattern: str, escape: str = "\\") -> bool:
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re2.escape(next(characters)))
        else:
            parts.append({"%": "(?s:.*)", "_": "(?s:.)"}.get(character) or re2.escape(character))
    return re2.fullmatch("".join(parts), value) is not None


def text(value: Any) -> str:
    """Return a value as text, as Spark's cast writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, datetime):
        written = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        return written + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _double_text(value: float) -> str:
    """Return a DOUBLE as Java writes it: 1.0E10, not 1e+10."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def cast(value: Any, type_: SqlType) -> Any:
    """Return a value as another type; None if it is none of that type's. Raises ValueError for some of them."""
    match type_.name:
        case "STRING":
            return text(value)
        case "BOOLEAN":
            return _boolean(value)
        case "INT" | "BIGINT":
            return _whole(value, _BOUNDS[type_.name])
        case "DOUBLE":
            return float(value.strip()) if isinstance(value, str) else float(value)
        case "DECIMAL":
            return decimal(value, type_)
        case "TIMESTAMP":
            return value if isinstance(value, datetime) else _read_time(value)
        case "DATE":
            return (
                value.date()
                if isinstance(value, datetime)
                else date.fromisoformat(value.strip()[:10])
            )
        case "BYTES":
            return value if isinstance(value, bytes) else value.encode()
        case "ARRAY":
            return [None if item is None else cast(item, type_.of[0]) for item in value]
        case "MAP":
            return {
                cast(k, type_.of[0]): None if v is None else cast(v, type_.of[1])
                for k, v in value.items()
            }
        case "STRUCT":
            parts = zip(type_.fields, type_.of)
            return {
                name: None if value.get(name) is None else cast(value[name], of)
                for name, of in parts
            }
        case _:
            return value


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(value)


def _whole(value: Any, bound: int) -> int | None:
    if isinstance(value, str):
        number: Any = Decimal(value.strip())
    elif isinstance(value, datetime):
        number = millis(value) // 1000
    else:
        number = value
    whole = int(number)
    return whole if -bound <= whole < bound else None


def decimal(value: Any, type_: SqlType) -> Decimal | None:
    """Return a number as a DECIMAL of that many digits; None if it has more."""
    precision, scale = type_.digits
    try:
        number = Decimal(str(value).strip()).quantize(
            Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP"
        )
    except InvalidOperation:
        return None
    return number if len(number.as_tuple().digits) <= precision else None


def _read_time(value: Any) -> datetime:
    if isinstance(value, (int, float)):
        return EPOCH + timedelta(seconds=value)
    parsed = datetime.fromisoformat(value.strip())
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def shown(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return (
            int(value)
            if value == value.to_integral_value() and value.as_tuple().exponent == 0
            else float(value)
        )
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return _double_text(value)
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {text(key): shown(item) for key, item in value.items()}
    return value
