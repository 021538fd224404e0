"""MATCH_RECOGNIZE: takes its measures and conditions apart, into what one row gives, and what a match's rows give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from headrace.sql.building import MOST_STEPS
from headrace.sql.functions import FUNCTIONS
from headrace.sql.operators import BINARY
from headrace.sql.plan import (
    ROWTIME,
    Input,
    MatchPlan,
    Named,
    Navigation,
    Relation,
    RelationColumn,
    Scope,
)
from headrace.sql.query_outputs import kind_of, outputs_of, refuse_aggregates
from headrace.sql.rewriting import rewrite
from headrace.sql.statements import (
    MOST_LEVELS,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Interval,
    Item,
    Literal,
    MatchRecognize,
    Operation,
    Over,
    Select,
    walk,
)
from headrace.sql.types import BIGINT, DOUBLE, STRING, Location, SqlError, SqlType
from headrace.sql.typing import condition, near, resolve

_NAVIGATIONS = ("PREV", "FIRST", "LAST")
_AGGREGATES = {
    "COUNT": "count", "SUM": "sum", "AVG": "avg", "MIN": "min", "MAX": "max", "COLLECT_LIST": "list",
}  # fmt: skip
_MOST_OFFSET = 1_000
# Rows of several shards come in different orders; a row of the newest one's time in a later micro-batch would be late.
DEFAULT_GRACE_MS = 10_000
_SCALARS = frozenset({
    "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "DATE", "TIME", "TIMESTAMP",
})  # fmt: skip


def match_plan(match: MatchRecognize, scope: Scope, alias: str) -> MatchPlan:
    """Return a row pattern's plan, resolved; raises SqlError for what no stream has.

    `scope` is of the one stream whose rows it looks at.
    """
    before = _check_match(match, scope)
    navigations = _Navigations(scope, before)
    partition = tuple(_partition_column(one, scope) for one in match.partition)
    measures = [
        Named(one.name, navigations.split(replace_relation(one.expression, None), None), one.type)
        for one in partition
    ]
    for item in match.measures:
        assert item.expression is not None
        outer = navigations.split(item.expression, None)
        resolved, type_ = resolve(outer, navigations.scope())
        if type_.name in ("NULL", "INTERVAL"):
            raise SqlError(f"a column of {type_}: CAST gives it a type", item.location)
        measures.append(Named(str(item.alias), resolved, type_))
    _check_names(measures, match.location)
    results = tuple(range(len(navigations.found)))
    conditions: list[tuple[str, tuple[Any, ...]]] = []
    for name, expression in match.defines:
        outer = condition(
            navigations.split(expression, name), navigations.scope(), f"DEFINE {name}"
        )
        conditions.append((name, navigations.data(outer)))
    columns = tuple(
        RelationColumn(one.name, one.type, index < len(partition))
        for index, one in enumerate(measures)
    )
    relation = Relation(alias, columns, location=match.location)
    return MatchPlan(
        Input(relation, alias),
        partition,
        tuple(navigations.columns),
        match.pattern,
        tuple(conditions),
        tuple(navigations.found),
        results,
        tuple(measures),
        match.skip == "PAST LAST ROW",
        match.within_ms or 0,
        DEFAULT_GRACE_MS if match.grace_ms is None else match.grace_ms,
        navigations.history,
    )


def _check_match(match: MatchRecognize, scope: Scope) -> dict[str, int]:
    """Check a row pattern's order and names; return each of its variables with the least rows before it."""
    (source,) = scope.inputs
    if source.relation.is_table:
        raise SqlError(
            "a table has no order of rows: MATCH_RECOGNIZE reads a stream", match.location
        )
    _check_order(match.order, source)
    before = _rows_before(match.pattern, match.location)
    for name, expression in match.defines:
        if name not in before:
            raise SqlError(
                f"{name} is not in PATTERN{near(name, sorted(before))}", expression.location
            )
    if len(dict(match.defines)) < len(match.defines):
        raise SqlError("DEFINE names a row twice", match.location)
    if match.within_ms == 0:
        raise SqlError("WITHIN is longer than 0", match.location)
    return before


def stagger_plan(select: Select, scope: Scope, alias: str) -> MatchPlan:
    """Return windows that begin with a partition's first row as a row pattern: it, and rows less than RANGE later."""
    stagger = select.stagger
    assert stagger is not None
    (source,) = scope.inputs
    if source.relation.is_table:
        raise SqlError("a window groups a stream's rows, not a table's", stagger.location)
    refuse_aggregates(select.where, "WHERE")
    navigations = _Navigations(scope, {"": 0, "A": 0, "B": 1})
    for part in stagger.partition:
        refuse_aggregates(part, "PARTITION BY")
    keys = dict(resolve(part, scope) for part in stagger.partition)

    every = next((item for item in select.items if item.expression is None), None)
    if every is not None:
        raise SqlError(
            "a window's rows are PARTITION BY's columns and aggregates, not *", every.location
        )
    outputs = outputs_of(select, scope)
    measures = [_stagger_measure(output, keys, navigations) for output in outputs]
    results = tuple(range(len(navigations.found)))
    time = Column(ROWTIME)
    first = Call("FIRST", (time,))
    is_in = Operation("<", (time, Operation("+", (first, Interval(stagger.range_ms)))))
    outer = condition(navigations.split(is_in, "B"), navigations.scope(), "STAGGER")
    relation = Relation(
        alias,
        tuple(
            RelationColumn(one.name, one.type, output.expression in keys)
            for one, output in zip(measures, outputs, strict=True)
        ),
        location=stagger.location,
    )
    partition = tuple(
        Named(f"key_{index}", key, type_) for index, (key, type_) in enumerate(keys.items())
    )
    return MatchPlan(
        Input(relation, alias),
        partition,
        tuple(navigations.columns),
        ("seq", ("row", "A"), ("repeat", ("row", "B"), 0, -1, True)),
        (("B", navigations.data(outer)),),
        tuple(navigations.found),
        results,
        tuple(measures),
        is_past_last=True,
        within_ms=stagger.range_ms,
        grace_ms=DEFAULT_GRACE_MS,
        history=0,
        where=None if select.where is None else condition(select.where, scope, "WHERE"),
    )


def _stagger_measure(
    output: Named, keys: Mapping[Expression, Any], navigations: _Navigations
) -> Named:
    """Return a value of a staggered window as a measure of its pattern: of its keys and of aggregates."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Over):
            raise SqlError(
                "a staggered window has no sliding window: name its rows by CREATE STREAM",
                part.location,
            )
        if part in keys or (isinstance(part, Call) and kind_of(part) == "aggregate"):
            # Without its relation, which may have the name of a row of the pattern.
            return navigations.split(replace_relation(part, None), None)
        if isinstance(part, Column) and part.relation is not None:
            raise SqlError(
                f"{part.name} is neither in PARTITION BY nor in an aggregate function",
                part.location,
            )
        return None

    of_matches = rewrite(output.expression, change)
    return replace(output, expression=resolve(of_matches, navigations.scope())[0])


def warnings_of_match(match: MatchPlan) -> list[str]:
    """Return what the writer of a row pattern should know."""
    warnings: list[str] = []
    if not match.within_ms:
        warnings.append(
            "a match that has begun waits for its next row for ever, in up to 10,000 rows of each partition: WITHIN "
            "bounds it"
        )
    if match.history:
        warnings.append("the state holds the last rows of each partition for PREV, for ever")
    return warnings


def replace_relation(expression: Expression, relation: str | None) -> Expression:
    """Return the expression with every column of `relation`, or of none."""

    def change(part: Expression) -> Expression | None:
        return replace(part, relation=relation) if isinstance(part, Column) else None

    return rewrite(expression, change)


def _check_order(order: Expression | None, source: Input) -> None:
    names = {ROWTIME.lower(), source.relation.timestamp.lower()}
    if order is not None and not (isinstance(order, Column) and order.name.lower() in names):
        raise SqlError(
            "a stream's rows are in the order of their time: ORDER BY ROWTIME", order.location
        )


def _partition_column(expression: Expression, scope: Scope) -> Named:
    resolved, type_ = resolve(expression, scope)
    if not isinstance(resolved, Column) or type_.name not in _SCALARS:
        raise SqlError("PARTITION BY takes columns of one value", expression.location)
    return Named(resolved.name, resolved, type_)


def _check_names(measures: list[Named], location: Location) -> None:
    names = [one.name.lower() for one in measures]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SqlError(f"two columns of MATCH_RECOGNIZE are called {twice}", location)


def _rows_before(pattern: tuple[Any, ...], location: Location) -> dict[str, int]:
    """Return each variable of a pattern with the least rows before one of its rows; refuse what is too large."""
    waiting = [(pattern, 1)]
    while waiting:
        part, level = waiting.pop()
        if level > MOST_LEVELS:
            raise SqlError(f"a PATTERN has at most {MOST_LEVELS} levels", location)
        waiting += [(one, level + 1) for one in part[1:] if isinstance(one, tuple)]
    if _steps(pattern) > MOST_STEPS:
        raise SqlError(f"a PATTERN has at most {MOST_STEPS:,} rows, {{n,m}} written out", location)
    before: dict[str, int] = {}

    def least(part: tuple[Any, ...], rows: int) -> int:
        """Return the least rows that a part matches, of which `rows` are before it."""
        if part[0] == "row":
            before[part[1]] = min(before.get(part[1], rows), rows)
            return 1
        if part[0] == "seq":
            total = 0
            for one in part[1:]:
                total += least(one, rows + total)
            return total
        if part[0] == "alt":
            return min(least(one, rows) for one in part[1:])
        return least(part[1], rows) * part[2]

    before[""] = max(least(pattern, 0) - 1, 0)
    if least(pattern, 0) == 0:
        raise SqlError(
            "the PATTERN matches no rows at all: one of its rows needs no ? or *", location
        )
    return before


def _steps(part: tuple[Any, ...]) -> int:
    if part[0] == "row":
        return 1
    if part[0] in ("seq", "alt"):
        return sum(_steps(one) for one in part[1:]) + 2 * len(part)
    _, body, least, most, _ = part
    return (_steps(body) + 1) * max(least + 1 if most < 0 else most, 1) + 1


class _Navigations:
    """What a match's measures and conditions read of its rows. `before` is each variable's least rows before it."""

    def __init__(self, scope: Scope, before: dict[str, int]) -> None:
        self.found: list[Navigation] = []
        self.columns: list[Named] = []
        self.history = 0
        self._scope = scope
        self._before = before

    def scope(self) -> Scope:
        """Return the scope of what is computed from navigations alone."""
        return replace(self._scope, inputs=(), extras={one.name: one.type for one in self.found})

    def split(self, expression: Expression, own: str | None) -> Expression:
        """Return an expression over the names of navigations; `own` is the row that DEFINE defines."""
        return rewrite(expression, lambda part: self._replace(part, own))

    def _replace(self, part: Expression, own: str | None) -> Expression | None:
        if isinstance(part, Over):
            raise SqlError(
                "MATCH_RECOGNIZE has no sliding window: SUM(A.x) is over A's rows", part.location
            )
        if isinstance(part, Call) and part.name == "NEXT":
            raise SqlError(
                "NEXT is not there when a row comes: name the next row in PATTERN", part.location
            )
        if isinstance(part, Call) and part.name in ("MATCH_NUMBER", "CLASSIFIER"):
            if own is not None or part.arguments:
                raise SqlError(
                    f"{part.name}() stands in MEASURES, without arguments", part.location
                )
            type_ = BIGINT if part.name == "MATCH_NUMBER" else STRING
            kind = "number" if part.name == "MATCH_NUMBER" else "classifier"
            return self._add(kind, "", -1, 0, type_, part.location)
        if isinstance(part, Call) and part.name in _NAVIGATIONS:
            return self._navigation(part, own)
        if isinstance(part, Call) and kind_of(part) in ("aggregate", "table"):
            return self._aggregate(part, own)
        variable = self._row_of(part, own)
        # A part of NULL is NULL: of a row that no match has, it is what the row's own would be.
        if variable == "" or (variable is not None and isinstance(part, Column | Field | Item)):
            column, type_ = self._column(part)
            return self._add("last", variable, column, 0, type_, part.location)
        return None

    def _row_of(self, part: Expression, own: str | None) -> str | None:
        """Return the one row that all columns of an expression are of; None for several, none, and an aggregate."""
        parts = list(walk(part))
        if any(
            isinstance(one, Over) or (isinstance(one, Call) and _is_of_several_rows(one))
            for one in parts
        ):
            return None
        variables = {self._variable(one, own) for one in parts if isinstance(one, Column)}
        return variables.pop() if len(variables) == 1 else None

    def _variable(self, column: Column, own: str | None) -> str:
        """Return the row that a column is of: '' for the last one of all, which DEFINE's own row is."""
        relation = (column.relation or "").upper()
        if relation in self._before and relation:
            return "" if relation == own else relation
        if relation in ("", self._scope.inputs[0].alias.upper()):
            return ""
        raise SqlError(
            f"no row {column.relation!r} in PATTERN{near(column.relation or '', [n for n in self._before if n])}",
            column.location,
        )

    def _variable_of(self, part: Expression, own: str | None) -> str:
        """Return the one row that all columns of an expression are of."""
        for one in walk(part):
            if isinstance(one, Call) and _is_of_several_rows(one):
                raise SqlError(f"{one.name} does not stand in another one of a row", one.location)
        variables = {self._variable(one, own): one for one in walk(part) if isinstance(one, Column)}
        if len(variables) > 1:
            raise SqlError("a value of one row of PATTERN is taken, not of several", part.location)
        return next(iter(variables), "")

    def _navigation(self, call: Call, own: str | None) -> Expression:
        if not 1 <= len(call.arguments) <= 2 or call.star or call.distinct:
            raise SqlError(
                f"{call.name} takes a value, and perhaps how many rows on", call.location
            )
        value, *rest = call.arguments
        offset = 1 if call.name == "PREV" else 0
        if rest:
            (count,) = rest
            number = count.value if isinstance(count, Literal) else None
            if not isinstance(number, int) or not 0 <= number <= _MOST_OFFSET:
                raise SqlError(f"a number of rows is 0 to {_MOST_OFFSET:,}", count.location)
            offset = number
        variable = self._variable_of(value, own)
        column, type_ = self._column(value)
        if call.name == "PREV":
            named = variable or own or ""
            self.history = max(self.history, offset - self._before[named])
        elif (
            variable == ""
            and own is not None
            and _names_row(value, own)
            and offset + (call.name == "FIRST")
        ):
            # Of the own row's earlier ones, not of all rows.
            variable = own
        return self._add(call.name.lower(), variable, column, offset, type_, call.location)

    def _aggregate(self, call: Call, own: str | None) -> Expression:
        if call.name not in _AGGREGATES or call.distinct or (own and call.name == "COLLECT_LIST"):
            raise SqlError(
                f"{call.name} is not computed of a match's rows: COUNT, SUM, AVG, MIN and MAX are, and in MEASURES "
                "COLLECT_LIST",
                call.location,
            )
        if call.star:
            return self._add("count", "", -1, 0, BIGINT, call.location)
        if len(call.arguments) != 1:
            raise SqlError(
                f"{call.name} takes 1 argument, not {len(call.arguments)}", call.location
            )
        resolved_types: list[SqlType] = []
        (value,) = call.arguments
        variable = self._variable_of(value, own)
        if variable == "" and own is not None and _names_row(value, own):
            variable = own
        if call.name == "AVG":
            resolve(replace(call, arguments=(replace_relation(value, None),)), self._scope)
            value = Cast(value, DOUBLE, location=value.location)
        column, type_ = self._column(value)
        resolved_types.append(type_)
        resolve(replace(call, arguments=(replace_relation(value, None),)), self._scope)
        result = FUNCTIONS[call.name].result_type(resolved_types)
        return self._add(_AGGREGATES[call.name], variable, column, 0, result, call.location)

    def _column(self, value: Expression) -> tuple[int, SqlType]:
        """Return the index of what a row gives, and its type."""
        resolved, type_ = resolve(replace_relation(value, None), self._scope)
        if type_.name not in _SCALARS:
            raise SqlError(
                f"MATCH_RECOGNIZE carries values of one part, not {type_}: take a part out",
                value.location,
            )
        for index, one in enumerate(self.columns):
            if one.expression == resolved:
                return index, type_
        self.columns.append(Named(f"c{len(self.columns)}", resolved, type_))
        return len(self.columns) - 1, type_

    def _add(
        self, kind: str, variable: str, column: int, offset: int, type_: SqlType, location: Location
    ) -> Column:
        for one in self.found:
            if (one.kind, one.variable, one.column, one.offset) == (kind, variable, column, offset):
                return Column(one.name, location=location)
        name = f"_N_{len(self.found)}"
        self.found.append(Navigation(name, kind, variable, column, offset, type_))
        return Column(name, location=location)

    def data(self, expression: Expression) -> tuple[Any, ...]:
        """Return a condition over navigations as the matcher takes it; raises SqlError for what it does not compute."""
        match expression:
            case Literal(value=value, type=type_):
                return "const", Decimal(value) if type_.name == "DECIMAL" else value
            case Interval(duration_ms=duration_ms):
                return "const", timedelta(milliseconds=duration_ms)
            case Column(name=name):
                return "nav", int(name.removeprefix("_N_"))
            case Operation(operator=operator, operands=operands) if (
                operator in _OPERATORS or operator in BINARY
            ):
                kind = "NEGATE" if operator == "-" and len(operands) == 1 else operator
                return kind, *map(self.data, operands)
            case Case(branches=branches, otherwise=otherwise):
                parts = [self.data(part) for branch in branches for part in branch]
                return (
                    "CASE",
                    *parts,
                    ("const", None) if otherwise is None else self.data(otherwise),
                )
            case Cast(of=of, type=type_) if type_ == DOUBLE:
                return "DOUBLE", self.data(of)
            case Call(name=name, arguments=arguments) if name in ("COALESCE", "ABS"):
                return name, *map(self.data, arguments)
            case _:
                raise SqlError(
                    "DEFINE puts values of several rows together by + - * / %, comparisons, AND, OR, NOT, IN, BETWEEN, "
                    "CASE, COALESCE and ABS; other functions stand within PREV(..), FIRST(..) and LAST(..)",
                    expression.location,
                )


_SPECIAL = (*_NAVIGATIONS, "NEXT", "MATCH_NUMBER", "CLASSIFIER")
_OPERATORS = ("AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS DISTINCT FROM")


def _is_of_several_rows(call: Call) -> bool:
    """Return whether a call is no function of one row; one of a query's own is of one row."""
    return call.name in _SPECIAL or kind_of(call) in ("aggregate", "table")


def _names_row(value: Expression, own: str) -> bool:
    """Return whether the columns of a value are the row's that DEFINE defines, by its name."""
    columns = [one for one in walk(value) if isinstance(one, Column)]
    return bool(columns) and (columns[0].relation or "").upper() == own
