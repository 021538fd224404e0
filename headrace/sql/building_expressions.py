"""Builds expressions from what the grammar finds, innermost first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lark import Token
from lark.tree import Meta

from headrace.sql.analytics_forms import ceil, overlay, tick_of_difference, trim, typed_constant
from headrace.sql.cursors import select_of_cursor
from headrace.sql.log_parsing import LOG_FUNCTIONS, parse_log
from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Frame,
    Interval,
    Item,
    Lambda,
    Literal,
    Map,
    Operation,
    Over,
    RelationName,
    Select,
    Struct,
    Tick,
)
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    SCALAR_NAMES,
    STRING,
    Location,
    SqlError,
    SqlType,
    array_of,
    map_of,
    near,
    scalar,
)

MOST_TYPE_LEVELS = 20
# A window of rows is kept between micro-batches.
MOST_ROWS = 100_000
LONGEST_MS = 36_500 * 86_400_000
_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_LARGEST_INT, _LARGEST_BIGINT = 2**31 - 1, 2**63 - 1


def locate(meta: Meta) -> Location:
    """Return where a rule's text begins."""
    return Location() if meta.empty else Location(meta.line, meta.column)


class Name(str):
    """A name with its location."""

    location: Location


def unquote(text: str) -> str:
    """Return a quoted name or text without its quotes."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def number(text: str, what: str, location: Location, most: int) -> int:
    """Return a whole number; Python itself refuses thousands of digits."""
    if len(text) > 18 or int(text) > most:
        raise SqlError(f"{what} is at most {most}", location)
    return int(text)


def unit_ms(unit: str, location: Location) -> int:
    """Return a unit of time in milliseconds; raises SqlError for a word that is none."""
    name = unit.upper().removesuffix("S")
    if name not in _UNITS_MS:
        raise SqlError(
            f"{str(unit)!r} is no unit of time; there are MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS, WEEKS",
            location,
        )
    return _UNITS_MS[name]


def tokens(*values: Any) -> str:
    """Return words in upper case, with a blank between."""
    return " ".join(str(value).upper() for value in values if value is not None)


class ExpressionBuilder:
    """One method for each rule of an expression or a type: it takes the rule's location and its parts' values.

    `types` are those that CREATE TYPE has made, by lower-case name.
    """

    def __init__(self, types: dict[str, SqlType]) -> None:
        self.types = types

    # Types.

    def build_scalar_type(self, meta: Meta, name: Token, *digits: Token | None) -> SqlType:
        numbers = tuple(number(n, "a type's number", locate(meta), 10_000_000) for n in digits if n)
        type_ = scalar(name, numbers) or self.types.get(name.lower())
        if type_ is None:
            names = sorted({*self.types, *(one.lower() for one in SCALAR_NAMES)})
            raise SqlError(f"no type {name}{near(name, names)}", locate(meta))
        if type_.name == "DECIMAL" and (type_.digits[0] > 38 or type_.digits[-1] > type_.digits[0]):
            raise SqlError("a DECIMAL has at most 38 digits", locate(meta))
        return (
            SqlType("DECIMAL", digits=(*type_.digits, 0)[:2]) if type_.name == "DECIMAL" else type_
        )

    def build_double_type(self, _meta: Meta) -> SqlType:
        return DOUBLE

    def build_array_type(self, meta: Meta, element: SqlType) -> SqlType:
        return self._check_depth(array_of(element), locate(meta))

    def build_map_type(self, meta: Meta, key: SqlType, value: SqlType) -> SqlType:
        return self._check_depth(map_of(key, value), locate(meta))

    def build_struct_type(self, meta: Meta, *fields: tuple[str, SqlType] | None) -> SqlType:
        pairs = [pair for pair in fields if pair is not None]
        names, types = tuple(name for name, _ in pairs), tuple(type_ for _, type_ in pairs)
        return self._check_depth(SqlType("STRUCT", types, names), locate(meta))

    def build_struct_field(self, _meta: Meta, name: Name, type_: SqlType) -> tuple[str, SqlType]:
        return name, type_

    def _check_depth(self, type_: SqlType, location: Location) -> SqlType:
        levels, current = 0, [type_]
        while current:
            levels, current = levels + 1, [part for one in current for part in one.of]
        if levels > MOST_TYPE_LEVELS:
            raise SqlError(f"a type has at most {MOST_TYPE_LEVELS} levels", location)
        return type_

    # Expressions.

    def build_disjunction(self, meta: Meta, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Operation("OR", parts, location=locate(meta))

    def build_conjunction(self, meta: Meta, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Operation("AND", parts, location=locate(meta))

    def build_negated(self, meta: Meta, part: Expression) -> Expression:
        return Operation("NOT", (part,), location=locate(meta))

    def build_compared(
        self, meta: Meta, left: Expression, operator: str, right: Expression
    ) -> Expression:
        return Operation(operator, (left, right), location=locate(meta))

    def build_comparison_operator(self, _meta: Meta, token: Token) -> str:
        return "<>" if token == "!=" else str(token)

    def build_sum_operator(self, _meta: Meta, token: Token) -> str:
        return str(token)

    build_product_operator = build_sum_operator

    def build_chained(self, meta: Meta, first: Expression, *rest: Any) -> Expression:
        result = first
        for operator, operand in zip(rest[::2], rest[1::2], strict=False):
            result = Operation(operator, (result, operand), location=locate(meta))
        return result

    def build_negative(self, meta: Meta, part: Expression) -> Expression:
        if isinstance(part, Literal) and part.type.is_number:
            value = f"-{part.value}" if part.type.name == "DECIMAL" else -part.value
            return Literal(value, part.type, location=locate(meta))
        return Operation("-", (part,), location=locate(meta))

    def _perhaps_not(self, meta: Meta, word: Token | None, operation: Operation) -> Expression:
        return operation if word is None else Operation("NOT", (operation,), location=locate(meta))

    def build_is_null(self, meta: Meta, part: Expression, word: Token | None) -> Expression:
        return self._perhaps_not(meta, word, Operation("IS NULL", (part,), location=locate(meta)))

    def build_is_distinct(
        self, meta: Meta, left: Expression, word: Token | None, right: Expression
    ) -> Expression:
        operation = Operation("IS DISTINCT FROM", (left, right), location=locate(meta))
        return self._perhaps_not(meta, word, operation)

    def build_like(
        self,
        meta: Meta,
        part: Expression,
        word: Token | None,
        pattern: Expression,
        escape: Token | None,
    ) -> Expression:
        character = (
            () if escape is None else (Literal(unquote(escape), STRING, location=locate(meta)),)
        )
        operation = Operation("LIKE", (part, pattern, *character), location=locate(meta))
        return self._perhaps_not(meta, word, operation)

    def build_similar(
        self, meta: Meta, part: Expression, word: Token | None, token: Token
    ) -> Expression:
        pattern = unquote(token)
        if set(pattern) & set("|*+?{}()[]"):
            raise SqlError(
                "SIMILAR TO takes % and _ here; REGEXP_EXTRACT('..', text) IS NOT NULL takes an expression",
                locate(meta),
            )
        literal = Literal(pattern, STRING, location=locate(meta))
        return self._perhaps_not(
            meta, word, Operation("LIKE", (part, literal), location=locate(meta))
        )

    def build_between(
        self, meta: Meta, part: Expression, word: Token | None, low: Expression, high: Expression
    ) -> Expression:
        operation = Operation("BETWEEN", (part, low, high), location=locate(meta))
        return self._perhaps_not(meta, word, operation)

    def build_in_list(
        self, meta: Meta, part: Expression, word: Token | None, *values: Expression
    ) -> Expression:
        return self._perhaps_not(
            meta, word, Operation("IN", (part, *values), location=locate(meta))
        )

    def build_column(self, meta: Meta, name: Name) -> Expression:
        return Column(name, location=locate(meta))

    def build_qualified_column(self, meta: Meta, relation: Name, name: Name) -> Expression:
        return Column(name, relation, location=locate(meta))

    def build_qualified_field(
        self, meta: Meta, relation: Name, column: Name, name: Name
    ) -> Expression:
        return Field(
            self.build_qualified_column(meta, relation, column), name, location=locate(meta)
        )

    def build_struct_field_of(self, meta: Meta, of: Expression, name: Name) -> Expression:
        return Field(of, name, location=locate(meta))

    def build_item(self, meta: Meta, of: Expression, index: Expression) -> Expression:
        return Item(of, index, location=locate(meta))

    def build_interval(self, meta: Meta, count: Token, unit: Token) -> Expression:
        text = unquote(count).strip()
        if not text.isascii() or not text.isdigit():
            raise SqlError(
                f"INTERVAL {count} {unit}: the number is whole, such as '5'", locate(meta)
            )
        count_ms = number(text, "an INTERVAL", locate(meta), LONGEST_MS)
        return Interval(count_ms * unit_ms(unit, locate(meta)), location=locate(meta))

    def build_cast(self, meta: Meta, of: Expression, type_: SqlType) -> Expression:
        return Cast(of, type_, location=locate(meta))

    def build_case(self, meta: Meta, subject: Expression | None, *rest: Any) -> Expression:
        *branches, otherwise = rest
        if subject is not None:
            branches = [
                (Operation("=", (subject, condition), location=condition.location), value)
                for condition, value in branches
            ]
        return Case(tuple(branches), otherwise, location=locate(meta))

    def build_when(
        self, _meta: Meta, condition: Expression, value: Expression
    ) -> tuple[Expression, Expression]:
        return condition, value

    def build_struct(self, meta: Meta, *pairs: tuple[str, Expression]) -> Expression:
        names, values = tuple(n for n, _ in pairs), tuple(v for _, v in pairs)
        return Struct(names, values, location=locate(meta))

    def build_named_value(
        self, _meta: Meta, name: Name, value: Expression
    ) -> tuple[str, Expression]:
        return name, value

    def build_array(self, meta: Meta, *values: Expression | None) -> Expression:
        return Array(tuple(value for value in values if value is not None), location=locate(meta))

    def build_map(self, meta: Meta, *pairs: tuple[Expression, Expression] | None) -> Expression:
        present = [pair for pair in pairs if pair is not None]
        return Map(
            tuple(k for k, _ in present), tuple(v for _, v in present), location=locate(meta)
        )

    def build_map_entry(
        self, _meta: Meta, key: Expression, value: Expression
    ) -> tuple[Expression, Expression]:
        return key, value

    def build_floor(self, meta: Meta, of: Expression, unit: Token | None) -> Expression:
        if unit is None:
            return Call("FLOOR", (of,), location=locate(meta))
        return Tick(of, unit_ms(unit, locate(meta)), location=locate(meta))

    def build_floor_of_difference(
        self, meta: Meta, difference: Expression, unit: Name, count: Token, to: Token
    ) -> Expression:
        location = locate(meta)
        duration_ms = unit_ms(unit, location) * number(count, "a number", location, MOST_ROWS)
        return tick_of_difference(difference, duration_ms, unit.upper() == to.upper(), location)

    def build_ceil(self, meta: Meta, name: Name, of: Expression, unit: Token) -> Expression:
        if name.upper() not in ("CEIL", "CEILING"):
            raise SqlError(f"{name} takes its arguments with commas", locate(meta))
        return ceil(of, unit_ms(unit, locate(meta)), locate(meta))

    def build_typed_literal(self, meta: Meta, name: Name, text: Token) -> Expression:
        location = locate(meta)
        return typed_constant(
            name.upper(), unquote(text), replace(location, column=location.column + len(name) + 1)
        )

    def build_position(self, meta: Meta, name: Name, part: Expression, of: Name) -> Expression:
        if name.upper() != "POSITION":
            raise SqlError(f"{name} takes its arguments with commas", locate(meta))
        return Call("INSTR", (Column(of, location=of.location), part), location=locate(meta))

    def build_overlay(
        self, meta: Meta, name: Name, of: Expression, new: Expression, *bounds: Expression | None
    ) -> Expression:
        start, length = bounds
        if name.upper() != "OVERLAY" or start is None:
            raise SqlError(f"{name} takes its arguments with commas", locate(meta))
        return overlay(of, new, start, length, locate(meta))

    def build_step(self, meta: Meta, of: Expression, interval: Interval) -> Expression:
        if not interval.duration_ms:
            raise SqlError("STEP's interval is longer than 0", interval.location)
        return Tick(of, interval.duration_ms, location=locate(meta))

    def build_call(self, meta: Meta, name: Name, *arguments: Expression) -> Expression:
        numbers = [one.value for one in arguments[3:] if isinstance(one, Literal)]
        if name.upper() == "REGEX_REPLACE" and numbers == [1, 0]:
            # From the first character on, every match.
            return Call("REGEXP_REPLACE", arguments[:3], location=locate(meta))
        if name.upper() in LOG_FUNCTIONS:
            return parse_log(name.upper(), arguments, locate(meta))
        if name.upper() in ("WINDOWSTART", "WINDOWEND", "CURRENT_ROW_TIMESTAMP") and not arguments:
            # The old KSQL's functions, as the two that follow; Kinesis Analytics' goes without parentheses too.
            return Column(name.upper(), location=locate(meta))
        if name.upper() == "AS_LIST":
            return Array(arguments, location=locate(meta))
        if name.upper() == "FETCH_FIELD_FROM_STRUCT" and len(arguments) == 2:
            of, field = arguments
            if not isinstance(field, Literal) or not isinstance(field.value, str):
                raise SqlError("a field's name is a text, not a column", field.location)
            return Field(of, field.value, location=locate(meta))
        return Call(name.upper(), arguments, location=locate(meta))

    def build_table_of_cursor(
        self, meta: Meta, name: Name, select: Select, *rest: Any
    ) -> tuple[Select, RelationName]:
        *arguments, alias = rest
        inner = select_of_cursor(name.upper(), select, arguments, name.location)
        return inner, RelationName("", alias or "", locate(meta))

    def build_substring_from(
        self, meta: Meta, name: Name, of: Expression, *bounds: Expression | None
    ) -> Expression:
        if name.upper() == "EXTRACT" and bounds[1:] == (None,):
            assert bounds[0] is not None
            return Call("EXTRACT", (of, bounds[0]), location=locate(meta))
        if name.upper() == "TRIM" and bounds[1:] == (None,):
            assert bounds[0] is not None
            return trim(of, bounds[0], locate(meta))
        if name.upper() != "SUBSTRING":
            raise SqlError(f"{name} takes its arguments with commas", locate(meta))
        arguments = (of, *(bound for bound in bounds if bound is not None))
        return Call("SUBSTRING", arguments, location=locate(meta))

    def build_call_star(self, meta: Meta, name: Name) -> Expression:
        return Call(name.upper(), (), star=True, location=locate(meta))

    def build_call_distinct(
        self, meta: Meta, name: Name, _word: Token, argument: Expression
    ) -> Expression:
        return Call(name.upper(), (argument,), distinct=True, location=locate(meta))

    # Sliding windows.

    def build_range_preceding(self, _meta: Meta, interval: Interval) -> Frame:
        return Frame(range_ms=interval.duration_ms)

    def build_rows_preceding(self, meta: Meta, count: Token) -> Frame:
        return Frame(rows=number(count, "ROWS", locate(meta), MOST_ROWS))

    def build_frame(
        self,
        _meta: Meta,
        partition: tuple[Expression, ...] | None,
        order: Expression | None,
        frame: Frame,
    ) -> Frame:
        if order is not None and not (
            isinstance(order, Column) and order.name.upper() == "ROWTIME"
        ):
            raise SqlError("a window's rows are in the order of ROWTIME", order.location)
        return replace(frame, partition=partition or ())

    def build_over(self, _meta: Meta, frame: Frame | Name) -> Frame:
        return frame if isinstance(frame, Frame) else Frame(name=frame)

    def build_over_call(self, meta: Meta, call: Call, frame: Frame) -> Expression:
        return Over(call, frame, location=locate(meta))

    def build_lambda_function(self, meta: Meta, *parts: Any) -> Expression:
        *names, body = parts
        return Lambda(tuple(str(name) for name in names), body, location=locate(meta))

    def build_lambda_in_parentheses(
        self, meta: Meta, parameter: Expression, body: Expression
    ) -> Expression:
        if not isinstance(parameter, Column) or parameter.relation is not None:
            raise SqlError("a lambda function's parameter is a name", parameter.location)
        return Lambda((str(parameter.name),), body, location=locate(meta))

    # Constants and names.

    def build_string(self, meta: Meta, token: Token) -> Expression:
        return Literal(unquote(token), STRING, location=locate(meta))

    def build_integer(self, meta: Meta, token: Token) -> Expression:
        digits = token.lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > _LARGEST_BIGINT:
            raise SqlError(
                f"a whole number is at most {_LARGEST_BIGINT}; with a point it is a DECIMAL",
                locate(meta),
            )
        number = int(digits)
        return Literal(number, INT if number <= _LARGEST_INT else BIGINT, location=locate(meta))

    def build_decimal(self, meta: Meta, token: Token) -> Expression:
        whole, _, fraction = token.partition(".")
        if len(whole) + len(fraction) > 38:
            raise SqlError("a number has at most 38 digits", locate(meta))
        digits = (max(len(whole) + len(fraction), 1), len(fraction))
        return Literal(str(token), SqlType("DECIMAL", digits=digits), location=locate(meta))

    def build_double(self, meta: Meta, token: Token) -> Expression:
        number = float(token)
        if math.isinf(number):
            raise SqlError(f"{token[:40]} is larger than a DOUBLE", locate(meta))
        return Literal(number, DOUBLE, location=locate(meta))

    def build_true(self, meta: Meta) -> Expression:
        return Literal(True, BOOLEAN, location=locate(meta))

    def build_false(self, meta: Meta) -> Expression:
        return Literal(False, BOOLEAN, location=locate(meta))

    def build_null(self, meta: Meta) -> Expression:
        return Literal(None, NULL, location=locate(meta))

    def build_name(self, meta: Meta, token: Token) -> Name:
        result = Name(unquote(token) if token.type == "QUOTED" else token)
        result.location = locate(meta)
        return result

    def build_duration(self, meta: Meta, count: Token, unit: Token) -> int:
        location = locate(meta)
        duration_ms = number(count, "a duration", location, LONGEST_MS) * unit_ms(unit, location)
        if duration_ms > LONGEST_MS:
            raise SqlError("a duration is at most 100 years", location)
        return duration_ms

    def build_expressions(self, _meta: Meta, *expressions: Expression) -> tuple[Expression, ...]:
        return expressions
