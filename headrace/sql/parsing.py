"""Reads SQL text: statements as values, or an error with its line and column."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from lark import Token
from lark.tree import Meta

from headrace.sql.building import Builder
from headrace.sql.building_expressions import locate
from headrace.sql.functions import NOT_BUILT
from headrace.sql.statements import (
    Statement,
)
from headrace.sql.types import Location, SqlError, SqlType, near

MOST_BYTES = 1_000_000
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
    "QMARK": "'?'",
    "VBAR": "'|'",
    "LBRACE": "'{'",
    "DOT": "'.'",
    "STREAM_WORD": "STREAM",
}
# Kinesis Analytics' functions of a CURSOR, or whose result has columns, stand where nothing else does.
_REFUSED_CALL = re.compile(rf"\b({'|'.join(NOT_BUILT)})\s*\(", re.IGNORECASE)
# Statements of KSQL that are none here, by the word at which the grammar ends.
_REFUSED = {
    "ASSERT": "`headrace sql test` compares a query's rows",
    "HEADER": "a record of Kinesis has no headers: put what they say into its data",
    "CONNECTOR": "Kafka Connect is no part of Kinesis; `headrace cdc` and Firehose carry rows in and out",
    "PAUSE": "end the job; it goes on from its checkpoint",
    "RESUME": "start the job; it goes on from its checkpoint",
    "PRINT": "`headrace tail` prints a stream",
    "RUN": "`headrace sql run` runs a file",
}
# What other SQL has, by the word that does not belong and the one after it ('' is any).
_OF_OTHERS = {
    (
        "ORDER",
        "",
    ): "ORDER BY: a stream's rows come as they arrive; TOPK has a window's largest values",
    (
        "ORDER",
        "BY",
    ): "ORDER BY: a stream's rows come as they arrive; TOPK has a window's largest values",
    ("UNION", "SELECT"): "UNION: INSERT INTO one stream .. SELECT, once for each query",
    ("UNION", "ALL"): "UNION: INSERT INTO one stream .. SELECT, once for each query",
    (
        "LANGUAGE",
        "",
    ): "LANGUAGE: a function is Python's: CREATE FUNCTION .. RETURNS .. FROM 'file.py'",
    ("DELETE", ""): "DELETE: a record without data deletes a table's row of its key",
    ("UPDATE", ""): "UPDATE: a record replaces a table's row of its key",
    ("(", "SELECT"): "a query in a condition or a value: join its stream or table in FROM",
}
# Words that are no names without quotes, so that a mistake is said where it is.
_RESERVED = frozenset({"SELECT", "FROM", "WHERE"})
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DEFINITION = re.compile(
    r"(?:^|(?<=;))\s*(?:DEFINE\s+(\w+)\s*=\s*'((?:[^']|'')*)'|UNDEFINE\s+(\w+))\s*;",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass
class Words:
    """What texts before have named, by lower-case name: DEFINE's variables, and CREATE TYPE's types."""

    variables: dict[str, str] = field(default_factory=dict[str, str])
    types: dict[str, SqlType] = field(default_factory=dict[str, SqlType])


def parse(text: str, words: Words | None = None) -> tuple[Statement, ...]:
    """Return the statements of `text`; raises SqlError at the first that is none.

    DEFINE's variables are put in first, as KSQL does it: `${name}` is text. `words` are those of the texts before,
    and get this one's unless it has a mistake.
    """
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise SqlError(f"a text has at most {MOST_BYTES:,} bytes", Location())
    words = words or Words()
    variables, types = dict(words.variables), dict(words.types)
    statements = _Parse(_put_variables_in(text, variables), types).run()
    words.variables, words.types = variables, types
    return statements


class Parts(NamedTuple):
    """A text's statements that end with `;`, and what follows the last of them."""

    statements: list[str]
    # Empty if there is nothing but blanks and comments.
    rest: str
    # Whether a quote or a comment of the rest has no end.
    is_open: bool


def split(text: str) -> Parts:
    """Divide a text at each `;` that no quote and no comment holds; the parts keep their places in it."""
    statements: list[str] = []
    lexer = _tables().lexer
    start = position = 0
    has_tokens = False
    while position < len(text):
        match = lexer.match(text, position)
        if match is None and (text[position] in "'\"`" or text.startswith("/*", position)):
            return Parts(statements, _in_place(text, start, len(text)), is_open=True)
        position = match.end() if match else position + 1
        if match and match.group() == ";":
            statements.append(_in_place(text, start, position))
            start, has_tokens = position, False
        elif match is None or match.lastgroup != "IGNORED":
            has_tokens = True
    return Parts(statements, _in_place(text, start, len(text)) if has_tokens else "", is_open=False)


def _in_place(text: str, start: int, end: int) -> str:
    before = _locate(text, start)
    return "\n" * (before.line - 1) + " " * (before.column - 1) + text[start:end]


def _put_variables_in(text: str, variables: dict[str, str]) -> str:
    """Return `text` with its variables' values; a DEFINE becomes blanks, so that places stay right."""
    if not (_VARIABLE.search(text) or _DEFINITION.search(text)):
        return text
    parts: list[str] = []
    position = 0
    for definition in [*_DEFINITION.finditer(text), None]:
        end = definition.start() if definition else len(text)
        value = partial(_value, variables=variables, text=text, position=position)
        parts.append(_VARIABLE.sub(value, text[position:end]))
        if sum(map(len, parts)) > MOST_BYTES:
            raise SqlError(
                f"a text has at most {MOST_BYTES:,} bytes, variables included", Location()
            )
        if definition is None:
            break
        position = definition.end()
        parts.append(re.sub(r"[^\n]", " ", definition.group()))
        if definition[3]:
            variables.pop(definition[3].lower(), None)
        else:
            variables[definition[1].lower()] = definition[2].replace("''", "'")
    return "".join(parts)


def _value(use: re.Match[str], variables: dict[str, str], text: str, position: int) -> str:
    """Return the value of a variable that is used in the text from `position` on; raises SqlError."""
    try:
        return variables[use[1].lower()]
    except KeyError:
        location = _locate(text, position + use.start())
        raise SqlError(
            f"no variable {use[1]!r}{near(use[1], list(variables))}; DEFINE {use[1]} = '..'; makes one",
            location,
        ) from None


def _locate(text: str, offset: int) -> Location:
    before = text[:offset]
    return Location(before.count("\n") + 1, offset - before.rfind("\n"))


class _Rule(NamedTuple):
    """What to do when a rule's parts are complete."""

    origin: str
    size: int
    # For each value that the builder gets: the part's index (-1: an option that is not there), and whether the part is
    # a list of values, as a repetition's.
    parts: tuple[tuple[int, bool], ...]
    # The builder's method; empty for a repetition, whose value is the list of its parts.
    method: str
    # Whether it hands on its only value as it is.
    passes: bool


class _Tables(NamedTuple):
    """The grammar as tables: for each state what follows a terminal or rule: a state, or a rule to reduce."""

    states: list[dict[str, int | _Rule]]
    first: int
    last: int
    words: dict[str, tuple[str, ...]]
    symbols: dict[str, str]
    lexer: re.Pattern[str]


@cache
def _tables() -> _Tables:
    """Return the tables of grammar.lark, which `scripts.sql_grammar` has made of it: lark takes a second to make them.

    Lark's own loop over them is ten times slower than ours. Its contextual lexer's rule is kept: a word is a keyword
    where the grammar takes it, and else a name.
    """
    text = Path(__file__).with_name("grammar.json").read_text(encoding="utf-8")
    written: dict[str, Any] = json.loads(text)
    names: list[str] = written["names"]
    rules = [
        _Rule(
            names[origin],
            size,
            tuple((index, bool(is_list)) for index, is_list in parts),
            method,
            bool(passes),
        )
        for origin, size, method, passes, *parts in written["rules"]
    ]
    # A state is pairs of a name's index and what follows: a state, or below zero a rule.
    states: list[dict[str, int | _Rule]] = [
        {
            names[name]: to if to >= 0 else rules[-1 - to]
            for name, to in zip(row[::2], row[1::2], strict=True)
        }
        for row in written["states"]
    ]
    words = {word: tuple(terminals) for word, terminals in written["words"].items()}
    lexer = re.compile(written["lexer"])
    return _Tables(states, written["first"], written["last"], words, written["symbols"], lexer)


class _Parse:
    """One text's parse. The stack is a list: no depth of a text recurses."""

    def __init__(self, text: str, types: dict[str, SqlType]) -> None:
        self._text = text
        self._tables = _tables()
        self._builder = Builder(types)
        # The last two tokens' kinds, texts and where they begin.
        self._last: list[tuple[str, str, int]] = [("", "", 0), ("", "", 0)]
        self._states: list[int] = [self._tables.first]
        # Each part's value, and where its text begins.
        self._values: list[tuple[Any, Meta]] = []

    def run(self, until: int | None = None) -> tuple[Statement, ...]:
        """Return the statements; with `until` stop before the token that begins there."""
        states, values = self._states, self._values
        actions_of = self._tables.states
        for kind, text, meta in self._tokens():
            if self._last[1][2] == until:
                return ()
            while True:
                action = actions_of[states[-1]].get(kind)
                if action is None:
                    raise self._explain(kind, text, meta)
                if isinstance(action, int):
                    states.append(action)
                    values.append((text, meta))
                    break
                if action.passes and action.size == 1:
                    # Most reductions: a column is a product, a sum, a comparison .. of one part.
                    states[-1] = cast(int, actions_of[states[-2]][action.origin])
                    continue
                self._reduce(action, meta)
                if kind == "$END" and states[-1] == self._tables.last:
                    return values[-1][0]
        raise AssertionError

    def _reduce(self, rule: _Rule, following: Meta) -> None:
        """Put a rule's value in the place of its parts."""
        states, values, size = self._states, self._values, rule.size
        if not rule.passes:
            parts = values[len(values) - size :]
            meta = parts[0][1] if parts else following
            arguments: list[Any] = []
            for index, is_list in rule.parts:
                if is_list and not arguments:
                    # A repetition's list grows; a copy for each element would be quadratic.
                    arguments = parts[index][0]
                elif is_list:
                    arguments.extend(parts[index][0])
                else:
                    arguments.append(None if index < 0 else parts[index][0])
            value = (
                getattr(self._builder, rule.method)(meta, *arguments) if rule.method else arguments
            )
            if size:
                del values[-size:]
            values.append((value, meta))
        else:
            parts = values[-size:]
            del values[-size:]
            values.append((parts[rule.parts[0][0]][0], parts[0][1]))
        if size:
            del states[-size:]
        states.append(cast(int, self._tables.states[states[-1]][rule.origin]))

    def _tokens(self) -> Iterator[tuple[str, Any, Meta]]:
        """Return each token's terminal, text and place; a word's terminal depends on the state at that moment."""
        tables, text = self._tables, self._text
        line, line_start, position = 1, 0, 0
        while position < len(text):
            match = tables.lexer.match(text, position)
            if match is None:
                raise self._unknown(position)
            kind, start, value = match.lastgroup or "", position, match.group()
            position = match.end()
            if kind != "IGNORED":
                meta = _meta(line, start - line_start + 1)
                if kind == "NAME":
                    kind = self._word(value)
                elif kind == "SYMBOL":
                    kind = tables.symbols[value]
                self._last = [self._last[1], (kind, value, start)]
                yield kind, Token(kind, value), meta
            if "\n" in value:
                line += value.count("\n")
                line_start = start + value.rindex("\n") + 1
        yield "$END", "", _meta(line, len(text) - line_start + 1)

    def _word(self, word: str) -> str:
        keywords = self._tables.words.get(word.upper())
        if keywords is None:
            return "NAME"
        actions = self._tables.states[self._states[-1]]
        if word.upper() in _RESERVED:
            return next((one for one in keywords if one in actions), keywords[0])
        return next((one for one in (*keywords, "NAME") if one in actions), keywords[0])

    def _unknown(self, position: int) -> SqlError:
        character, location = self._text[position], _locate(self._text, position)
        if character in "'\"`":
            return SqlError(f"the {character} that begins here has no end", location)
        return SqlError(f"{character!r} does not belong here", location)

    def _explain(self, kind: str, text: str, meta: Meta) -> SqlError:
        names = [name for name in self._tables.states[self._states[-1]] if self._accepts(name)]
        words = sorted({_WORDS.get(name, name) for name in names if not name.startswith("__")})
        expected = f"; expected {', '.join(words)}" if 0 < len(words) <= 8 else ""
        location = locate(meta)
        before, word, start = self._last[0]
        if text.upper() == "WITH" and word in ("", ";"):
            return SqlError("WITH: name the query by CREATE STREAM .. AS, and read it", location)
        if (text.upper(), "") in _OF_OTHERS:
            return SqlError(_OF_OTHERS[text.upper(), ""], location)
        if (word.upper(), text.upper()) in _OF_OTHERS:
            return SqlError(_OF_OTHERS[word.upper(), text.upper()], _locate(self._text, start))
        if (word.upper(), text.upper()) == ("SELECT", "FROM"):
            return SqlError("SELECT names nothing before FROM; * is every column", location)
        if text.upper() in _REFUSED and "NAME" not in names:
            return SqlError(f"{text.upper()}: {_REFUSED[text.upper()]}", location)
        if text == "." or (word.upper(), text) == ("TABLE", "("):
            call = _REFUSED_CALL.search(self._text, start)
            if call is not None and ";" not in self._text[start : call.start()]:
                name = call[1].upper()
                at = _locate(self._text, call.start())
                return SqlError(f"{name} is refused: {NOT_BUILT[name]}", at)
        if kind == "$END":
            return SqlError(f"the statement ends too early{expected}", location)
        if kind == "NAME":
            meant = self._meant(text, names)
            if meant:
                return SqlError(
                    f"{text[:60]!r} does not belong here; did you mean {meant}?", location
                )
        if before == "NAME":
            # A word that is none of SQL's may have been taken for a name, such as an alias.
            other = _Parse(self._text, dict(self._builder.types))
            other.run(start)
            states = self._tables.states[other._states[-1]]
            meant = self._meant(word, [name for name in states if other._accepts(name)])
            if meant:
                return SqlError(
                    f"{word[:60]!r} does not belong here; did you mean {meant}?",
                    _locate(self._text, start),
                )
        return SqlError(f"{text[:60]!r} does not belong here{expected}", location)

    def _meant(self, text: str, names: Sequence[str]) -> str:
        """Return the word of SQL, of the terminals `names`, that is nearly `text`; an empty text for none."""
        words = {
            word for word, terminals in self._tables.words.items() if set(terminals) & set(names)
        }
        close = difflib.get_close_matches(text.upper(), sorted(words), 1, 0.75)
        return close[0] if close and close[0] != text.upper() else ""

    def _accepts(self, kind: str) -> bool:
        """Return whether a token of this kind can follow."""
        if kind != "$END" and not kind.isupper():
            return False
        states = list(self._states)
        while True:
            action = self._tables.states[states[-1]].get(kind)
            if action is None or isinstance(action, int):
                return action is not None
            if action.size:
                del states[-action.size :]
            states.append(cast(int, self._tables.states[states[-1]][action.origin]))
            if states[-1] == self._tables.last:
                return kind == "$END"


def _meta(line: int, column: int) -> Meta:
    meta = Meta()
    meta.empty, meta.line, meta.column = False, line, column
    return meta
