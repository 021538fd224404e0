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
from headrace.services.athena.statements import Statement, StatementRefused, read_name, to_duckdb

# It warns of each statement that it keeps as text.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse(text: str, database: str, parameters: Sequence[str] = ()) -> Statement:
    """Parse one statement. Raises StatementRefused."""
    text = _bind(text, list(parameters))
    words = ddl.Words(text.strip().rstrip(";"))
    if words.skip("DESCRIBE") or words.skip("DESC"):
        return ddl.parse_describe(words, database)
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
    if isinstance(tree, exp.Query | exp.Values):
        return _query(tree, database)
    verb = text.split(None, 1)[0].upper()
    raise StatementRefused(f"NOT_SUPPORTED: headrace does not run {verb} in Athena")


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


def _parse_command(_tree: Any, text: str, database: str) -> Statement:
    words = ddl.Words(text)
    if words.skip("MSCK REPAIR", "TABLE"):  # one word to sqlglot
        table = words.table(database)
        words.end()
        return Statement("repair", "DDL", "MSCK_REPAIR_TABLE", table)
    if words.skip("SHOW"):
        return ddl.parse_show(words, database)
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
    added = ddl.find_added_partitions(words, database)
    if added is not None:
        return added
    verb = text.split(None, 1)[0].upper()
    raise StatementRefused(f"NOT_SUPPORTED: headrace does not run {verb} in Athena")


def _parse_unload(words: ddl.Words, database: str) -> Statement:
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
    options["format"] = str(options.get("format", "")).upper()
    return Statement("unload", "DML", "UNLOAD", sql=query.sql, tables=query.tables, options=options)
