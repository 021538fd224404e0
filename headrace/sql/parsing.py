"""Reads SQL text: statements as values, or an error with its line and column."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Of lark, whose errors have no types.
from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Tree, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from headrace.sql.building import Builder
from headrace.sql.errors import Place, SqlError
from headrace.sql.statements import (
    Statement,
)

MOST_BYTES = 250_000
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
    r"^\s*(?:DEFINE\s+(\w+)\s*=\s*'((?:[^']|'')*)'|UNDEFINE\s+(\w+))\s*;",
    re.IGNORECASE | re.MULTILINE,
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
    builder = Builder()
    values: dict[int, Any] = {}
    for part in tree.iter_subtrees():
        children = [
            values[id(child)] if isinstance(child, Tree) else child for child in part.children
        ]
        values[id(part)] = getattr(builder, f"build_{part.data}")(part.meta, *children)
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
    words = sorted(
        {_WORDS.get(str(name), str(name)) for name in names if not name.startswith("__")}
    )
    return f"; expected {', '.join(words)}" if 0 < len(words) <= 8 else ""


@cache
def _parser() -> Lark:
    """Return the parser, which takes 0.25 s to make."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start="script", propagate_positions=True)
