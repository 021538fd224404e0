"""Splits SQL into tokens: enough to find a statement's end and kind, and the words to translate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.ports.warehouses import WarehouseError

_DIGITS = "0123456789"
_OPERATORS = "<>=!|&~^%*/+-@?"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL.

    Attributes:
        kind: `word`, `name` (in double quotes), `text` (in single quotes or dollars), `number`, `sign`, `space`
            (comments too).
        raw: its original text.
        value: a name or a text without quotes; a word in lower case.
    """

    kind: str
    raw: str
    value: str


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens of SQL; an unclosed token extends to the end. The time is linear in the length."""
    tokens: list[Token] = []
    at = 0
    while at < len(sql):
        token = _next(sql, at)
        tokens.append(token)
        at += len(token.raw)
    return tokens


def _next(sql: str, at: int) -> Token:
    char = sql[at]
    if char.isspace() or sql.startswith(("--", "/*"), at):
        raw = _space(sql, at)
        return Token("space", raw, " ")
    if char in "'\"":
        raw, value = _read_quoted(sql, at, char)
        return Token("text" if char == "'" else "name", raw, value)
    if char == "$":
        raw, value = _dollars(sql, at)
        return Token("text" if raw != "$" else "sign", raw, value)
    if char.isalpha() or char in "_#":
        end = at + 1
        while end < len(sql) and (sql[end].isalnum() or sql[end] in "_$"):
            end += 1
        raw = sql[at:end]
        if raw.lower() == "e" and sql.startswith("'", end):
            text, value = _read_quoted(sql, end, "'", escapes=True)
            return Token("text", raw + text, value)
        return Token("word", raw, raw.lower())
    if char in _DIGITS:
        end = at + 1
        while end < len(sql) and (sql[end].isalnum() or sql[end] == "."):
            end += 1
        return Token("number", sql[at:end], sql[at:end])
    end = at + 1
    # An operator of several characters is one token, so that it stays whole.
    while char in _OPERATORS and end < len(sql) and sql[end] in _OPERATORS:
        if sql.startswith(("--", "/*"), end):
            break
        end += 1
    return Token("sign", sql[at:end], sql[at:end])


def _space(sql: str, at: int) -> str:
    if sql.startswith("--", at):
        end = sql.find("\n", at)
        return sql[at:] if end < 0 else sql[at:end]
    if sql.startswith("/*", at):
        end = sql.find("*/", at + 2)
        return sql[at:] if end < 0 else sql[at : end + 2]
    end = at
    while end < len(sql) and sql[end].isspace():
        end += 1
    return sql[at:end]


def _read_quoted(sql: str, at: int, quote: str, *, escapes: bool = False) -> tuple[str, str]:
    parts: list[str] = []
    end = at + 1
    while end < len(sql):
        if escapes and sql[end] == "\\" and end + 1 < len(sql):
            parts.append(sql[end + 1])
            end += 2
        elif sql[end] != quote:
            parts.append(sql[end])
            end += 1
        elif sql.startswith(quote, end + 1):
            parts.append(quote)
            end += 2
        else:
            return sql[at : end + 1], "".join(parts)
    return sql[at:], "".join(parts)


def _dollars(sql: str, at: int) -> tuple[str, str]:
    end = at + 1
    while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
        end += 1
    if end >= len(sql) or sql[end] != "$":
        return "$", "$"
    tag = sql[at : end + 1]
    close = sql.find(tag, end + 1)
    if close < 0:
        return sql[at:], sql[end + 1 :]
    return sql[at : close + len(tag)], sql[end + 1 : close]


def drop_spaces(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without spaces and comments."""
    return [token for token in tokens if token.kind != "space"]


def statements_of(sql: str) -> list[str]:
    """Return the statements between semicolons, without empty ones."""
    statements: list[str] = []
    parts: list[Token] = []
    for token in [*tokens_of(sql), Token("sign", ";", ";")]:
        if token.kind == "sign" and token.value == ";":
            if drop_spaces(parts):
                statements.append("".join(part.raw for part in parts).strip())
            parts = []
        else:
            parts.append(token)
    return statements


def join_tokens(tokens: Sequence[Token]) -> str:
    """Return the SQL of tokens."""
    return "".join(token.raw for token in tokens)


def quote_name(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def find_close(tokens: Sequence[Token], at: int) -> int:
    """Return the place that closes the first parenthesis from `at` on. Raises WarehouseError."""
    depth = 0
    for n in range(at, len(tokens)):
        if tokens[n].kind == "sign":
            depth += (tokens[n].value == "(") - (tokens[n].value == ")")
            if depth == 0 and tokens[n].value == ")":
                return n
    raise WarehouseError("SyntaxError", "ERROR: syntax error at end of input")
