"""Runs searches and counts: turns a request's body into hits, sort values and aggregations."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, cast

from headrace.services.opensearch.aggregations import Aggregator, Select
from headrace.services.opensearch.fields import (
    SearchError,
    bad_argument,
    flat,
    not_supported,
    too_many_clauses,
    unreadable,
)
from headrace.services.opensearch.query import Argument, Compiler, Condition
from headrace.services.opensearch.rest_parts import AnswerBytes
from headrace.services.opensearch.store import Index
from headrace.store.database import QueryTooComplex, QueryTooLong

MOST_WINDOW = 10_000
# A search holds the lock of all indexes.
MOST_CPU_S = 3.0
# OpenSearch takes more, but no honest search has so many.
MOST_SORTS = 32
_KNOWN = frozenset(
    {
        "query",
        "size",
        "from",
        "sort",
        "aggs",
        "aggregations",
        "_source",
        "track_total_hits",
        "track_scores",
    }
)


@dataclass(frozen=True, slots=True)
class _Sort:
    sql: str
    arguments: tuple[Argument, ...]
    kind: str


def types_of(indexes: Sequence[Index]) -> dict[str, str]:
    """Return the type of each field of some indexes; if a field has several types, the first index's."""
    types: dict[str, str] = {}
    for index in indexes:
        for path, definition in flat(index.mapping.get("properties") or {}):
            types.setdefault(path, str(definition["type"]))
    return types


class Source(Protocol):
    """Where searches read: the database, or a snapshot of it."""

    def query(self, sql: str, args: Sequence[Argument] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT of headrace's own."""
        ...

    def rows_within(
        self, sql: str, args: Sequence[Argument], most_cpu_s: float
    ) -> Generator[tuple[Any, ...]]:
        """Yield the rows of a SELECT that a client wrote. Raises QueryTooLong, QueryTooComplex."""
        ...


def rows_of(source: Source, sql: str, args: Sequence[Argument]) -> Generator[tuple[Any, ...]]:
    """Yield the rows of a search, within `MOST_CPU_S` of processor time. Raises SearchError."""
    try:
        yield from source.rows_within(sql, args, MOST_CPU_S)
    except QueryTooLong as error:
        # OpenSearch's search backpressure (documented); the figure is headrace's.
        reason = f"cancelled task with reason: cpu usage exceeded [{MOST_CPU_S:g}s]"
        raise SearchError(400, "task_cancelled_exception", reason) from error
    except QueryTooComplex as error:
        raise too_many_clauses(f"headrace's own index cannot run it: {error}") from error


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled search. `sql` with `arguments` selects all its hits, best first."""

    sql: str
    arguments: tuple[Argument, ...]
    where: str
    where_arguments: tuple[Argument, ...]
    select: Select
    types: Mapping[str, str]
    names: Mapping[int, str]
    sorts: Sequence[_Sort]
    body: Mapping[str, Any]

    def page(
        self, rows: Generator[tuple[Any, ...]], size: int, bytes_: AnswerBytes | None = None
    ) -> dict[str, Any]:
        """Take the next `size` rows; return `max_score` and `hits`. Raises SearchError if they are too large."""
        bytes_ = bytes_ or AnswerBytes()
        is_scored = not self.sorts or any(s.kind.startswith("_score") for s in self.sorts)
        hits: list[dict[str, Any]] = []
        for idx, doc_id, source, score, *keys in islice(rows, size):
            bytes_.add(source)
            hit: dict[str, Any] = {
                "_index": self.names[int(idx)],
                "_id": doc_id,
                "_score": float(score) if is_scored else None,
            }
            part = select_source(json.loads(source), self.body.get("_source", True))
            if part is not None:
                hit["_source"] = part
            if self.sorts:
                hit["sort"] = [
                    _sort_value(score if s.kind.startswith("_score") else k, s.kind)
                    for k, s in zip(keys, self.sorts, strict=True)
                ]
            hits.append(hit)
        best = max((hit["_score"] for hit in hits), default=None) if is_scored else None
        return {"max_score": best, "hits": hits}


class Searcher:
    """Answers searches on a database or a snapshot. As thread-safe as that is."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def count(self, indexes: Sequence[Index], body: Mapping[str, Any], now_ms: int) -> int:
        """Return how many documents match a query. Raises SearchError."""
        for name in body:
            if name != "query":
                raise unreadable(f"request does not support [{name}]")
        compiler = Compiler(types_of(indexes), now_ms)
        condition = compiler.compile(body.get("query", {"match_all": {}}))
        where, arguments = _where(indexes, condition)
        select = self._select(compiler)
        return int(select(f"SELECT COUNT(*) FROM docs d WHERE {where}", arguments)[0][0])

    def _select(self, compiler: Compiler) -> Select:
        def select(sql: str, arguments: Sequence[Argument]) -> list[tuple[Any, ...]]:
            whole = (*compiler.table_arguments, *arguments)
            return list(rows_of(self._source, compiler.prefix + sql, whole))

        return select

    def search(
        self,
        indexes: Sequence[Index],
        body: Mapping[str, Any],
        now_ms: int,
        bytes_: AnswerBytes | None = None,
    ) -> dict[str, Any]:
        """Return `hits` and `aggregations`. Raises SearchError; `bytes_` counts the documents of several searches."""
        size, start = window_of(body)
        if size + start > MOST_WINDOW:
            raise bad_argument(
                "Result window is too large, from + size must be less than or equal to:"
                f" [{MOST_WINDOW}] but was [{size + start}].",
            )
        plan = self.plan(indexes, body, now_ms)
        totals = self.totals(plan)
        whole = (*plan.arguments, size, start)
        rows = rows_of(self._source, f"{plan.sql} LIMIT ? OFFSET ?", whole)
        with closing(rows):
            page = plan.page(rows, size, bytes_)
        return {**totals, "hits": {**totals["hits"], **page}}

    def totals(self, plan: Plan) -> dict[str, Any]:
        """Return a search's `hits` without the hits themselves, and its `aggregations`. Raises SearchError."""
        counted = plan.select(
            f"SELECT COUNT(*) FROM docs d WHERE {plan.where}", plan.where_arguments
        )
        answer: dict[str, Any] = {
            "hits": {"total": {"value": int(counted[0][0]), "relation": "eq"}}
        }
        asked = plan.body.get("aggs", plan.body.get("aggregations"))
        if asked is not None:
            aggregator = Aggregator(plan.select, plan.types)
            answer["aggregations"] = aggregator.run(asked, plan.where, plan.where_arguments)
        return answer

    def plan(self, indexes: Sequence[Index], body: Mapping[str, Any], now_ms: int) -> Plan:
        """Compile a search; its window (`size`, `from`) is the caller's. Raises SearchError."""
        for name in body:
            if name not in _KNOWN:
                raise not_supported(f"[{name}] of a search")
        types = types_of(indexes)
        compiler = Compiler(types, now_ms)
        condition = compiler.compile(body.get("query", {"match_all": {}}))
        where, arguments = _where(indexes, condition)
        sorts = _sorts(body.get("sort"), compiler.types)
        columns = "".join(f", {sort.sql}" for sort in sorts)
        # The score is the fourth column; the sort values follow it.
        places = [4 if s.kind.startswith("_score") else 5 + n for n, s in enumerate(sorts)]
        order = [
            f"{column} {'DESC' if sort.kind.endswith('desc') else 'ASC'} NULLS LAST"
            for column, sort in zip(places, sorts, strict=True)
        ] or ["4 DESC"]
        sql = (
            f"{compiler.prefix}SELECT d.idx, d.doc_id, d.source, {condition.score}{columns}"
            f" FROM docs d{compiler.joins} WHERE {where} ORDER BY {', '.join(order)}, d.id"
        )
        sort_arguments = tuple(a for sort in sorts for a in sort.arguments)
        names = {index.id: index.name for index in indexes}
        return Plan(
            sql,
            (*compiler.table_arguments, *condition.score_arguments, *sort_arguments, *arguments),
            where,
            arguments,
            self._select(compiler),
            types,
            names,
            sorts,
            body,
        )


def window_of(body: Mapping[str, Any]) -> tuple[int, int]:
    """Return a search's `size` and `from`. Raises SearchError."""
    return _whole(body, "size", 10), _whole(body, "from", 0)


def _where(indexes: Sequence[Index], condition: Condition) -> tuple[str, tuple[Argument, ...]]:
    if not indexes:
        return "0", ()
    marks = ", ".join("?" * len(indexes))
    ids = tuple(index.id for index in indexes)
    return f"d.idx IN ({marks}) AND ({condition.sql})", (*ids, *condition.arguments)


def _whole(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SearchError(
            400,
            "illegal_argument_exception",
            f"[{name}] parameter cannot be negative or no number, found [{value}]",
        )
    return value


def _sorts(sort: Any, types: Mapping[str, str]) -> list[_Sort]:
    if sort is None:
        return []
    asked = cast("list[Any]", sort) if isinstance(sort, list) else [sort]
    if len(asked) > MOST_SORTS:
        raise not_supported(f"a sort by more than {MOST_SORTS} fields")
    return [_sort(one, types) for one in asked]


def _sort(one: Any, types: Mapping[str, str]) -> _Sort:
    if isinstance(one, str):
        name, options = one, {}
    elif isinstance(one, dict) and len(cast("dict[str, Any]", one)) == 1:
        ((name, setting),) = cast("dict[str, Any]", one).items()
        options = (
            cast("dict[str, Any]", setting) if isinstance(setting, dict) else {"order": setting}
        )
    else:
        raise unreadable("malformed sort format, expected a field name or an object with one")
    for option in options:
        if option not in ("order", "unmapped_type", "format"):
            raise not_supported(f"[{option}] of a sort")
    way = str(options.get("order") or ("desc" if name == "_score" else "asc"))
    if way not in ("asc", "desc"):
        raise unreadable(f"Unknown SortOrder [{way}]")
    if name == "_score":
        return _Sort("NULL", (), f"_score {way}")
    if name in ("_doc", "_id"):
        return _Sort("d.id" if name == "_doc" else "d.doc_id", (), f"keyword {way}")
    kind = types.get(name)
    if kind == "text":
        raise SearchError(
            400,
            "illegal_argument_exception",
            "Text fields are not optimised for operations that require per-document field data like aggregations and"
            f" sorting. Please use a keyword field instead, such as [{name}.keyword].",
        )
    if kind is None and "unmapped_type" not in options:
        raise SearchError(
            400, "query_shard_exception", f"No mapping found for [{name}] in order to sort on"
        )
    column = "txt" if kind == "keyword" else "num"
    pick = "MIN" if way == "asc" else "MAX"
    sql = f"(SELECT {pick}({column}) FROM vals WHERE doc = d.id AND field = ?)"
    return _Sort(sql, (name,), f"{kind} {way}")


def _sort_value(key: Any, kind: str) -> Any:
    word = kind.partition(" ")[0]
    if key is None:
        return None
    return int(key) if word in ("long", "integer", "short", "byte", "date", "boolean") else key


def select_source(source: dict[str, Any], asked: Any) -> dict[str, Any] | None:
    """Return the members of a document that `_source` selects; None if it selects no source. Raises SearchError."""
    if asked is True:
        return source
    if asked is False:
        return None
    names = [asked] if isinstance(asked, str) else asked
    if not isinstance(names, list) or any(
        not isinstance(n, str) or "*" in n for n in cast("list[Any]", names)
    ):
        raise not_supported("_source with patterns, or with includes and excludes")
    part: dict[str, Any] = {}
    for name in cast("list[str]", names):
        _pick(source, part, name.split("."))
    return part


def _pick(source: dict[str, Any], part: dict[str, Any], path: list[str]) -> None:
    head, *rest = path
    if head not in source:
        return
    value = source[head]
    if not rest:
        part[head] = value
    elif isinstance(value, dict):
        inner = part.setdefault(head, {})
        _pick(cast("dict[str, Any]", value), inner, rest)
