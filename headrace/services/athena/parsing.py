"""Reads a query's text as Athena does: queries by sqlglot's dialects of Athena and DuckDB, DDL as plain values.

It runs in the child process of `headrace.services.athena.child` alone, which bounds its time and memory.
Source: docs.aws.amazon.com/athena/latest/ug/ddl-sql-reference.html, dml-queries-functions-operators.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from headrace.services.athena import ddl
from headrace.services.athena.statements import (
    PATH,
    WITH_PATH,
    Statement,
    StatementRefused,
    read_name,
    to_duckdb,
)
from headrace.services.athena.words import (
    Words,
    find_added_partitions,
    parse_alter_words,
    parse_describe,
    parse_show,
)

# It warns of each statement that it keeps as text.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse(text: str, database: str, parameters: Sequence[str] = ()) -> Statement:
    """Parse one statement. Raises StatementRefused."""
    words = Words(text.strip().rstrip(";"))
    if words.peek() in ("PREPARE", "EXECUTE", "DEALLOCATE"):
        return _parse_prepared(words)
    text = _bind(text, list(parameters))
    words = Words(text.strip().rstrip(";"))
    if words.skip("DESCRIBE") or words.skip("DESC"):
        return parse_describe(words, database)
    try:
        trees = [tree for tree in sqlglot.parse(text, read="athena") if tree is not None]
    except (ParseError, TokenError) as error:
        raise StatementRefused(_syntax(error)) from error
    if len(trees) != 1:
        raise StatementRefused(f"Only one sql statement is allowed. Got: {text}")
    tree = trees[0]
    if isinstance(tree, exp.Command):
        return _parse_command(tree, text.strip().rstrip(";").strip(), database)
    if isinstance(tree, exp.Create):
        return ddl.parse_create(tree, database)
    if isinstance(tree, exp.Drop):
        return ddl.parse_drop(tree, database)
    if isinstance(tree, exp.Alter):
        return ddl.parse_alter(tree, text, database)
    if isinstance(tree, exp.Insert):
        return _parse_insert(tree, database)
    if isinstance(tree, exp.Delete | exp.Update | exp.Merge):
        return _parse_change(tree, database)
    if isinstance(tree, exp.Query | exp.Values):
        return _query(tree, database)
    verb = text.split(None, 1)[0].upper()
    raise StatementRefused(f"NOT_SUPPORTED: headrace does not run {verb} in Athena")


def _parse_prepared(words: Words) -> Statement:
    """Parse what `headrace.services.athena.patches` has done; an EXECUTE that comes here names nothing."""
    verb = words.take().upper()
    if verb == "EXECUTE":
        raise StatementRefused(f"NOT_FOUND: Prepared statement not found: {words.take()}")
    return Statement("nothing", "DDL", verb)


def _syntax(error: Any) -> str:
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    if first.get("line") is None:
        return f"SYNTAX_ERROR: {str(error).splitlines()[0][:500]}"
    near = first.get("highlight") or ""
    return f"line {first['line']}:{first['col']}: mismatched input '{near}'. {first.get('description', '')}"


def _query(tree: Any, database: str) -> Statement:
    sql, tables = to_duckdb(tree, database)
    return Statement("query", "DML", "SELECT", sql=sql, tables=tables)


def _bind(text: str, parameters: list[str]) -> str:
    """Put the execution's parameters in the place of the question marks, in order."""
    try:
        places = [
            token
            for token in sqlglot.tokenize(f"x {text}", read="athena")
            if token.token_type is TokenType.PLACEHOLDER
        ]
    except TokenError as error:
        raise StatementRefused(_syntax(error)) from error
    if len(places) != len(parameters):
        raise StatementRefused(
            f"INVALID_PARAMETER_USAGE: Incorrect number of parameters: expected {len(places)} but found "
            f"{len(parameters)}"
        )
    parts: list[str] = []
    end = 0
    for place, value in zip(places, parameters, strict=True):
        parts += [text[end : place.start - 2], _parameter(value)]
        end = place.end - 1
    return "".join([*parts, text[end:]])


def _parameter(text: str) -> str:
    """Return a parameter as an expression of SQL; what is none is a string."""
    try:
        (tree,) = sqlglot.parse(text, read="athena")
    except (SqlglotError, ValueError):
        tree = None
    if tree is None or isinstance(tree, exp.Query | exp.Command | exp.DDL):
        return exp.Literal.string(text).sql("athena")
    return f"({text}\n)"  # a comment in it ends with its line


def _parse_insert(tree: Any, database: str) -> Statement:
    if tree.args.get("overwrite"):
        raise StatementRefused("NOT_SUPPORTED: INSERT OVERWRITE is not supported by Athena")
    target = tree.this
    columns = (
        [column.name.lower() for column in target.expressions]
        if isinstance(target, exp.Schema)
        else []
    )
    sql, tables = to_duckdb(tree.expression, database)
    return Statement(
        "insert", "DML", "INSERT", read_name(target, database), sql, tables, {"columns": columns}
    )


# In the place of the columns of an INSERT of MERGE that names none: all columns of the table, which are known later.
ALL_COLUMNS = "$columns"


def _parse_change(tree: Any, database: str) -> Statement:
    """Parse DELETE, UPDATE or MERGE: as DuckDB's, on the table that has the rows' files beside them."""
    kind = type(tree).__name__.lower()
    target, options = tree.this, dict[str, Any]()
    _check_change(tree, kind)
    name = read_name(target, database)
    if kind == "merge":
        matched = _check_matches(tree)
        if matched is not None:
            options["twice"], _ = to_duckdb(matched, database)
            hidden = exp.to_identifier(name[1] + WITH_PATH, quoted=True).sql("duckdb")
            shown = exp.to_identifier(name[1], quoted=True).sql("duckdb")
            # Its first table is the target: only the rows of a table, not of a view, have numbers.
            options["twice"] = options["twice"].replace(f".{shown} AS", f".{hidden} AS", 1)
        for when in tree.args["whens"].expressions:
            if isinstance(when.args["then"], exp.Insert) and when.args["then"].this is None:
                columns = [exp.to_identifier(ALL_COLUMNS, quoted=True)]
                when.args["then"].set("this", exp.Tuple(expressions=columns))
    returned = '"$path"' if kind != "merge" else '"$path", merge_action'
    _, tables = to_duckdb(tree, database)
    target.set("this", exp.to_identifier(name[1] + WITH_PATH, quoted=True))
    sql = f"{tree.sql('duckdb')} RETURNING {returned}"
    return Statement(kind, "DML", kind.upper(), name, sql, tables, options)


# What DuckDB has beside Trino's grammar of DELETE, UPDATE and MERGE (documented: trino.io/docs/current/sql.html).
_OF_DUCKDB = ("with_", "from_", "returning", "order", "limit", "tables", "using_cond")


def _check_change(tree: Any, kind: str) -> None:
    """Refuse what DuckDB would run and Athena does not. Raises StatementRefused."""
    parts = {"this", "db", "catalog", *(("alias",) if kind == "merge" else ())}
    target, more = tree.this, (*_OF_DUCKDB, *(("using",) if kind == "delete" else ()))
    if not isinstance(target, exp.Table) or any(target.args[n] for n in target.args.keys() - parts):
        raise StatementRefused(f"SYNTAX_ERROR: {kind.upper()} takes one table by its name")
    foreign = next((name for name in more if tree.args.get(name)), "").strip("_").upper()
    if foreign:
        raise StatementRefused(f"SYNTAX_ERROR: {kind.upper()} has no {foreign} in Athena")
    if kind == "update":
        _check_assigned(tree.expressions)
    for when in tree.args["whens"].expressions if kind == "merge" else ():
        then = when.args["then"]
        if when.args.get("source") or (isinstance(then, exp.Var) and then.name.upper() != "DELETE"):
            raise StatementRefused(
                "SYNTAX_ERROR: MERGE takes WHEN MATCHED THEN UPDATE or DELETE, and WHEN NOT MATCHED THEN INSERT"
            )
        if isinstance(then, exp.Update):
            _check_assigned(then.expressions)
        elif isinstance(then, exp.Insert) and then.this is not None:
            _check_columns(then.this.expressions)


def _check_assigned(assignments: Sequence[Any]) -> None:
    if not all(isinstance(one, exp.EQ) and isinstance(one.this, exp.Column) for one in assignments):
        raise StatementRefused("SYNTAX_ERROR: SET takes column = expression")
    _check_columns([one.this for one in assignments])


def _check_columns(columns: Sequence[Any]) -> None:
    if not columns:
        raise StatementRefused("SYNTAX_ERROR: INSERT of MERGE takes columns by their names")
    # By the pseudo column a change finds the files that it rewrites.
    if any(one.name.lower() == PATH for one in columns):
        raise StatementRefused(
            f"COLUMN_NOT_FOUND: Column name does not exist in target table: {PATH}"
        )


def _check_matches(tree: Any) -> Any:
    """Return a query for a row of MERGE's table that more than one row of the source changes; None if none can be."""
    conditions = [
        when.args.get("condition") or exp.true()
        for when in tree.args["whens"].expressions
        if when.args.get("matched")
    ]
    if not conditions:
        return None
    target = tree.this
    alias = exp.to_identifier(target.alias or target.name.lower(), quoted=True)
    number = exp.column("rowid", table=alias)
    both = exp.and_(tree.args["on"].copy(), exp.or_(*(one.copy() for one in conditions)))
    return (
        exp.select(exp.alias_(exp.Literal.number(1), "_col0"))
        .from_(target.copy())
        .join(tree.args["using"].copy(), on=both)
        .group_by(number)
        .having("count(*) > 1")
        .limit(1)
    )


def _parse_care(words: Words, database: str) -> Statement | None:
    """Parse OPTIMIZE or VACUUM; None for another statement."""
    if words.skip("VACUUM"):
        table = words.table(database)
        words.end()
        return Statement("vacuum", "DML", "VACUUM", table)
    if not words.skip("OPTIMIZE"):
        return None
    table = words.table(database)
    for word in ("REWRITE", "DATA", "USING", "BIN_PACK"):
        if not words.skip(word):
            raise StatementRefused(
                "SYNTAX_ERROR: OPTIMIZE takes a table's name and REWRITE DATA USING BIN_PACK"
            )
    names = exp.table_(table[1], db=table[0] or None, quoted=True)
    tree: Any = exp.select('"$path"').distinct().from_(names)
    if words.peek():
        (where,) = sqlglot.parse(f"SELECT 1 {words.rest()}", read="athena")
        if not words.skip("WHERE") or where is None or where.args.get("where") is None:
            raise StatementRefused("SYNTAX_ERROR: what follows BIN_PACK is WHERE and a predicate")
        tree.set("where", where.args["where"])
    sql, tables = to_duckdb(tree, database)
    return Statement("optimize", "DML", "OPTIMIZE", table, sql, tables)


def _parse_command(_tree: Any, text: str, database: str) -> Statement:
    words = Words(text)
    if words.skip("MSCK REPAIR", "TABLE"):  # one word to sqlglot
        table = words.table(database)
        words.end()
        return Statement("repair", "DDL", "MSCK_REPAIR_TABLE", table)
    if words.skip("SHOW"):
        return parse_show(words, database)
    if words.skip("EXPLAIN"):
        if words.peek() == "ANALYZE":
            raise StatementRefused("NOT_SUPPORTED: headrace does not run EXPLAIN ANALYZE in Athena")
        if words.peek() == "(":
            raise StatementRefused("NOT_SUPPORTED: headrace runs EXPLAIN without options")
        query = parse(words.rest(), database)
        if query.action != "query":
            raise StatementRefused("NOT_SUPPORTED: headrace explains queries alone")
        return Statement("explain", "UTILITY", "EXPLAIN", sql=query.sql, tables=query.tables)
    if words.skip("UNLOAD"):
        return _parse_unload(words, database)
    found = _parse_care(words, database) or find_added_partitions(words, database)
    return found or parse_alter_words(Words(text), database)


# Documented: unload.html; `compression_level` has no effect.
_OF_UNLOAD = {
    "location", "format", "partitioned_by", "compression", "compression_level", "field_delimiter",
}  # fmt: skip


def _parse_unload(words: Words, database: str) -> Statement:
    if words.take() != "(":
        raise StatementRefused("line 1:8: mismatched input. Expecting: '('")
    begin, depth = words.at, 1
    while depth:
        token = words.take()
        depth += {"(": 1, ")": -1}.get(token, 0)
    start, end = words.tokens[begin].start, words.tokens[words.at - 1].start
    query = parse(words.text[start - 2 : end - 2], database)
    if query.action != "query":
        raise StatementRefused("SYNTAX_ERROR: UNLOAD takes a query")
    if not words.skip("TO"):
        raise StatementRefused("SYNTAX_ERROR: UNLOAD needs TO 's3://...'")
    options: dict[str, Any] = {"location": words.take()}
    if not words.skip("WITH", "("):
        raise StatementRefused("SYNTAX_ERROR: UNLOAD needs WITH (format = ...)")
    while not words.skip(")"):
        name = words.take().lower()
        words.skip("=")
        if words.skip("ARRAY", "["):
            items: list[str] = []
            while not words.skip("]"):
                items.append(words.take())
                words.skip(",")
            options[name] = [item.lower() for item in items]
        else:
            options[name] = words.take()
        words.skip(",")
    words.end()
    ddl.refuse_unknown(options, _OF_UNLOAD, "UNLOAD")
    options["format"] = str(options.get("format", "")).upper()
    return Statement("unload", "DML", "UNLOAD", sql=query.sql, tables=query.tables, options=options)
