"""Builds statements and queries from what the grammar finds, innermost first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token
from lark.tree import Meta

from headrace.sql.building_expressions import (
    ExpressionBuilder,
    Name,
    locate,
    number,
    tokens,
    unquote,
)
from headrace.sql.rewriting import inline, over_named, with_frames
from headrace.sql.statements import (
    Alter,
    ChangeType,
    ColumnDeclaration,
    CreateAs,
    CreateFunction,
    CreateSource,
    Describe,
    Drop,
    DropFunction,
    Explain,
    Expression,
    Frame,
    InsertSelect,
    InsertValues,
    Interval,
    Join,
    Literal,
    MatchRecognize,
    Property,
    Query,
    RelationName,
    Select,
    SelectItem,
    SetProperty,
    Show,
    Stagger,
    Statement,
    Terminate,
    Window,
)
from headrace.sql.types import (
    BIGINT,
    SqlError,
    SqlType,
    near,
    scalar,
)

MOST_STATEMENTS = 2_000
# A row pattern's steps, once {n,m} is written out.
MOST_STEPS = 1_000
_LARGEST_INT, _LARGEST_BIGINT = 2**31 - 1, 2**63 - 1


class Builder(ExpressionBuilder):
    """One method for each rule of the grammar: it takes the rule's location and its parts' values."""

    def build_script(self, _meta: Meta, *statements: Statement | None) -> tuple[Statement, ...]:
        result = tuple(statement for statement in statements if statement is not None)
        if len(result) > MOST_STATEMENTS:
            location = result[MOST_STATEMENTS].location
            raise SqlError(f"a text has at most {MOST_STATEMENTS:,} statements", location)
        return result

    # Statements.

    def build_create_source(
        self,
        meta: Meta,
        replaces: bool | None,
        is_table: bool,
        exists: bool | None,
        name: Name,
        *rest: Any,
    ) -> CreateSource:
        columns = tuple(part for part in rest if isinstance(part, ColumnDeclaration))
        return CreateSource(
            locate(meta), name, is_table, columns, rest[-1] or (), bool(replaces), bool(exists)
        )

    def build_create_inferred(
        self,
        meta: Meta,
        replaces: bool | None,
        is_table: bool,
        exists: bool | None,
        name: Name,
        stream: Name,
        properties: tuple[Property, ...] | None,
    ) -> CreateSource:
        flags = bool(replaces), bool(exists)
        return CreateSource(stream.location, name, is_table, (), properties or (), *flags, stream)

    def build_inferred_stream(self, meta: Meta, stream: Token | Name) -> Name:
        name = stream if isinstance(stream, Name) else Name(unquote(stream))
        name.location = locate(meta)
        return name

    def build_alter(
        self, meta: Meta, is_table: bool, name: Name, *columns: ColumnDeclaration
    ) -> Alter:
        return Alter(locate(meta), name, is_table, columns)

    def build_added_column(self, _meta: Meta, name: Name, type_: SqlType) -> ColumnDeclaration:
        return ColumnDeclaration(name, type_, "", name.location)

    def build_create_type(
        self, meta: Meta, exists: bool | None, name: Name, type_: SqlType
    ) -> ChangeType:
        if scalar(name) is not None:
            raise SqlError(f"{name} is a type of SQL's own", name.location)
        if name.lower() not in self.types:
            self.types[name.lower()] = type_
        elif not exists:
            raise SqlError(f"the type {name} is there already", name.location)
        return ChangeType(locate(meta), name)

    def build_drop_type(self, meta: Meta, exists: bool | None, name: Name) -> ChangeType:
        if self.types.pop(name.lower(), None) is None and not exists:
            raise SqlError(f"no type {name}{near(name, list(self.types))}", name.location)
        return ChangeType(locate(meta), name)

    def build_create_function(
        self, meta: Meta, replaces: bool | None, name: Name, *rest: Any
    ) -> CreateFunction:
        *parameters, result, file = rest
        pairs = tuple(one for one in parameters if one is not None)
        return CreateFunction(locate(meta), name, pairs, result, unquote(file), bool(replaces))

    def build_drop_function(self, meta: Meta, exists: bool | None, name: Name) -> DropFunction:
        return DropFunction(locate(meta), name, bool(exists))

    def build_create_as(
        self,
        meta: Meta,
        replaces: bool | None,
        is_table: bool,
        exists: bool | None,
        name: Name,
        properties: tuple[Property, ...] | None,
        select: Select,
    ) -> CreateAs:
        return CreateAs(
            locate(meta), name, is_table, properties or (), select, bool(replaces), bool(exists)
        )

    def build_create_pump(
        self,
        meta: Meta,
        replaces: bool | None,
        pump: Name,
        target: Name,
        columns: tuple[str, ...] | None,
        select: Select,
    ) -> InsertSelect:
        return InsertSelect(locate(meta), target, columns or (), select, pump, bool(replaces))

    def build_insert_select(
        self,
        meta: Meta,
        target: Name,
        columns: tuple[str, ...] | None,
        properties: tuple[Property, ...] | None,
        select: Select,
    ) -> InsertSelect:
        name = None
        for one in properties or ():
            if one.name != "query_id":
                raise SqlError(
                    f"INSERT INTO has the property query_id, not {one.name}", one.location
                )
            name = str(one.value.value)
        return InsertSelect(locate(meta), target, columns or (), select, name)

    def build_insert_values(
        self, meta: Meta, target: Name, columns: tuple[str, ...] | None, *values: Expression
    ) -> InsertValues:
        if columns and len(columns) != len(values):
            raise SqlError(f"{len(columns)} columns, but {len(values)} values", locate(meta))
        return InsertValues(locate(meta), target, columns or (), values)

    def build_query_statement(self, meta: Meta, select: Select) -> Query:
        return Query(locate(meta), select)

    def build_drop(
        self, meta: Meta, _is_table: bool, exists: bool | None, name: Name, _delete: bool | None
    ) -> Drop:
        return Drop(locate(meta), name, bool(exists))

    def build_set_property(self, meta: Meta, name: Token, value: Token) -> SetProperty:
        return SetProperty(locate(meta), unquote(name), unquote(value))

    def build_unset_property(self, meta: Meta, name: Token) -> SetProperty:
        return SetProperty(locate(meta), unquote(name), None)

    def build_show(self, meta: Meta, what: Token, extended: Token | None) -> Show:
        return Show(locate(meta), what.upper(), extended is not None)

    def build_describe(self, meta: Meta, name: Name, extended: Token | None = None) -> Describe:
        return Describe(locate(meta), name, is_extended=extended is not None)

    build_explain = build_describe

    def build_describe_function(self, meta: Meta, name: Name) -> Describe:
        return Describe(locate(meta), name, is_function=True)

    def build_explain_select(self, meta: Meta, select: Select) -> Explain:
        return Explain(locate(meta), Query(locate(meta), select))

    def build_terminate(self, meta: Meta, name: Name) -> Terminate:
        return Terminate(locate(meta), name)

    def build_or_replace(self, _meta: Meta) -> bool:
        return True

    build_if_not_exists = build_if_exists = build_delete_topic = build_or_replace

    def build_relation_kind(self, _meta: Meta, *words: Token | None) -> bool:
        return tokens(*words).endswith("TABLE")

    def build_name_list(self, _meta: Meta, *names: Name) -> tuple[str, ...]:
        return names

    def build_column_declaration(
        self, _meta: Meta, name: Name, type_: SqlType, key: str | None
    ) -> ColumnDeclaration:
        return ColumnDeclaration(name, type_, key or "", name.location)

    def build_column_key(self, _meta: Meta, *words: Token) -> str:
        words_ = tokens(*words)
        return "" if words_ == "NOT NULL" else words_

    def build_property(self, meta: Meta, name: Token, value: Literal) -> Property:
        text = unquote(name) if name[0] in "'`\"" else str(name)
        return Property(text.lower(), value, locate(meta))

    def build_negative_integer(self, meta: Meta, token: Token) -> Literal:
        return Literal(-number(token, "a number", locate(meta), _LARGEST_BIGINT), BIGINT)

    def build_with_clause(self, _meta: Meta, *properties: Property | None) -> tuple[Property, ...]:
        return tuple(one for one in properties if one is not None)

    # Queries.

    def build_select(
        self, meta: Meta, _stream: Token | None, distinct: Token | None, *parts: Any
    ) -> Select:
        *items, clauses = parts
        frames: dict[str, Frame] = clauses.pop("frames", {})
        items = [with_frames(item, frames) for item in items]
        clauses["joins"] = tuple(
            replace(join, relation=over_named(join, frames)) for join in clauses["joins"]
        )
        inner, source = (
            clauses["source"] if isinstance(clauses["source"], tuple) else (None, clauses["source"])
        )
        clauses["source"] = source
        select = Select(
            tuple(items), distinct=distinct is not None, location=locate(meta), **clauses
        )
        return select if inner is None else inline(select, inner)

    def build_subselect(
        self, meta: Meta, select: Select, alias: Name | None
    ) -> tuple[Select, RelationName]:
        return select, RelationName("", alias or "", locate(meta))

    def build_frame_of_stagger(
        self, meta: Meta, partition: tuple[Expression, ...] | None, interval: Interval
    ) -> Stagger:
        if not interval.duration_ms:
            raise SqlError("a window's RANGE is longer than 0", interval.location)
        return Stagger(partition or (), interval.duration_ms, locate(meta))

    def build_windowed_by(self, meta: Meta, kind: Token, stagger: Stagger) -> Stagger:
        if kind.upper() != "STAGGER":
            raise SqlError(f"WINDOWED BY STAGGER, not {kind}", locate(meta))
        return replace(stagger, location=locate(meta))

    def build_named_windows(self, _meta: Meta, *frames: tuple[str, Frame]) -> dict[str, Frame]:
        return dict(frames)

    def build_named_window(self, _meta: Meta, name: Name, frame: Frame) -> tuple[str, Frame]:
        return name.lower(), frame

    def build_from_clause(
        self, _meta: Meta, source: RelationName | tuple[Select, RelationName], *rest: Any
    ) -> dict[str, Any]:
        joins = tuple(part for part in rest if isinstance(part, Join))
        names = (
            "window",
            "where",
            "stagger",
            "group_by",
            "partition_by",
            "having",
            "emit",
            "limit",
            "frames",
        )
        clauses = dict(zip(names, rest[len(joins) :], strict=True))
        present = {name: value for name, value in clauses.items() if value is not None}
        return {"source": source, "joins": joins, **present}

    def build_select_expression(
        self, meta: Meta, expression: Expression, alias: Name | None
    ) -> SelectItem:
        return SelectItem(expression, alias, None, locate(meta))

    def build_select_all(self, meta: Meta) -> SelectItem:
        return SelectItem(None, None, None, locate(meta))

    def build_select_all_of(self, meta: Meta, relation: Name) -> SelectItem:
        return SelectItem(None, None, relation, locate(meta))

    def build_select_fields(self, meta: Meta, of: Expression) -> SelectItem:
        return SelectItem(of, None, None, locate(meta), has_all_fields=True)

    def build_relation(
        self,
        meta: Meta,
        name: Name,
        over: Frame | None,
        match: MatchRecognize | None,
        alias: Name | None,
    ) -> RelationName:
        return RelationName(name, alias or name, locate(meta), over, match)

    # Row patterns.

    def build_match_recognize(self, meta: Meta, *parts: Any) -> MatchRecognize:
        partition, order, measures, _rows, skip, pattern, within_ms, grace_ms, defines = parts
        return MatchRecognize(
            partition or (),
            order,
            measures,
            skip or "PAST LAST ROW",
            pattern,
            within_ms,
            grace_ms,
            defines or (),
            locate(meta),
        )

    def build_match_order(self, _meta: Meta, expression: Expression) -> Expression:
        return expression

    def build_measures(self, _meta: Meta, *measures: SelectItem) -> tuple[SelectItem, ...]:
        return measures

    def build_measure(self, meta: Meta, expression: Expression, alias: Name) -> SelectItem:
        return SelectItem(expression, alias, None, locate(meta))

    def build_rows_per_match(self, meta: Meta, *words: Token) -> None:
        if tokens(*words) != "ONE ROW PER MATCH":
            raise SqlError(
                f"{tokens(*words)}: a match is one row here; COLLECT_LIST(A.x) in MEASURES has its rows' values",
                locate(meta),
            )

    def build_after_match(self, _meta: Meta, skip: str) -> str:
        return skip

    def build_skip_to(self, meta: Meta, *words: Token | None) -> str:
        skip = tokens(*words)
        if skip not in ("PAST LAST ROW", "TO NEXT ROW"):
            raise SqlError(
                f"AFTER MATCH SKIP {skip} could begin at the same row for ever: PAST LAST ROW, or TO NEXT ROW",
                locate(meta),
            )
        return skip

    def build_match_within(self, _meta: Meta, duration: int | Interval) -> int:
        return duration.duration_ms if isinstance(duration, Interval) else duration

    def build_definitions(
        self, _meta: Meta, *definitions: tuple[str, Expression]
    ) -> tuple[tuple[str, Expression], ...]:
        return definitions

    def build_definition(
        self, _meta: Meta, name: Name, condition: Expression
    ) -> tuple[str, Expression]:
        return name.upper(), condition

    def build_row_pattern(self, _meta: Meta, *ways: tuple[Any, ...]) -> tuple[Any, ...]:
        return ways[0] if len(ways) == 1 else ("alt", *ways)

    def build_row_sequence(self, _meta: Meta, *rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return rows[0] if len(rows) == 1 else ("seq", *rows)

    def build_row_primary(self, _meta: Meta, row: Name | tuple[Any, ...]) -> tuple[Any, ...]:
        return row if isinstance(row, tuple) else ("row", row.upper())

    def build_repeated_row(
        self, _meta: Meta, row: tuple[Any, ...], times: tuple[int, int, bool] | None
    ) -> tuple[Any, ...]:
        return row if times is None else ("repeat", row, *times)

    def build_quantifier(self, meta: Meta, *words: Token | None) -> tuple[int, int, bool]:
        present = [str(word) for word in words if word is not None]
        is_greedy = len(present) == 1 or present[-1] != "?"
        symbol, location = present[0], locate(meta)
        if symbol != "{":
            return {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[symbol] + (is_greedy,)
        least, comma, most = "".join(present[1 : present.index("}")]).partition(",")
        count = number(least or "0", "a quantifier", location, MOST_STEPS)
        limit = (
            number(most, "a quantifier", location, MOST_STEPS) if most else -1 if comma else count
        )
        if limit == 0 or 0 < limit < count:
            raise SqlError("a quantifier {n,m} has an m of at least 1 and of at least n", location)
        return count, limit, is_greedy

    def build_join(
        self,
        meta: Meta,
        kind: str | None,
        relation: RelationName,
        within: tuple[int, int, int | None] | None,
        on: Expression,
    ) -> Join:
        before, after, grace = within or (None, None, None)
        return Join(kind or "INNER", relation, on, before, after, grace, locate(meta))

    def build_join_kind(self, _meta: Meta, *words: Token | None) -> str:
        # Of Kinesis Analytics' guide: an OUTER JOIN has the rows of both sides.
        return tokens(*words).removesuffix(" OUTER").replace("OUTER", "FULL")

    def build_within(self, _meta: Meta, *durations: int | None) -> tuple[int, int, int | None]:
        *bounds, grace_ms = durations
        return bounds[0] or 0, bounds[-1] or 0, grace_ms

    def build_grace(self, _meta: Meta, duration_ms: int) -> int:
        return duration_ms

    def build_window(self, meta: Meta, window: Window) -> Window:
        return Window(
            window.kind,
            window.size_ms,
            window.advance_ms,
            window.grace_ms,
            window.retention_ms,
            locate(meta),
        )

    def build_tumbling(self, _meta: Meta, size_ms: int, *options: tuple[str, int]) -> Window:
        return _window("TUMBLING", size_ms, None, options)

    def build_hopping(
        self, _meta: Meta, size_ms: int, advance_ms: int, *options: tuple[str, int]
    ) -> Window:
        return _window("HOPPING", size_ms, advance_ms, options)

    def build_session(self, _meta: Meta, gap_ms: int, *options: tuple[str, int]) -> Window:
        return _window("SESSION", gap_ms, None, options)

    def build_retention(self, _meta: Meta, duration_ms: int) -> tuple[str, int]:
        return "retention_ms", duration_ms

    def build_grace_period(self, _meta: Meta, duration_ms: int) -> tuple[str, int]:
        return "grace_ms", duration_ms

    def build_where(self, _meta: Meta, expression: Expression) -> Expression:
        return expression

    build_having = build_where

    build_partition_by = ExpressionBuilder.build_expressions

    def build_group_by(
        self, _meta: Meta, expressions: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        return expressions

    def build_emit(self, _meta: Meta, word: Token) -> str:
        return word.upper()

    def build_limit(self, meta: Meta, count: Token) -> int:
        return number(count, "LIMIT", locate(meta), _LARGEST_INT)


def _window(
    kind: str, size_ms: int, advance_ms: int | None, options: tuple[tuple[str, int], ...]
) -> Window:
    values = dict(options)
    return Window(kind, size_ms, advance_ms, values.get("grace_ms"), values.get("retention_ms"))
