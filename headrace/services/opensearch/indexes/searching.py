"""Runs searches and counts: turns a request's body into hits, sort values and aggregations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.opensearch.indexes.aggregations import Aggregator, Select
from headrace.services.opensearch.indexes.errors import (
    SearchError,
    not_supported,
    too_many_clauses,
    unreadable,
)
from headrace.services.opensearch.indexes.fields import flat
from headrace.services.opensearch.indexes.query import Argument, Compiler, Condition
from headrace.services.opensearch.indexes.store import Index, Store
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


class Searcher:
    """Answers searches on a store. Thread-safe, as the store is."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
            try:
                return self._store.database.query_within(
                    compiler.prefix + sql, (*compiler.table_arguments, *arguments), MOST_CPU_S
                )
            except QueryTooLong as error:
                # OpenSearch's search backpressure (documented); the figure is headrace's.
                reason = f"cancelled task with reason: cpu usage exceeded [{MOST_CPU_S:g}s]"
                raise SearchError(400, "task_cancelled_exception", reason) from error
            except QueryTooComplex as error:
                raise too_many_clauses(f"headrace's own index cannot run it: {error}") from error

        return select

    def search(
        self, indexes: Sequence[Index], body: Mapping[str, Any], now_ms: int
    ) -> dict[str, Any]:
        """Return `hits` and `aggregations`. Raises SearchError."""
        for name in body:
            if name not in _KNOWN:
                raise not_supported(f"[{name}] of a search")
        size, start = _whole(body, "size", 10), _whole(body, "from", 0)
        if size + start > MOST_WINDOW:
            raise SearchError(
                400,
                "illegal_argument_exception",
                "Result window is too large, from + size must be less than or equal to:"
                f" [{MOST_WINDOW}] but was [{size + start}].",
            )
        types = types_of(indexes)
        compiler = Compiler(types, now_ms)
        condition = compiler.compile(body.get("query", {"match_all": {}}))
        where, arguments = _where(indexes, condition)
        select = self._select(compiler)
        total = int(select(f"SELECT COUNT(*) FROM docs d WHERE {where}", arguments)[0][0])
        answer: dict[str, Any] = {
            "hits": {
                "total": {"value": total, "relation": "eq"},
                **self._hits(indexes, body, condition, compiler, size, start),
            }
        }
        asked = body.get("aggs", body.get("aggregations"))
        if asked is not None:
            answer["aggregations"] = Aggregator(select, types).run(asked, where, arguments)
        return answer

    def _hits(
        self,
        indexes: Sequence[Index],
        body: Mapping[str, Any],
        condition: Condition,
        compiler: Compiler,
        size: int,
        start: int,
    ) -> dict[str, Any]:
        where, arguments = _where(indexes, condition)
        sorts = _sorts(body.get("sort"), compiler.types)
        columns = "".join(f", {sort.sql}" for sort in sorts)
        # The score is the fourth column; the sort values follow it.
        places = [4 if s.kind.startswith("_score") else 5 + n for n, s in enumerate(sorts)]
        order = [
            f"{place} {'DESC' if sort.kind.endswith('desc') else 'ASC'} NULLS LAST"
            for place, sort in zip(places, sorts, strict=True)
        ] or ["4 DESC"]
        rows = self._select(compiler)(
            f"SELECT d.idx, d.doc_id, d.source, {condition.score}{columns} FROM docs d{compiler.joins} WHERE {where}"
            f" ORDER BY {', '.join(order)}, d.id LIMIT ? OFFSET ?",
            (
                *condition.score_arguments,
                *(a for sort in sorts for a in sort.arguments),
                *arguments,
                size,
                start,
            ),
        )
        names = {index.id: index.name for index in indexes}
        scored = not sorts or any(sort.kind.startswith("_score") for sort in sorts)
        hits: list[dict[str, Any]] = []
        for idx, doc_id, source, score, *keys in rows:
            hit: dict[str, Any] = {
                "_index": names[int(idx)],
                "_id": doc_id,
                "_score": float(score) if scored else None,
            }
            picked = _picked(json.loads(source), body.get("_source", True))
            if picked is not None:
                hit["_source"] = picked
            if sorts:
                hit["sort"] = [
                    _sort_value(score if s.kind.startswith("_score") else k, s.kind)
                    for k, s in zip(keys, sorts, strict=True)
                ]
            hits.append(hit)
        best = max((hit["_score"] for hit in hits), default=None) if scored else None
        return {"max_score": best, "hits": hits}


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


def _sorts(given: Any, types: Mapping[str, str]) -> list[_Sort]:
    if given is None:
        return []
    asked = cast("list[Any]", given) if isinstance(given, list) else [given]
    if len(asked) > MOST_SORTS:
        raise not_supported(f"a sort by more than {MOST_SORTS} fields")
    return [_sort(one, types) for one in asked]


def _sort(one: Any, types: Mapping[str, str]) -> _Sort:
    if isinstance(one, str):
        name, options = one, {}
    elif isinstance(one, dict) and len(cast("dict[str, Any]", one)) == 1:
        ((name, given),) = cast("dict[str, Any]", one).items()
        options = cast("dict[str, Any]", given) if isinstance(given, dict) else {"order": given}
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


def _picked(source: dict[str, Any], asked: Any) -> dict[str, Any] | None:
    """Return the members of a document that `_source` selects."""
    if asked is True:
        return source
    if asked is False:
        return None
    names = [asked] if isinstance(asked, str) else asked
    if not isinstance(names, list) or any(
        not isinstance(n, str) or "*" in n for n in cast("list[Any]", names)
    ):
        raise not_supported("_source with patterns, or with includes and excludes")
    picked: dict[str, Any] = {}
    for name in cast("list[str]", names):
        _pick(source, picked, name.split("."))
    return picked


def _pick(source: dict[str, Any], picked: dict[str, Any], path: list[str]) -> None:
    head, *rest = path
    if head not in source:
        return
    value = source[head]
    if not rest:
        picked[head] = value
    elif isinstance(value, dict):
        inner = picked.setdefault(head, {})
        _pick(cast("dict[str, Any]", value), inner, rest)
