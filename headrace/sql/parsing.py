"""Reads SQL text: statements as values, or an error with its line and column."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken
from lark.tree import Meta

from headrace.sql.errors import Place, SqlError
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
from headrace.sql.statements import (
    ColumnDeclaration,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    InsertSelect,
    InsertValues,
    Join,
    Property,
    Query,
    RelationName,
    Select,
    SelectItem,
    SetProperty,
    Show,
    Statement,
    Terminate,
    Window,
)
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    SqlType,
    array_of,
    map_of,
    scalar,
)

MOST_BYTES = 1_000_000
MOST_TYPE_LEVELS = 20
MOST_STATEMENTS = 2_000
_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_LARGEST_INT, _LARGEST_BIGINT = 2**31 - 1, 2**63 - 1
_LONGEST_MS = 36_500 * 86_400_000
_WORDS = {
    "NAME": "a name",
    "QUOTED": "a quoted name",
    "STRING": "'text'",
    "INTEGER": "a whole number",
    "DECIMAL": "a number",
    "FLOAT": "a number",
    "$END": "the end",
    "RPAR": "')'",
    "LPAR": "'('",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "EQUAL": "'='",
    "DOT": "'.'",
    "STREAM_WORD": "STREAM",
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DEFINITION = re.compile(
    r"^\s*(?:DEFINE\s+(\w+)\s*=\s*'((?:[^']|'')*)'|UNDEFINE\s+(\w+))\s*;", re.IGNORECASE | re.MULTILINE
)


def parse(text: str) -> tuple[Statement, ...]:
    """Return the statements of `text`; raises SqlError at the first that is none.

    DEFINE's variables are put in first, as KSQL does it: `${name}` is text.
    """
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise SqlError(f"a text has at most {MOST_BYTES:,} bytes", Place())
    text = _put_variables_in(text)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _explain(error, text) from None
    return _build(tree)


def _build(tree: Tree[Any]) -> tuple[Statement, ...]:
    """Return a tree's value, innermost parts first: no depth of a text recurses."""
    builder = _Builder()
    values: dict[int, Any] = {}
    for part in tree.iter_subtrees():
        children = [
            values[id(child)] if isinstance(child, Tree) else child for child in part.children
        ]
        values[id(part)] = getattr(builder, part.data)(part.meta, *children)
    return values[id(tree)]


def _put_variables_in(text: str) -> str:
    """Return `text` with its variables' values; a DEFINE becomes blanks, so that places stay right."""
    if not (_VARIABLE.search(text) or _DEFINITION.search(text)):
        return text
    variables: dict[str, str] = {}
    parts: list[str] = []
    position = 0
    for definition in [*_DEFINITION.finditer(text), None]:
        end = definition.start() if definition else len(text)
        parts.append(_VARIABLE.sub(lambda use: _value(use, variables, text), text[position:end]))
        if sum(map(len, parts)) > MOST_BYTES:
            raise SqlError(f"a text has at most {MOST_BYTES:,} bytes, variables included", Place())
        if definition is None:
            break
        position = definition.end()
        parts.append(re.sub(r"[^\n]", " ", definition.group()))
        if definition[3]:
            variables.pop(definition[3].lower(), None)
        else:
            variables[definition[1].lower()] = definition[2].replace("''", "'")
    return "".join(parts)


def _value(use: re.Match[str], variables: dict[str, str], text: str) -> str:
    try:
        return variables[use[1].lower()]
    except KeyError:
        place = _place_of(text, text.find(use.group()))
        raise SqlError(
            f"no variable {use[1]!r}; DEFINE {use[1]} = '..'; makes one", place
        ) from None


def _place_of(text: str, offset: int) -> Place:
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - before.rfind("\n"))


def _explain(error: UnexpectedInput, text: str) -> SqlError:
    if isinstance(error, UnexpectedCharacters):
        place = Place(error.line, error.column)
        character = text[error.pos_in_stream or 0]
        if character in "'\"`":
            return SqlError(f"the {character} that begins here has no end", place)
        return SqlError(f"{character!r} does not belong here", place)
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        place = Place(int(error.token.line or 1), int(error.token.column or 1))
        return SqlError(
            f"{str(error.token)[:60]!r} does not belong here{_expected(error.accepts or error.expected)}",
            place,
        )
    expected = error.accepts or error.expected if isinstance(error, UnexpectedToken) else ()
    if isinstance(error, UnexpectedEOF):
        expected = error.expected
    return SqlError(
        f"the statement ends too early{_expected(expected)}", _place_of(text, len(text))
    )


def _expected(names: Any) -> str:
    words = sorted({_WORDS.get(name, name) for name in names if not name.startswith("__")})
    return f"; expected {', '.join(words)}" if 0 < len(words) <= 8 else ""


@cache
def _parser() -> Lark:
    """Return the parser, which takes 0.25 s to make."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start="script", propagate_positions=True)


def _place(meta: Meta) -> Place:
    return Place() if meta.empty else Place(meta.line, meta.column)


class _Name(str):
    """A name with its place."""

    place: Place


def _unquote(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _number(text: str, what: str, place: Place, most: int) -> int:
    """Return a whole number; Python itself refuses thousands of digits."""
    if len(text) > 18 or int(text) > most:
        raise SqlError(f"{what} is at most {most}", place)
    return int(text)


def _unit_ms(unit: str, place: Place) -> int:
    name = unit.upper().removesuffix("S")
    if name not in _UNITS_MS:
        raise SqlError(
            f"{str(unit)!r} is no unit of time; there are MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS, WEEKS",
            place,
        )
    return _UNITS_MS[name]


def _tokens(*values: Any) -> str:
    return " ".join(str(value).upper() for value in values if value is not None)


class _Builder:
    """One method a rule of the grammar: takes where it stands and its parts' values. Builds statements and expressions from what the grammar finds, innermost first."""

    def script(self, meta: Meta, *statements: Statement | None) -> tuple[Statement, ...]:
        if len(statements) > MOST_STATEMENTS:
            raise SqlError(f"a text has at most {MOST_STATEMENTS:,} statements", _place(meta))
        return tuple(statement for statement in statements if statement is not None)

    # Statements.

    def create_source(
        self,
        meta: Meta,
        replaces: bool | None,
        is_table: bool,
        exists: bool | None,
        name: _Name,
        *rest: Any,
    ) -> CreateSource:
        columns = tuple(part for part in rest if isinstance(part, ColumnDeclaration))
        return CreateSource(
            _place(meta), name, is_table, columns, rest[-1] or (), bool(replaces), bool(exists)
        )

    def create_as(
        self,
        meta: Meta,
        replaces: bool | None,
        is_table: bool,
        exists: bool | None,
        name: _Name,
        properties: tuple[Property, ...] | None,
        select: Select,
    ) -> CreateAs:
        return CreateAs(
            _place(meta), name, is_table, properties or (), select, bool(replaces), bool(exists)
        )

    def create_pump(
        self,
        meta: Meta,
        _replaces: bool | None,
        pump: _Name,
        target: _Name,
        columns: tuple[str, ...] | None,
        select: Select,
    ) -> InsertSelect:
        return InsertSelect(_place(meta), target, columns or (), select, pump)

    def insert_select(
        self, meta: Meta, target: _Name, columns: tuple[str, ...] | None, select: Select
    ) -> InsertSelect:
        return InsertSelect(_place(meta), target, columns or (), select)

    def insert_values(
        self, meta: Meta, target: _Name, columns: tuple[str, ...] | None, *values: Expression
    ) -> InsertValues:
        if columns and len(columns) != len(values):
            raise SqlError(f"{len(columns)} columns, but {len(values)} values", _place(meta))
        return InsertValues(_place(meta), target, columns or (), values)

    def query_statement(self, meta: Meta, select: Select) -> Query:
        return Query(_place(meta), select)

    def drop(
        self, meta: Meta, _is_table: bool, exists: bool | None, name: _Name, _delete: bool | None
    ) -> Drop:
        return Drop(_place(meta), name, bool(exists))

    def set_property(self, meta: Meta, name: Token, value: Token) -> SetProperty:
        return SetProperty(_place(meta), _unquote(name), _unquote(value))

    def unset_property(self, meta: Meta, name: Token) -> SetProperty:
        return SetProperty(_place(meta), _unquote(name), None)

    def show(self, meta: Meta, what: Token) -> Show:
        return Show(_place(meta), what.upper())

    def describe(self, meta: Meta, name: _Name) -> Describe:
        return Describe(_place(meta), name)

    def explain(self, meta: Meta, name: _Name) -> Describe:
        return Describe(_place(meta), name, explains=True)

    def terminate(self, meta: Meta, name: _Name) -> Terminate:
        return Terminate(_place(meta), name)

    def or_replace(self, _meta: Meta) -> bool:
        return True

    if_not_exists = if_exists = delete_topic = or_replace

    def relation_kind(self, _meta: Meta, *words: Token | None) -> bool:
        return _tokens(*words).endswith("TABLE")

    def name_list(self, _meta: Meta, *names: _Name) -> tuple[str, ...]:
        return names

    def column_declaration(
        self, _meta: Meta, name: _Name, type_: SqlType, key: str | None
    ) -> ColumnDeclaration:
        return ColumnDeclaration(name, type_, key or "", name.place)

    def column_key(self, _meta: Meta, *words: Token) -> str:
        words_ = _tokens(*words)
        return "" if words_ == "NOT NULL" else words_

    def property(self, meta: Meta, name: Token, value: Literal) -> Property:
        text = _unquote(name) if name[0] in "'`\"" else str(name)
        return Property(text.lower(), value, _place(meta))

    def negative_integer(self, meta: Meta, token: Token) -> Literal:
        return Literal(-_number(token, "a number", _place(meta), _LARGEST_BIGINT), BIGINT)

    def with_clause(self, _meta: Meta, *properties: Property | None) -> tuple[Property, ...]:
        return tuple(one for one in properties if one is not None)

    # Queries.

    def select(
        self, meta: Meta, _stream: Token | None, distinct: Token | None, *parts: Any
    ) -> Select:
        *items, clauses = parts
        return Select(tuple(items), distinct=distinct is not None, place=_place(meta), **clauses)

    def from_clause(self, _meta: Meta, source: RelationName, *rest: Any) -> dict[str, Any]:
        joins = tuple(part for part in rest if isinstance(part, Join))
        names = ("window", "where", "group_by", "partition_by", "having", "emit", "limit")
        clauses = dict(zip(names, rest[len(joins) :], strict=True))
        present = {name: value for name, value in clauses.items() if value is not None}
        return {"source": source, "joins": joins, **present}

    def select_expression(
        self, meta: Meta, expression: Expression, alias: _Name | None
    ) -> SelectItem:
        return SelectItem(expression, alias, None, _place(meta))

    def select_all(self, meta: Meta) -> SelectItem:
        return SelectItem(None, None, None, _place(meta))

    def select_all_of(self, meta: Meta, relation: _Name) -> SelectItem:
        return SelectItem(None, None, relation, _place(meta))

    def relation(self, meta: Meta, name: _Name, alias: _Name | None) -> RelationName:
        return RelationName(name, alias or name, _place(meta))

    def join(
        self,
        meta: Meta,
        kind: str | None,
        relation: RelationName,
        within: tuple[int, int, int | None] | None,
        on: Expression,
    ) -> Join:
        before, after, grace = within or (None, None, None)
        return Join(kind or "INNER", relation, on, before, after, grace, _place(meta))

    def join_kind(self, _meta: Meta, *words: Token | None) -> str:
        return _tokens(*words).removesuffix(" OUTER")

    def within(self, _meta: Meta, before: int, *rest: int | None) -> tuple[int, int, int | None]:
        after = rest[0] if len(rest) > 1 and rest[0] is not None else before
        return before, after, rest[-1]

    def grace(self, _meta: Meta, duration_ms: int) -> int:
        return duration_ms

    def duration(self, meta: Meta, count: Token, unit: Token) -> int:
        place = _place(meta)
        duration_ms = _number(count, "a duration", place, _LONGEST_MS) * _unit_ms(unit, place)
        if duration_ms > _LONGEST_MS:
            raise SqlError("a duration is at most 100 years", place)
        return duration_ms

    def window(self, meta: Meta, window: Window) -> Window:
        return Window(
            window.kind,
            window.size_ms,
            window.advance_ms,
            window.grace_ms,
            window.retention_ms,
            _place(meta),
        )

    def tumbling(self, _meta: Meta, size_ms: int, *options: tuple[str, int]) -> Window:
        return Window("TUMBLING", size_ms, **dict(options))

    def hopping(
        self, _meta: Meta, size_ms: int, advance_ms: int, *options: tuple[str, int]
    ) -> Window:
        return Window("HOPPING", size_ms, advance_ms, **dict(options))

    def session(self, _meta: Meta, gap_ms: int, *options: tuple[str, int]) -> Window:
        return Window("SESSION", gap_ms, **dict(options))

    def retention(self, _meta: Meta, duration_ms: int) -> tuple[str, int]:
        return "retention_ms", duration_ms

    def grace_period(self, _meta: Meta, duration_ms: int) -> tuple[str, int]:
        return "grace_ms", duration_ms

    def where(self, _meta: Meta, expression: Expression) -> Expression:
        return expression

    having = where

    def expressions(self, _meta: Meta, *expressions: Expression) -> tuple[Expression, ...]:
        return expressions

    partition_by = expressions

    def group_by(self, _meta: Meta, expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return expressions

    def emit(self, _meta: Meta, word: Token) -> str:
        return word.upper()

    def limit(self, meta: Meta, count: Token) -> int:
        return _number(count, "LIMIT", _place(meta), _LARGEST_INT)

    # Types.

    def scalar_type(self, meta: Meta, name: Token, *digits: Token | None) -> SqlType:
        numbers = tuple(
            _number(n, "a type's number", _place(meta), 10_000_000) for n in digits if n
        )
        type_ = scalar(name, numbers)
        if type_ is None:
            raise SqlError(f"no type {name}", _place(meta))
        if type_.name == "DECIMAL" and (type_.digits[0] > 38 or type_.digits[-1] > type_.digits[0]):
            raise SqlError("a DECIMAL has at most 38 digits", _place(meta))
        return (
            SqlType("DECIMAL", digits=(*type_.digits, 0)[:2]) if type_.name == "DECIMAL" else type_
        )

    def double_type(self, _meta: Meta) -> SqlType:
        return DOUBLE

    def array_type(self, meta: Meta, element: SqlType) -> SqlType:
        return self._bounded(array_of(element), _place(meta))

    def map_type(self, meta: Meta, key: SqlType, value: SqlType) -> SqlType:
        return self._bounded(map_of(key, value), _place(meta))

    def struct_type(self, meta: Meta, *fields: tuple[str, SqlType] | None) -> SqlType:
        pairs = [pair for pair in fields if pair is not None]
        names, types = tuple(name for name, _ in pairs), tuple(type_ for _, type_ in pairs)
        return self._bounded(SqlType("STRUCT", types, names), _place(meta))

    def struct_field(self, _meta: Meta, name: _Name, type_: SqlType) -> tuple[str, SqlType]:
        return name, type_

    def _bounded(self, type_: SqlType, place: Place) -> SqlType:
        levels, current = 0, [type_]
        while current:
            levels, current = levels + 1, [part for one in current for part in one.of]
        if levels > MOST_TYPE_LEVELS:
            raise SqlError(f"a type has at most {MOST_TYPE_LEVELS} levels", place)
        return type_

    # Expressions.

    def disjunction(self, meta: Meta, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Operation("OR", parts, place=_place(meta))

    def conjunction(self, meta: Meta, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Operation("AND", parts, place=_place(meta))

    def negated(self, meta: Meta, part: Expression) -> Expression:
        return Operation("NOT", (part,), place=_place(meta))

    def compared(
        self, meta: Meta, left: Expression, operator: str, right: Expression
    ) -> Expression:
        return Operation(operator, (left, right), place=_place(meta))

    def comparison_operator(self, _meta: Meta, token: Token) -> str:
        return "<>" if token == "!=" else str(token)

    def sum_operator(self, _meta: Meta, token: Token) -> str:
        return str(token)

    product_operator = sum_operator

    def chained(self, meta: Meta, first: Expression, *rest: Any) -> Expression:
        result = first
        for operator, operand in zip(rest[::2], rest[1::2]):
            result = Operation(operator, (result, operand), place=_place(meta))
        return result

    def negative(self, meta: Meta, part: Expression) -> Expression:
        if isinstance(part, Literal) and part.type.is_number:
            value = f"-{part.value}" if part.type.name == "DECIMAL" else -part.value
            return Literal(value, part.type, place=_place(meta))
        return Operation("-", (part,), place=_place(meta))

    def _perhaps_not(self, meta: Meta, word: Token | None, operation: Operation) -> Expression:
        return operation if word is None else Operation("NOT", (operation,), place=_place(meta))

    def is_null(self, meta: Meta, part: Expression, word: Token | None) -> Expression:
        return self._perhaps_not(meta, word, Operation("IS NULL", (part,), place=_place(meta)))

    def is_distinct(
        self, meta: Meta, left: Expression, word: Token | None, right: Expression
    ) -> Expression:
        operation = Operation("IS DISTINCT FROM", (left, right), place=_place(meta))
        return self._perhaps_not(meta, word, operation)

    def like(
        self,
        meta: Meta,
        part: Expression,
        word: Token | None,
        pattern: Expression,
        escape: Token | None,
    ) -> Expression:
        character = (
            () if escape is None else (Literal(_unquote(escape), STRING, place=_place(meta)),)
        )
        operation = Operation("LIKE", (part, pattern, *character), place=_place(meta))
        return self._perhaps_not(meta, word, operation)

    def between(
        self, meta: Meta, part: Expression, word: Token | None, low: Expression, high: Expression
    ) -> Expression:
        operation = Operation("BETWEEN", (part, low, high), place=_place(meta))
        return self._perhaps_not(meta, word, operation)

    def in_list(
        self, meta: Meta, part: Expression, word: Token | None, *values: Expression
    ) -> Expression:
        return self._perhaps_not(meta, word, Operation("IN", (part, *values), place=_place(meta)))

    def column(self, meta: Meta, name: _Name) -> Expression:
        return Column(name, place=_place(meta))

    def qualified_column(self, meta: Meta, relation: _Name, name: _Name) -> Expression:
        return Column(name, relation, place=_place(meta))

    def struct_field_of(self, meta: Meta, of: Expression, name: _Name) -> Expression:
        return Field(of, name, place=_place(meta))

    def item(self, meta: Meta, of: Expression, index: Expression) -> Expression:
        return Item(of, index, place=_place(meta))

    def interval(self, meta: Meta, count: Token, unit: Token) -> Expression:
        text = _unquote(count).strip()
        if not text.isascii() or not text.isdigit():
            raise SqlError(
                f"INTERVAL {count} {unit}: the number is whole, such as '5'", _place(meta)
            )
        number = _number(text, "an INTERVAL", _place(meta), _LONGEST_MS)
        return Interval(number * _unit_ms(unit, _place(meta)), place=_place(meta))

    def cast(self, meta: Meta, of: Expression, type_: SqlType) -> Expression:
        return Cast(of, type_, place=_place(meta))

    def case(self, meta: Meta, subject: Expression | None, *rest: Any) -> Expression:
        *branches, otherwise = rest
        if subject is not None:
            branches = [
                (Operation("=", (subject, condition), place=condition.place), value)
                for condition, value in branches
            ]
        return Case(tuple(branches), otherwise, place=_place(meta))

    def when(
        self, _meta: Meta, condition: Expression, value: Expression
    ) -> tuple[Expression, Expression]:
        return condition, value

    def struct(self, meta: Meta, *pairs: tuple[str, Expression]) -> Expression:
        names, values = tuple(n for n, _ in pairs), tuple(v for _, v in pairs)
        return Struct(names, values, place=_place(meta))

    def named_value(self, _meta: Meta, name: _Name, value: Expression) -> tuple[str, Expression]:
        return name, value

    def array(self, meta: Meta, *values: Expression | None) -> Expression:
        return Array(tuple(value for value in values if value is not None), place=_place(meta))

    def map(self, meta: Meta, *pairs: tuple[Expression, Expression] | None) -> Expression:
        present = [pair for pair in pairs if pair is not None]
        return Map(tuple(k for k, _ in present), tuple(v for _, v in present), place=_place(meta))

    def map_entry(
        self, _meta: Meta, key: Expression, value: Expression
    ) -> tuple[Expression, Expression]:
        return key, value

    def floor(self, meta: Meta, of: Expression, unit: Token | None) -> Expression:
        if unit is None:
            return Call("FLOOR", (of,), place=_place(meta))
        return Tick(of, _unit_ms(unit, _place(meta)), place=_place(meta))

    def step(self, meta: Meta, of: Expression, interval: Interval) -> Expression:
        if not interval.duration_ms:
            raise SqlError("STEP's interval is longer than 0", interval.place)
        return Tick(of, interval.duration_ms, place=_place(meta))

    def call(self, meta: Meta, name: _Name, *arguments: Expression) -> Expression:
        return Call(name.upper(), arguments, place=_place(meta))

    def call_star(self, meta: Meta, name: _Name) -> Expression:
        return Call(name.upper(), (), star=True, place=_place(meta))

    def call_distinct(
        self, meta: Meta, name: _Name, _word: Token, argument: Expression
    ) -> Expression:
        return Call(name.upper(), (argument,), distinct=True, place=_place(meta))

    def lambda_function(self, meta: Meta, *parts: Any) -> Expression:
        *names, body = parts
        return Lambda(tuple(str(name) for name in names), body, place=_place(meta))

    # Constants and names.

    def string(self, meta: Meta, token: Token) -> Expression:
        return Literal(_unquote(token), STRING, place=_place(meta))

    def integer(self, meta: Meta, token: Token) -> Expression:
        if len(token) > 19 or int(token) > _LARGEST_BIGINT:
            return self.decimal(meta, token)
        number = int(token)
        return Literal(number, INT if number <= _LARGEST_INT else BIGINT, place=_place(meta))

    def decimal(self, meta: Meta, token: Token) -> Expression:
        whole, _, fraction = token.partition(".")
        if len(whole) + len(fraction) > 38:
            raise SqlError("a number has at most 38 digits", _place(meta))
        digits = (max(len(whole) + len(fraction), 1), len(fraction))
        return Literal(str(token), SqlType("DECIMAL", digits=digits), place=_place(meta))

    def double(self, meta: Meta, token: Token) -> Expression:
        return Literal(float(token), DOUBLE, place=_place(meta))

    def true(self, meta: Meta) -> Expression:
        return Literal(True, BOOLEAN, place=_place(meta))

    def false(self, meta: Meta) -> Expression:
        return Literal(False, BOOLEAN, place=_place(meta))

    def null(self, meta: Meta) -> Expression:
        return Literal(None, NULL, place=_place(meta))

    def name(self, meta: Meta, token: Token) -> _Name:
        result = _Name(_unquote(token) if token.type == "QUOTED" else token)
        result.place = _place(meta)
        return result
