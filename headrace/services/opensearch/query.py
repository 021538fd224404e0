"""Compiles OpenSearch's JSON queries to SQL conditions on the table of documents (`d`).

It knows match, match_all, match_none, match_phrase, term, terms, range, exists, prefix, ids and bool, and refuses all
others by name. Only `match` and `match_phrase` score by words (BM25 of FTS5, over all indexes of the file); other
scoring clauses give 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.opensearch.fields import (
    NUMBERS,
    SearchError,
    date_math_ms,
    date_ms,
    not_supported,
    number_of,
    too_many_clauses,
    unreadable,
)

Argument = str | int | float | bytes | None
# Documented: OpenSearch's defaults of indices.query.bool.max_clause_count, .max_nested_depth and index.max_terms_count.
MOST_CLAUSES = 1024
MOST_DEPTH = 30
MOST_TERMS = 65_536
# How many clauses have a table: SQLite joins at most 64, and each takes 200 KB. Others look at each document.
_MOST_TABLES = 48
_MOST_MARKS = 16
_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition with its arguments, and the score of a document that matches it."""

    sql: str
    arguments: tuple[Argument, ...] = ()
    score: str = "1.0"
    score_arguments: tuple[Argument, ...] = ()


@dataclass(slots=True)
class Compiler:
    """Compiles the queries of one search.

    Attributes:
        types: the type of each field in the searched indexes.
        now_ms: the value of `now` in dates.
        tables: the common table expressions of the conditions: `b0 AS (...), m0 AS (...)`.
        table_arguments: the arguments of `tables`.
    """

    types: Mapping[str, str]
    now_ms: int
    tables: list[str] = field(default_factory=list[str])
    table_arguments: list[Argument] = field(default_factory=list[Argument])
    clauses: int = 0
    _kinds: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self._kinds = {
            "match_all": self._match_all,
            "match_none": self._match_none,
            "match": self._match,
            "match_phrase": self._match_phrase,
            "term": self._term,
            "terms": self._terms,
            "range": self._range,
            "exists": self._exists,
            "prefix": self._prefix,
            "ids": self._ids,
        }

    @property
    def prefix(self) -> str:
        """The WITH clause for a SELECT with the conditions."""
        return f"WITH {', '.join(self.tables)} " if self.tables else ""

    @property
    def joins(self) -> str:
        """The joins for a SELECT of the scores."""
        return "".join(f" LEFT JOIN m{n} ON m{n}.doc = d.id" for n in range(len(self.tables)))

    def compile(self, query: Any, depth: int = 0) -> Condition:
        """Return a query's condition. Raises SearchError."""
        self._count(1)
        if depth > MOST_DEPTH:
            raise too_many_clauses(f"The query nests more than {MOST_DEPTH} levels deep")
        if not isinstance(query, dict) or len(cast("dict[str, Any]", query)) != 1:
            raise unreadable("[query] malformed query, expected one kind of query in an object")
        ((kind, body),) = cast("dict[str, Any]", query).items()
        if not isinstance(body, dict):
            raise unreadable(f"[{kind}] query malformed, no start_object after query name")
        if kind == "bool":
            return self._bool(cast("dict[str, Any]", body), depth)
        if kind not in self._kinds:
            raise not_supported(f"the query [{kind}]")
        return self._kinds[kind](cast("dict[str, Any]", body))

    def _count(self, clauses: int) -> None:
        self.clauses += clauses
        if self.clauses > MOST_CLAUSES:
            raise too_many_clauses(f"maxClauseCount is set to {MOST_CLAUSES}")

    # --- kinds --------------------------------------------------------------------------------

    def _match_all(self, body: dict[str, Any]) -> Condition:
        return Condition("1")

    def _match_none(self, body: dict[str, Any]) -> Condition:
        return Condition("0")

    def _bool(self, body: dict[str, Any], depth: int) -> Condition:
        known = {"must", "filter", "should", "must_not", "minimum_should_match", "boost"}
        if set(body) - known:
            raise unreadable(f"[bool] query does not support [{min(set(body) - known)}]")
        parts = {
            name: [self.compile(query, depth + 1) for query in _as_list(body.get(name))]
            for name in ("must", "filter", "should", "must_not")
        }
        needed = [*parts["must"], *parts["filter"]]
        sql = [c.sql for c in needed]
        arguments = [a for c in needed for a in c.arguments]
        should = parts["should"]
        least = _least(body.get("minimum_should_match"), len(should), has_needed=bool(needed))
        if least:
            sql.append(f"{_tree([c.sql for c in should], '+') or '0'} >= {least}")
            arguments += [a for c in should for a in c.arguments]
        for condition in parts["must_not"]:
            sql.append(f"NOT ({condition.sql})")
            arguments += condition.arguments
        scores = [f"({c.score})" for c in parts["must"]]
        score_arguments = [a for c in parts["must"] for a in c.score_arguments]
        for c in should:
            scores.append(f"(CASE WHEN {c.sql} THEN {c.score} ELSE 0 END)")
            score_arguments += [*c.arguments, *c.score_arguments]
        return Condition(
            _tree(sql, "AND") or "1",
            tuple(arguments),
            _tree(scores, "+") or ("0.0" if body else "1.0"),
            tuple(score_arguments),
        )

    def _match(self, body: dict[str, Any]) -> Condition:
        name, options = _one_field("match", body, "query")
        _only("match", options, {"query", "operator"})
        operator = str(options.get("operator", "or")).lower()
        if self.types.get(name) != "text":
            return self._term({name: options["query"]})
        words = _words(options["query"])
        if not words:
            return Condition("0")
        return self._of_words(name, (" AND " if operator == "and" else " OR ").join(words))

    def _match_phrase(self, body: dict[str, Any]) -> Condition:
        name, options = _one_field("match_phrase", body, "query")
        _only("match_phrase", options, {"query"})
        if self.types.get(name) != "text":
            return self._term({name: options["query"]})
        words = [word.strip('"') for word in _words(options["query"])]
        return self._of_words(name, f'"{" ".join(words)}"') if words else Condition("0")

    def _of_words(self, name: str, match: str) -> Condition:
        self._count(match.count(" OR "))
        source = "FROM words JOIN vals v ON v.id = words.rowid WHERE words MATCH ? AND v.field = ?"
        number = len(self.tables)
        if number >= _MOST_TABLES:
            of_document = f"{source} AND v.doc = d.id"
            best = f"SELECT -bm25(words) {of_document} ORDER BY 1 DESC LIMIT 1"
            arguments = (match, name)
            return Condition(
                f"EXISTS (SELECT 1 {of_document})", arguments, f"COALESCE(({best}), 0)", arguments
            )
        # FTS5 allows bm25 only in a query on the FTS table itself, so a materialized table computes the scores first.
        self.tables.append(
            f"b{number} AS MATERIALIZED (SELECT v.doc AS doc, -bm25(words) AS score {source}),"
            f" m{number} AS MATERIALIZED (SELECT doc, MAX(score) AS score FROM b{number} GROUP BY doc)"
        )
        self.table_arguments += [match, name]
        return Condition(
            f"d.id IN (SELECT doc FROM m{number})", score=f"COALESCE(m{number}.score, 0)"
        )

    def _with_value(self, where: str, *arguments: Argument) -> Condition:
        """Return the condition that a document has a value."""
        if self.clauses > _MOST_TABLES:
            sql = f"EXISTS (SELECT 1 FROM vals WHERE doc = d.id AND {where})"
        else:
            sql = f"d.id IN (SELECT doc FROM vals WHERE {where})"
        return Condition(sql, arguments)

    def _term(self, body: dict[str, Any]) -> Condition:
        name, options = _one_field("term", body, "value")
        _only("term", options, {"value", "boost"})
        return self._any_of(name, [options["value"]])

    def _terms(self, body: dict[str, Any]) -> Condition:
        named = {name: value for name, value in body.items() if name != "boost"}
        if len(named) != 1:
            raise unreadable("[terms] query requires a field name and values")
        ((name, values),) = named.items()
        if not isinstance(values, list):
            raise not_supported("terms looked up in another document (terms lookup)")
        return self._any_of(name, cast("list[Any]", values))

    def _any_of(self, name: str, values: Sequence[Any]) -> Condition:
        """Return the condition that a field equals one of these values."""
        if name == "_id":
            return self._ids({"values": values})
        kind = self.types.get(name)
        if kind is None or not values:
            return Condition("0")
        if len(values) > MOST_TERMS:
            raise _too_many_terms(len(values))
        if kind == "text":
            # A term is not analyzed: it matches only if it is one lower-case word, as the analyzer stores words.
            whole = [f'"{v}"' for v in map(_text, values) if v.isalnum() and v == v.lower()]
            return self._of_words(name, " OR ".join(whole)) if whole else Condition("0")
        if kind == "keyword":
            operands: list[Argument] = [_text(value) for value in values]
            column = "txt"
        else:
            operands = [self._number(name, kind, value) for value in values]
            column = "num"
        marks, arguments = _build_value_list(operands)
        return self._with_value(f"field = ? AND {column} IN ({marks})", name, *arguments)

    def _range(self, body: dict[str, Any]) -> Condition:
        name, options = _one_field("range", body, "")
        _only("range", options, {*_OPERATORS, "boost", "format"})
        if options.get("format") not in (None, "strict_date_optional_time", "epoch_millis"):
            raise not_supported(f"the date format [{options['format']}]")
        kind = self.types.get(name)
        if kind is None:
            return Condition("0")
        column = "txt" if kind == "keyword" else "num"
        if kind == "text":
            raise not_supported(f"a range of words (field [{name}]); ask for [{name}.keyword]")
        sql, arguments = [f"field = ? AND {column} IS NOT NULL"], [cast("Argument", name)]
        for operator, sign in _OPERATORS.items():
            if options.get(operator) is None:
                continue
            value = options[operator]
            # `lte` and `gt` round a time up, to the end of its unit.
            up = operator in ("lte", "gt")
            sql.append(f"{column} {sign} ?")
            arguments.append(
                _text(value) if kind == "keyword" else self._number(name, kind, value, up=up)
            )
        return self._with_value(" AND ".join(sql), *arguments)

    def _exists(self, body: dict[str, Any]) -> Condition:
        name = _text(body.get("field", ""))
        where = "(field = ? OR substr(field, 1, ?) = ?)"
        return self._with_value(where, name, len(name) + 1, f"{name}.")

    def _prefix(self, body: dict[str, Any]) -> Condition:
        name, options = _one_field("prefix", body, "value")
        _only("prefix", options, {"value"})
        text = _text(options["value"])
        kind = self.types.get(name)
        if kind == "text" and text.isalnum():
            return self._of_words(name, f'"{text.lower()}"*')
        if kind != "keyword":
            return Condition("0")
        where = "field = ? AND txt >= ? AND substr(txt, 1, ?) = ?"
        return self._with_value(where, name, text, len(text), text)

    def _ids(self, body: dict[str, Any]) -> Condition:
        values = [_text(value) for value in _as_list(body.get("values"))]
        if not values:
            return Condition("0")
        if len(values) > MOST_TERMS:
            raise _too_many_terms(len(values))
        marks, arguments = _build_value_list(values)
        return Condition(f"d.doc_id IN ({marks})", arguments)

    def _number(self, name: str, kind: str, value: Any, *, up: bool = False) -> float:
        if kind == "date" and isinstance(value, str) and date_ms(value) is None:
            moment_ms = date_math_ms(value, self.now_ms, up=up)
            if moment_ms is not None:
                return float(moment_ms)
        if kind in NUMBERS and isinstance(value, float):
            return value  # a query's number is not truncated as a document's is
        return number_of(value, kind, name)


def _tree(parts: Sequence[str], operator: str) -> str:
    """Return parts joined by an operator, as a tree: SQLite takes expressions of up to 1,000 levels."""
    if len(parts) <= 1:
        return f"({parts[0]})" if parts else ""
    middle = len(parts) // 2
    return f"({_tree(parts[:middle], operator)} {operator} {_tree(parts[middle:], operator)})"


def _build_value_list(values: Sequence[Argument]) -> tuple[str, tuple[Argument, ...]]:
    """Return what stands in `IN (...)`, and its arguments; SQLite takes 32,766 of them."""
    if len(values) <= _MOST_MARKS:
        return ", ".join("?" * len(values)), tuple(values)
    return "SELECT value FROM json_each(?)", (json.dumps(values),)


def _too_many_terms(count: int) -> SearchError:
    return SearchError(
        400,
        "illegal_argument_exception",
        f"The number of terms [{count}] used in the Terms Query request has exceeded the allowed maximum of"
        f" [{MOST_TERMS}]. This maximum can be set by changing the [index.max_terms_count] index level setting.",
    )


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _least(minimum: Any, count: int, *, has_needed: bool) -> int:
    if minimum is None:
        return 1 if count and not has_needed else 0
    text = str(minimum)
    if text.endswith("%") and text[:-1].isdecimal():
        return count * min(100, int(text[:-1])) // 100
    if not text.lstrip("-").isdecimal() or len(text) > 9:
        raise not_supported(f"minimum_should_match [{text}]")
    number = int(text)
    return max(0, count + number) if number < 0 else number


def _one_field(kind: str, body: dict[str, Any], short: str) -> tuple[str, dict[str, Any]]:
    """Return a query's field and options; a plain value stands for the option `short`."""
    if len(body) != 1:
        raise unreadable(f"[{kind}] query doesn't support multiple fields, found {sorted(body)}")
    ((name, condition),) = body.items()
    if isinstance(condition, dict):
        options = cast("dict[str, Any]", condition)
    elif short:
        options = {short: condition}
    else:
        raise unreadable(f"[{kind}] query malformed, no start_object after query name")
    if short and short not in options:
        raise unreadable(f"[{kind}] query requires [{short}]")
    return name, options


def _only(kind: str, options: Mapping[str, Any], known: set[str]) -> None:
    for name in options:
        if name not in known:
            raise not_supported(f"[{name}] of the query [{kind}]")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _words(value: Any) -> list[str]:
    """Return a text's words, each quoted for FTS5."""
    spaced = "".join(c if c.isalnum() else " " for c in _text(value))
    return [f'"{word}"' for word in spaced.split()]
