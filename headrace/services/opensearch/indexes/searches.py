"""Searches of OpenSearch's REST API: `_search`, `_count`, `_msearch` and the pages of scrolls."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.services.opensearch.indexes.answer_bytes import AnswerBytes
from headrace.services.opensearch.indexes.errors import (
    SearchError,
    bad_argument,
    not_supported,
    not_valid,
    unreadable,
)
from headrace.services.opensearch.indexes.names import NameOptions, Names
from headrace.services.opensearch.indexes.rest_parts import error_body, object_of, source_filter
from headrace.services.opensearch.indexes.scrolls import Scrolls
from headrace.services.opensearch.indexes.searching import Searcher
from headrace.services.opensearch.indexes.store import Store

# The members of a header of `_msearch` that have no effect here.
_HARMLESS = frozenset(
    {"preference", "expand_wildcards", "request_cache", "ccs_minimize_roundtrips"}
)


class SearchApi:
    """Answers searches. Thread-safe, as the store is. Empty names mean all indexes."""

    def __init__(self, store: Store, names: Names, scrolls: Scrolls, clock: Clock) -> None:
        self._searcher = Searcher(store.database)
        self._names = names
        self._scrolls = scrolls
        self._clock = clock

    def count(
        self, domain: str, names: str, body: Mapping[str, Any], options: NameOptions
    ) -> dict[str, Any]:
        """Return the answer of `_count`. Raises SearchError."""
        indexes = self._names.find_matching(domain, names or "_all", options)
        count = self._searcher.count(indexes, body, self._clock.now_ms())
        return {"count": count, "_shards": _shards(len(indexes))}

    def search(
        self,
        domain: str,
        names: str,
        body: Mapping[str, Any],
        query: Mapping[str, str],
        size: AnswerBytes | None = None,
    ) -> dict[str, Any]:
        """Return the answer of `_search` with its parameters `query`. Raises SearchError."""
        body = {**body, **_members_in(query)}
        indexes = self._names.find_matching(domain, names or "_all", NameOptions.of(query))
        if "scroll" in query:
            match = self._scrolls.start(domain, indexes, body, query["scroll"])
        else:
            match = self._searcher.search(indexes, body, self._clock.now_ms(), size)
        return _answer(len(indexes), match)

    def next_page(self, domain: str, scroll_id: str, keep_alive: str) -> dict[str, Any]:
        """Return a scroll's next page. Raises SearchError."""
        return _answer(*self._scrolls.next_page(domain, scroll_id, keep_alive))

    def search_many(self, domain: str, default: str, body: bytes) -> dict[str, Any]:
        """Return the answer of `_msearch`. Raises SearchError for a malformed body; a search's error is in its answer.

        All answers together are bounded as one: searches behind the bound answer that error.
        """
        if body and not body.endswith(b"\n"):
            raise bad_argument("The msearch request must be terminated by a newline [\\n]")
        lines = body.split(b"\n")[:-1]
        if not any(line.strip() for line in lines):
            raise not_valid("no requests added")
        size = AnswerBytes()
        answers: list[dict[str, Any]] = []
        for head, source in zip_longest(lines[::2], lines[1::2], fillvalue=b""):
            header = object_of(head)
            search = object_of(source)
            try:
                size.add()
                answer = self._one_of_many(domain, default, header, search, size)
                answers.append({**answer, "status": 200})
            except SearchError as error:
                answers.append({"error": error_body(error), "status": error.status})
        return {"took": 0, "responses": answers}

    def _one_of_many(
        self,
        domain: str,
        default: str,
        header: Mapping[str, Any],
        body: Mapping[str, Any],
        size: AnswerBytes,
    ) -> dict[str, Any]:
        query: dict[str, str] = {}
        names = default
        for name, value in header.items():
            if name in ("index", "indices"):
                names = _join(value) or default
            elif name in ("ignore_unavailable", "allow_no_indices"):
                query[name] = str(value).lower()
            elif name == "search_type" and value != "query_then_fetch":
                raise not_supported(f"the search type [{value}]")
            elif name not in _HARMLESS and name != "search_type":
                raise bad_argument(f"key [{name}] is not supported in the metadata section")
        return self.search(domain, names, body, query, size)


def _join(value: Any) -> str:
    names = cast("list[Any]", value) if isinstance(value, list) else [value]
    if any(not isinstance(name, str) for name in names):
        raise unreadable("[index] is text or a list of it")
    return ",".join(names)


def _members_in(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of a search's body that are parameters. Raises SearchError."""
    members: dict[str, Any] = {}
    for name in ("size", "from"):
        if name in query:
            if not query[name].isdecimal() or len(query[name]) > 9:
                raise unreadable(f"Failed to parse int parameter [{name}]")
            members[name] = int(query[name])
    if "q" in query:
        raise not_supported("the parameter [q]")
    if "sort" in query:
        members["sort"] = [_sort_of(part) for part in query["sort"].split(",")]
    if "_source" in query:
        members["_source"] = source_filter(query)
    return members


def _sort_of(text: str) -> Any:
    """Return a part of the parameter `sort`, `field` or `field:asc`, in the form of a search's body."""
    name, colon, order = text.rpartition(":")
    return {name: order} if colon else text


def _shards(count: int) -> dict[str, int]:
    return {"total": count, "successful": count, "skipped": 0, "failed": 0}


def _answer(indexes: int, result: Mapping[str, Any]) -> dict[str, Any]:
    head = {"_scroll_id": result["_scroll_id"]} if "_scroll_id" in result else {}
    return {**head, "took": 0, "timed_out": False, "_shards": _shards(indexes), **result}
