"""OpenSearch's REST API: takes a method, a path, parameters and a body, and returns a status and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.patterns import Wildcard
from headrace.services.opensearch.aliases import AliasApi, NameOptions, Names, flag
from headrace.services.opensearch.documents import DocumentApi
from headrace.services.opensearch.fields import (
    SearchError,
    check_mapping,
    not_supported,
    not_valid,
)
from headrace.services.opensearch.rest_parts import (
    SHARDS,
    check_top,
    describe_index,
    index_row,
    members_of,
    merge,
    object_of,
    render_mapping,
    scroll_ids_of,
    source_filter,
    table,
)
from headrace.services.opensearch.searches import Scrolls, SearchApi
from headrace.services.opensearch.store import Index, Store
from headrace.store.disk_space import DiskFull

# The parameter `filter_path`: which parts of an answer are sent. Pure functions.
#
# A path has fields between dots; `*` stands for any run of characters of a field, `**` for any number of fields, and a
# path that begins with `-` leaves parts out. Lists do not count as levels.

_Path = tuple[str, ...]


def filter_answer(body: Any, filter_path: str) -> Any:
    """Return the parts of a JSON answer that `filter_path` selects, `{}` if it selects nothing."""
    paths = [path.strip() for path in filter_path.split(",") if path.strip()]
    kept = frozenset(tuple(path.split(".")) for path in paths if not path.startswith("-"))
    left_out = frozenset(tuple(path[1:].split(".")) for path in paths if path.startswith("-"))
    if kept:
        body = _select(body, kept)
        body = {} if body is None else body
    return _without(body, left_out) if left_out else body


def _below(paths: frozenset[_Path], name: str) -> frozenset[_Path]:
    """Return what is left of the paths below a field; an empty path has arrived."""
    rest: set[_Path] = set()
    for path in paths:
        while path and path[0] == "**":
            # It takes this field and may take the next, or it takes none.
            rest.add(path)
            path = path[1:]
            if not path:
                rest.add(())
        if path and Wildcard(tuple(path[0].split("*"))).matches(name):
            rest.add(path[1:])
    return frozenset(rest)


def _select(value: Any, paths: frozenset[_Path]) -> Any:
    """Return the selected parts of a value, None if there are none."""
    if isinstance(value, list):
        parts = [_select(item, paths) for item in cast("Sequence[Any]", value)]
        return [part for part in parts if part is not None] or None
    if not isinstance(value, dict):
        return None
    selected: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        rest = _below(paths, name)
        part = inner if () in rest else _select(inner, rest) if rest else None
        if part is not None or () in rest:
            selected[name] = part
    return selected or None


def _without(value: Any, paths: frozenset[_Path]) -> Any:
    if isinstance(value, list):
        return [_without(item, paths) for item in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return value
    selected: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        rest = _below(paths, name)
        if () not in rest:
            selected[name] = _without(inner, rest) if rest else inner
    return selected


VERSION = "2.19.0"
# Parameters about the form or the time of an answer, or about shards and files, which are accepted without effect.
_HARMLESS = frozenset(
    {"pretty", "human", "refresh", "timeout", "rest_total_hits_as_int", "expand_wildcards", "wait_for_active_shards",
     "cluster_manager_timeout", "master_timeout", "local", "h", "s", "bytes", "error_trace", "realtime", "preference",
     "track_total_hits", "retry_on_conflict", "ccs_minimize_roundtrips", "max_concurrent_searches",
     "max_concurrent_shard_requests", "force", "wait_if_ongoing", "max_num_segments", "only_expunge_deletes", "flush",
     "fielddata", "query", "request"}
)  # fmt: skip
_EFFECTIVE = frozenset(
    {"size", "from", "sort", "q", "op_type", "format", "v", "ignore_unavailable", "allow_no_indices", "_source",
     "scroll", "scroll_id", "filter_path"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A request. `path` is the path below the domain, decoded and split."""

    domain: str
    method: str
    path: Sequence[str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """An answer: JSON, or plain text if `body` is a string."""

    status: int
    body: Any


class SearchRestApi:
    """Answers requests to a store's indexes. Thread-safe."""

    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._names = Names(store, clock)
        self._aliases = AliasApi(store, self._names)
        self._documents = DocumentApi(store, self._names, ids)
        self._scrolls = Scrolls(store, clock, ids)
        self._searches = SearchApi(store, self._names, self._scrolls, clock)
        self._clock = clock

    def close(self) -> None:
        """End all scrolls. The store stays open."""
        self._scrolls.close()

    def answer(self, request: SearchRequest) -> RestAnswer:
        """Answer a request; errors are in the answer."""
        self._scrolls.end_expired()
        answer = self._answer(request)
        if "filter_path" in request.query and not isinstance(answer.body, str):
            filtered = filter_answer(answer.body, request.query["filter_path"])
            return RestAnswer(answer.status, filtered)
        return answer

    def _answer(self, request: SearchRequest) -> RestAnswer:
        try:
            for name in request.query:
                if name not in _HARMLESS | _EFFECTIVE:
                    raise not_supported(f"the parameter [{name}]")
            return self._route(request)
        except SearchError as error:
            return RestAnswer(error.status, error.body())
        except DiskFull:
            full = SearchError(429, "cluster_block_exception", "the disk is full")
            return RestAnswer(429, full.body())

    def forget(self, domain: str) -> None:
        """Drop all indexes of a domain."""
        self._scrolls.end(domain, ["_all"])
        for index in self._store.indexes(domain):
            self._store.drop(index)

    def _route(self, request: SearchRequest) -> RestAnswer:
        match request.method, list(request.path):
            case (("GET" | "HEAD"), []):
                return RestAnswer(200, self._about(request))
            case _, [first, *_] if first.startswith("_") and first != "_all":
                return self._route_domain(request)
            case _, [name]:
                return self._route_index(request, name)
            case _, [name, *rest]:
                return self._route_in(request, name, rest)
            case _:
                raise not_supported(f"{request.method} /")

    def _route_domain(self, request: SearchRequest) -> RestAnswer:
        """Answer a request that names no index, or names it in its body."""
        match request.method, list(request.path):
            case _, ["_search", "scroll", *ids]:
                return self._scroll(request, ids)
            case (("GET" | "POST"), [("_search" | "_count" | "_msearch") as action]):
                return self._search(request, action, "")
            case (("POST" | "PUT"), ["_bulk"]):
                return RestAnswer(200, self._documents.bulk(request.domain, "", request.body))
            case (("GET" | "POST"), ["_mget"]):
                return self._read_many(request, "")
            case "GET", ["_mapping"]:
                return self._mappings(request, "_all")
            case "GET", ["_cat", ("indices" | "aliases") as kind, *rest] if len(rest) < 2:
                return self._cat(request, kind, rest[0] if rest else "")
            case "GET", ["_cluster", "health"]:
                return RestAnswer(200, self._health(request))
            case "POST", ["_aliases"]:
                self._aliases.change(request.domain, object_of(request.body))
                return RestAnswer(200, {"acknowledged": True})
            case (("GET" | "HEAD"), [("_alias" | "_aliases"), *rest]) if len(rest) < 2:
                return self._get_aliases(request, "_all", rest[0] if rest else "")
            case method, path if _is_maintenance(method, path):
                return self._maintain(request, "_all")
            case _:
                raise not_supported(f"{request.method} /{'/'.join(request.path)}")

    def _route_index(self, request: SearchRequest, name: str) -> RestAnswer:
        options = NameOptions.of(request.query)
        match request.method:
            case "HEAD":
                options = NameOptions(ignore_unavailable=True)
                indexes = self._names.find_matching(request.domain, name, options)
                return RestAnswer(200 if indexes else 404, {})
            case "GET":
                indexes = self._names.find_matching(request.domain, name, options)
                aliases = self._aliases.of_indexes(request.domain)
                return RestAnswer(
                    200, {i.name: describe_index(i, aliases.get(i.name, {})) for i in indexes}
                )
            case "PUT":
                return self._create(request, name)
            case "DELETE":
                for index in self._names.without_aliases(request.domain, name, options):
                    self._store.drop(index)
                return RestAnswer(200, {"acknowledged": True})
            case _:
                raise not_supported(f"{request.method} /{name}")

    def _route_in(self, request: SearchRequest, name: str, rest: Sequence[str]) -> RestAnswer:
        match request.method, list(rest):
            case (("GET" | "POST"), [("_search" | "_count" | "_msearch") as action]):
                return self._search(request, action, name)
            case (("POST" | "PUT"), ["_bulk"]):
                return RestAnswer(200, self._documents.bulk(request.domain, name, request.body))
            case (("GET" | "POST"), ["_mget"]):
                return self._read_many(request, name)
            case "GET", ["_mapping"]:
                return self._mappings(request, name)
            case (("PUT" | "POST"), ["_mapping"]):
                return self._put_mapping(request, name)
            case method, path if _is_maintenance(method, path):
                return self._maintain(request, name)
            case _, [("_alias" | "_aliases"), *names] if len(names) < 2:
                return self._route_aliases(request, name, names[0] if names else "")
            case _:
                return self._route_document(request, name, rest)

    def _route_document(self, request: SearchRequest, name: str, rest: Sequence[str]) -> RestAnswer:
        documents, domain = self._documents, request.domain
        match request.method, list(rest):
            case "POST", ["_doc"]:
                answer = documents.put(domain, name, "", request.body, create_only=False)
            case (("PUT" | "POST"), [("_doc" | "_create") as kind, doc_id]):
                create_only = kind == "_create" or request.query.get("op_type") == "create"
                answer = documents.put(domain, name, doc_id, request.body, create_only=create_only)
            case (("GET" | "HEAD"), ["_doc", doc_id]):
                answer = documents.get(domain, name, doc_id, source_filter(request.query))
            case "DELETE", ["_doc", doc_id]:
                answer = documents.delete(domain, name, doc_id)
            case "POST", ["_update", doc_id]:
                asked = source_filter(request.query) if "_source" in request.query else None
                body = object_of(request.body)
                answer = documents.update(domain, name, doc_id, body, asked)
            case _:
                raise not_supported(f"{request.method} /{name}/{'/'.join(rest)}")
        return RestAnswer(*answer)

    # --- what there is ------------------------------------------------------------------------

    def _about(self, request: SearchRequest) -> dict[str, Any]:
        return {
            "name": "headrace",
            "cluster_name": request.domain,
            "cluster_uuid": "_na_",
            "version": {
                "distribution": "opensearch",
                "number": VERSION,
                "build_type": "headrace",
                "minimum_wire_compatibility_version": "7.10.0",
                "minimum_index_compatibility_version": "7.0.0",
            },
            "tagline": "headrace's own index: a part of OpenSearch's REST",
        }

    def _health(self, request: SearchRequest) -> dict[str, Any]:
        count = len(self._store.indexes(request.domain))
        return {
            "cluster_name": request.domain,
            "status": "green",
            "timed_out": False,
            "number_of_nodes": 1,
            "number_of_data_nodes": 1,
            "active_primary_shards": count,
            "active_shards": count,
            "unassigned_shards": 0,
        }

    def _cat(self, request: SearchRequest, kind: str, names: str) -> RestAnswer:
        if kind == "aliases":
            rows = self._aliases.rows(request.domain, names)
        else:
            indexes = self._find_indexes(request, names or "_all")
            counts = self._store.counts(indexes)
            rows = [index_row(index, *counts[index.id]) for index in indexes]
        if request.query.get("format") == "json":
            return RestAnswer(200, rows)
        return RestAnswer(200, table(rows, with_heads=flag(request.query, "v", default=False)))

    def _mappings(self, request: SearchRequest, names: str) -> RestAnswer:
        indexes = self._find_indexes(request, names)
        return RestAnswer(
            200, {index.name: {"mappings": render_mapping(index)} for index in indexes}
        )

    def _find_indexes(self, request: SearchRequest, names: str) -> list[Index]:
        return self._names.find_matching(request.domain, names, NameOptions.of(request.query))

    def _maintain(self, request: SearchRequest, names: str) -> RestAnswer:
        """Answer what has nothing to do here: every write is visible to the next search, and in the file."""
        self._find_indexes(request, names)
        return RestAnswer(200, {"_shards": SHARDS})

    # --- aliases ------------------------------------------------------------------------------

    def _get_aliases(self, request: SearchRequest, indexes: str, names: str) -> RestAnswer:
        matching = self._find_indexes(request, indexes)
        return RestAnswer(*self._aliases.get(request.domain, matching, names))

    def _route_aliases(self, request: SearchRequest, indexes: str, names: str) -> RestAnswer:
        match request.method:
            case "GET" | "HEAD":
                return self._get_aliases(request, indexes, names)
            case "PUT" | "POST" if names:
                targets = self._names.without_aliases(
                    request.domain, indexes, NameOptions.of(request.query)
                )
                self._aliases.add(request.domain, targets, names, object_of(request.body))
            case "DELETE" if names:
                self._aliases.remove(request.domain, self._find_indexes(request, indexes), names)
            case _:
                raise not_supported(f"{request.method} /{'/'.join(request.path)}")
        return RestAnswer(200, {"acknowledged": True})

    # --- indexes ------------------------------------------------------------------------------

    def _create(self, request: SearchRequest, name: str) -> RestAnswer:
        body = object_of(request.body)
        for member in body:
            if member not in ("mappings", "settings", "aliases"):
                raise not_supported(f"[{member}] of a new index")
        mapping: dict[str, Any] = {"properties": {}, **members_of(body, "mappings")}
        check_top(mapping)
        settings = members_of(body, "settings")
        aliases = members_of(body, "aliases")
        with self._store.database.transaction():
            index = self._store.create(
                request.domain, name, mapping, settings, self._clock.now_ms()
            )
            for alias in aliases:
                self._aliases.add(request.domain, [index], alias, members_of(aliases, alias))
        return RestAnswer(200, {"acknowledged": True, "shards_acknowledged": True, "index": name})

    def _put_mapping(self, request: SearchRequest, names: str) -> RestAnswer:
        body = object_of(request.body)
        check_top(body)
        properties = members_of(body, "properties")
        check_mapping(properties)
        for index in self._find_indexes(request, names):
            merge(index.mapping.setdefault("properties", {}), properties)
            self._store.save_mapping(index)
        return RestAnswer(200, {"acknowledged": True})

    # --- reads and searches -------------------------------------------------------------------

    def _read_many(self, request: SearchRequest, name: str) -> RestAnswer:
        body = object_of(request.body)
        asked = source_filter(request.query)
        return RestAnswer(200, self._documents.read_many(request.domain, name, body, asked))

    def _search(self, request: SearchRequest, action: str, names: str) -> RestAnswer:
        searches, domain, query = self._searches, request.domain, request.query
        if action == "_msearch":
            return RestAnswer(200, searches.search_many(domain, names, request.body))
        body = object_of(request.body)
        if action == "_count":
            return RestAnswer(200, searches.count(domain, names, body, NameOptions.of(query)))
        return RestAnswer(200, searches.search(domain, names, body, query))

    def _scroll(self, request: SearchRequest, ids: Sequence[str]) -> RestAnswer:
        if len(ids) > 1 or request.method not in ("GET", "POST", "DELETE"):
            raise not_supported(f"{request.method} /{'/'.join(request.path)}")
        body = object_of(request.body)
        scroll_ids = scroll_ids_of(body, request.query, ids)
        if not scroll_ids:
            is_end = request.method == "DELETE"
            raise not_valid("no scroll ids specified" if is_end else "scrollId is missing")
        if request.method == "DELETE":
            count = self._scrolls.end(request.domain, scroll_ids)
            return RestAnswer(200 if count else 404, {"succeeded": True, "num_freed": count})
        keep_alive = str(body.get("scroll", request.query.get("scroll", "")))
        return RestAnswer(200, self._searches.next_page(request.domain, scroll_ids[0], keep_alive))


def _is_maintenance(method: str, path: Sequence[str]) -> bool:
    """Whether a request asks for what OpenSearch does with its files and caches."""
    name = "/".join(path)
    if name in ("_refresh", "_flush"):
        return method in ("GET", "POST")
    return method == "POST" and name in ("_forcemerge", "_cache/clear")
