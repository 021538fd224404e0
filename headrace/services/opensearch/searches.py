"""Searches of OpenSearch's REST API: `_search`, `_count`, `_msearch` and the pages of scrolls.

The pages of a scroll are read one by one, all from the indexes as they were at the first page. Each scroll has a
read-only connection with a snapshot of the SQLite file and an open cursor on it. Scrolls end with the process, as
OpenSearch's end with the node.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.opensearch.aliases import NameOptions, Names
from headrace.services.opensearch.fields import (
    SearchError,
    bad_argument,
    not_supported,
    not_valid,
    unreadable,
)
from headrace.services.opensearch.rest_parts import (
    AnswerBytes,
    error_body,
    object_of,
    source_filter,
)
from headrace.services.opensearch.searching import (
    MOST_WINDOW,
    Plan,
    Searcher,
    rows_of,
    window_of,
)
from headrace.services.opensearch.store import Index, Store
from headrace.store.database import Snapshot

# OpenSearch's default is 500; each is a connection with two file descriptors here.
MOST_SCROLLS = 100
MOST_KEEP_ALIVE_MS = 24 * 3_600_000
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_TIME = re.compile(r"(\d{1,12})(d|h|m|s|ms)")
_PREFIX = "headrace-scroll:"


@dataclass(slots=True)
class _Scroll:
    domain: str
    snapshot: Snapshot
    plan: Plan
    rows: Generator[tuple[Any, ...]]
    size: int
    total: int
    ends_ms: int
    shards: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        with self.lock:
            self.rows.close()
            self.snapshot.close()


class Scrolls:
    """The open scrolls of a store. Thread-safe. Call `end_expired` from time to time, and `close` at the end."""

    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._open: dict[str, _Scroll] = {}

    def close(self) -> None:
        """End all scrolls."""
        with self._lock:
            scrolls = list(self._open.values())
            self._open.clear()
        for scroll in scrolls:
            scroll.close()

    def end_expired(self) -> None:
        """End the scrolls whose time is over."""
        now_ms = self._clock.now_ms()
        with self._lock:
            ended = [key for key, scroll in self._open.items() if scroll.ends_ms <= now_ms]
            scrolls = [self._open.pop(key) for key in ended]
        for scroll in scrolls:
            scroll.close()

    def start(
        self, domain: str, indexes: Sequence[Index], body: Mapping[str, Any], keep_alive: str
    ) -> dict[str, Any]:
        """Start a scroll; return its id, its first page, and its aggregations. Raises SearchError."""
        keep_ms = _keep_alive_ms(keep_alive)
        size = _batch_of(body)
        with ExitStack() as undoing:
            snapshot = self._store.database.snapshot()
            undoing.callback(snapshot.close)
            searcher = Searcher(snapshot)
            plan = searcher.plan(indexes, body, self._clock.now_ms())
            totals = searcher.totals(plan)
            rows = rows_of(snapshot, plan.sql, plan.arguments)
            # Before the snapshot, whose connection they need.
            undoing.callback(rows.close)
            ends_ms = self._clock.now_ms() + keep_ms
            total: int = totals["hits"]["total"]["value"]
            scroll = _Scroll(domain, snapshot, plan, rows, size, total, ends_ms, len(indexes))
            first = plan.page(rows, size)
            key = self._keep(scroll)
            undoing.pop_all()
        hits = {**totals["hits"], **first}
        return {"_scroll_id": _id_of(key), **totals, "hits": hits}

    def _keep(self, scroll: _Scroll) -> str:
        with self._lock:
            if len(self._open) >= MOST_SCROLLS:
                raise SearchError(
                    429,
                    "rejected_execution_exception",
                    "Trying to create too many scroll contexts. Must be less than or equal to:"
                    f" [{MOST_SCROLLS}]. This limit can be set by changing the [search.max_open_scroll_context]"
                    " setting.",
                )
            key = self._ids.hex(16)
            self._open[key] = scroll
            return key

    def next_page(self, domain: str, scroll_id: str, keep_alive: str) -> tuple[int, dict[str, Any]]:
        """Return the number of searched indexes and the next page; `keep_alive` may be empty. Raises SearchError."""
        keep_ms = _keep_alive_ms(keep_alive) if keep_alive else 0
        key = _key_of(scroll_id)
        self.end_expired()
        with self._lock:
            scroll = self._open.get(key)
            if scroll is None or scroll.domain != domain:
                raise _build_gone_error(key)
            if keep_ms:
                scroll.ends_ms = max(scroll.ends_ms, self._clock.now_ms() + keep_ms)
        with scroll.lock:
            if key not in self._open:
                raise _build_gone_error(key)
            page = scroll.plan.page(scroll.rows, scroll.size)
        total = {"value": scroll.total, "relation": "eq"}
        return scroll.shards, {"_scroll_id": scroll_id, "hits": {"total": total, **page}}

    def end(self, domain: str, scroll_ids: Sequence[str]) -> int:
        """End scrolls, or all of a domain for `_all`; return how many. Raises SearchError for what is no id."""
        is_all = list(scroll_ids) == ["_all"]
        keys = set[str]() if is_all else {_key_of(one) for one in scroll_ids}
        with self._lock:
            ended = [
                key
                for key, scroll in self._open.items()
                if scroll.domain == domain and (is_all or key in keys)
            ]
            scrolls = [self._open.pop(key) for key in ended]
        for scroll in scrolls:
            scroll.close()
        return len(scrolls)


def _batch_of(body: Mapping[str, Any]) -> int:
    size, start = window_of(body)
    wrong: list[str] = []
    if start:
        wrong.append("using [from] is not allowed in a scroll context")
    if size == 0:
        wrong.append("[size] cannot be [0] in a scroll context")
    if wrong:
        raise not_valid(*wrong)
    if size > MOST_WINDOW:
        raise bad_argument(
            f"Batch size is too large, size must be less than or equal to: [{MOST_WINDOW}] but was [{size}]."
            " Scroll batch sizes cost as much memory as result windows so they are controlled by the"
            " [index.max_result_window] index level setting."
        )
    return size


def _keep_alive_ms(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise bad_argument(
            f"failed to parse setting [scroll] with value [{text}] as a time value: unit is missing or unrecognized"
        )
    keep_ms = int(match[1]) * _UNITS_MS[match[2]]
    if keep_ms > MOST_KEEP_ALIVE_MS:
        raise bad_argument(
            f"Keep alive for request ({text}) is too large. It must be less than (1d)."
            " This limit can be set by changing the [search.max_keep_alive] cluster level setting."
        )
    return keep_ms


def _id_of(key: str) -> str:
    return base64.urlsafe_b64encode(f"{_PREFIX}{key}".encode()).decode()


def _key_of(scroll_id: str) -> str:
    with suppress(binascii.Error, ValueError):
        text = base64.urlsafe_b64decode(scroll_id.encode()).decode()
        if text.startswith(_PREFIX):
            return text.removeprefix(_PREFIX)
    raise bad_argument("Cannot parse scroll id")


def _build_gone_error(key: str) -> SearchError:
    """Return the error for a scroll that has ended or never was."""
    cause = {
        "type": "search_context_missing_exception",
        "reason": f"No search context found for id [{key}]",
    }
    error = SearchError(404, "search_phase_execution_exception", "all shards failed")
    error.root = cause
    error.members = {
        "phase": "query",
        "grouped": True,
        "failed_shards": [{"shard": -1, "index": None, "reason": cause}],
        "caused_by": cause,
    }
    return error


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
