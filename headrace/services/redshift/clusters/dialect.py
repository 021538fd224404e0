"""Translates Redshift's SQL to PostgreSQL's: drops storage attributes, and refuses unsupported statements by name.

Distribution and sort keys, encodings and backups do not change query results. Primary, unique and foreign keys
are not enforced, as in Redshift (docs.aws.amazon.com/redshift/latest/dg/t_Defining_constraints.html), but a primary
key's columns are NOT NULL. Names are folded to lower case, in double quotes too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.clusters.sql import (
    Token,
    drop_spaces,
    find_close,
    join_tokens,
    tokens_of,
)
from headrace.services.redshift.clusters.tables import create_table, refuse, type_of

# Unsupported statements, by their first words.
_NOT_HERE = (
    "unload",
    "create external",
    "create datashare",
    "create model",
    "create library",
    "create function",
    "create or replace function",
    "create procedure",
    "create or replace procedure",
    "create materialized",
    "refresh materialized",
    "alter datashare",
    "alter materialized",
    "analyze compression",
    "copy job",
    "attach",
    "show",
    "call",
)
# Statements that do not change query results.
_WITHOUT_EFFECT = (
    "vacuum",
    "analyze",
    "set enable_",
    "set query_group",
    "set wlm_",
    "set statement_timeout",
)
_PARTS_FIRST = ("dateadd", "datediff", "date_part", "dateadd_", "date_diff", "date_add")
_RENAMED = {"nvl": "coalesce", "listagg": "string_agg"}


def translate(sql: str) -> str:
    """Translate one statement to PostgreSQL's SQL; empty when there is nothing to do. Raises WarehouseError."""
    tokens = _fold(tokens_of(sql))
    words = [token.value for token in drop_spaces(tokens) if token.kind == "word"][:4]
    start = " ".join(words)
    for name in _NOT_HERE:
        if start == name or start.startswith(f"{name} "):
            raise refuse(name.upper())
    if any(start.startswith(name) for name in _WITHOUT_EFFECT):
        return ""
    if words[:1] == ["create"] and "table" in words[1:4]:
        tokens = create_table(tokens)
    elif words[:2] == ["alter", "table"]:
        altered = _alter_table(tokens)
        if altered is None:
            return ""
        tokens = altered
    return join_tokens(_functions(_listagg(_top(_casts(tokens)))))


def _fold(tokens: Sequence[Token]) -> list[Token]:
    return [
        Token("name", token.raw.lower(), token.value.lower()) if token.kind == "name" else token
        for token in tokens
    ]


def _alter_table(tokens: list[Token]) -> list[Token] | None:
    """Translate ALTER TABLE; return None when it does not change query results."""
    found = drop_spaces(tokens)
    words = [token.value for token in found]
    if "append" in words[2:]:
        raise refuse("ALTER TABLE APPEND")
    for name in ("distkey", "diststyle", "sortkey", "encode"):
        if name in words[2:] and "add" not in words[2:]:
            return None
    if "add" not in words:
        return tokens
    at = words.index("add")
    if words[at + 1 : at + 2] and words[at + 1] in ("constraint", "primary", "unique", "foreign"):
        return None
    if words[at + 1 : at + 2] == ["column"]:
        at += 1
    if at + 2 >= len(found):
        return tokens
    made = create_table(tokens_of(f"create table t ({_join_spaced(found[at + 1 :])})"))
    body = drop_spaces(made)
    inner = body[4:-1]
    return tokens_of(f"{_join_spaced(found[: at + 1])} {_join_spaced(inner)}")


def _join_spaced(tokens: Sequence[Token]) -> str:
    return " ".join(token.raw for token in tokens).replace(": :", "::")


def _casts(tokens: list[Token]) -> list[Token]:
    """Translate the types after `::`."""
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        made.append(token)
        at += 1
        is_cast = token.value == ":" and len(made) > 1 and made[-2].value == ":"
        if is_cast and at < len(tokens) and tokens[at].kind == "word":
            rest = tokens[at:]
            taken, text = type_of(rest, is_column=False)
            made += tokens_of(text)
            at += taken
    return made


def _top(tokens: list[Token]) -> list[Token]:
    """Turn `select top n` into `limit n`."""
    found = drop_spaces(tokens)
    if [t.value for t in found[:2]] != ["select", "top"] or len(found) < 3:
        return tokens
    count = found[2]
    skipped = {id(found[1]), id(count)}
    kept = [token for token in tokens if id(token) not in skipped]
    return [*kept, *tokens_of(f" limit {count.raw}")]


def _functions(tokens: list[Token]) -> list[Token]:
    """Rename functions, and quote date parts that are first arguments."""
    made: list[Token] = []
    for at, token in enumerate(tokens):
        if token.kind != "word":
            made.append(token)
            continue
        after = drop_spaces(tokens[at + 1 : at + 6])
        is_call = bool(after) and after[0].value == "("
        if token.value == "sysdate" and not is_call:
            made += tokens_of("headrace.sysdate()")
        elif is_call and token.value in _RENAMED:
            made.append(Token("word", _RENAMED[token.value], _RENAMED[token.value]))
        elif _is_part(made) and after and after[0].value == ",":
            made.append(Token("text", f"'{token.value}'", token.value))
        else:
            made.append(token)
    return made


def _is_part(before: Sequence[Token]) -> bool:
    last = drop_spaces(before[-5:])[-2:]
    return len(last) == 2 and last[1].value == "(" and last[0].value in _PARTS_FIRST


def _listagg(tokens: list[Token]) -> list[Token]:
    """Turn `listagg(a, b) within group (order by c)` into `string_agg(a::text, b order by c)`."""
    at = next((n for n, t in enumerate(tokens) if t.kind == "word" and t.value == "listagg"), None)
    if at is None:
        return tokens
    first = find_close(tokens, at)
    arguments = _arguments(tokens, at, first)
    if arguments[:1] == ["*"] or not 1 <= len(arguments) <= 2:
        raise WarehouseError("SyntaxError", 'ERROR: syntax error at or near "LISTAGG"')
    distinct = arguments[0].strip().lower().startswith("distinct ")
    value = arguments[0].strip()[9:] if distinct else arguments[0]
    separator = arguments[1] if len(arguments) == 2 else "''"
    order, end = "", first
    after = [n for n in range(first + 1, len(tokens)) if tokens[n].kind != "space"][:3]
    if len(after) == 3 and [tokens[n].value for n in after] == ["within", "group", "("]:
        end = find_close(tokens, after[1])
        order = " " + join_tokens(tokens[after[2] + 1 : end])
    begin = "string_agg(distinct " if distinct else "string_agg("
    text = f"{begin}({value})::text, {separator}{order})"
    return [*tokens[:at], *tokens_of(text), *_listagg(tokens[end + 1 :])]


def _arguments(tokens: Sequence[Token], at: int, end: int) -> list[str]:
    begin = next(n for n in range(at, end) if tokens[n].value == "(")
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[begin + 1 : end]:
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        if token.kind == "sign" and token.value == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return [join_tokens(part).strip() for part in found]
