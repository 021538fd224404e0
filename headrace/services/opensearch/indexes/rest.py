"""OpenSearch's REST API: takes a method, a path, parameters and a body, and returns a status and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.wildcards import Wildcard
from headrace.services.opensearch.indexes.errors import (
    SearchError,
    no_index,
    not_supported,
    unreadable,
)
from headrace.services.opensearch.indexes.fields import check_mapping
from headrace.services.opensearch.indexes.rest_parts import (
    SHARDS,
    STATUS,
    actions_of,
    check_top,
    described,
    members_of,
    merge,
    object_of,
    shown,
    table,
    written_members,
)
from headrace.services.opensearch.indexes.searching import Searcher
from headrace.services.opensearch.indexes.store import Index, Store
from headrace.store.disk_space import DiskFull

VERSION = "2.19.0"
# Parameters about the form or the time of an answer, which are accepted without effect.
_HARMLESS = frozenset(
    {"pretty", "human", "refresh", "timeout", "rest_total_hits_as_int", "ignore_unavailable", "allow_no_indices",
     "expand_wildcards", "format", "v", "wait_for_active_shards", "cluster_manager_timeout", "master_timeout",
     "local", "h", "s", "bytes", "error_trace"}
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
        self._searching = Searcher(store)
        self._clock = clock
        self._ids = ids

    def answer(self, request: SearchRequest) -> RestAnswer:
        """Answer a request; errors are in the answer."""
        try:
            for name in request.query:
                if name not in _HARMLESS | {"size", "from", "q", "op_type"}:
                    raise not_supported(f"the parameter [{name}]")
            return self._route(request)
        except SearchError as error:
            return RestAnswer(error.status, error.body())
        except DiskFull:
            full = SearchError(429, "cluster_block_exception", "the disk is full")
            return RestAnswer(429, full.body())

    def forget(self, domain: str) -> None:
        """Drop all indexes of a domain."""
        for index in self._store.indexes(domain):
            self._store.drop(index)

    def _route(self, request: SearchRequest) -> RestAnswer:
        match request.method, list(request.path):
            case (("GET" | "HEAD"), []):
                return RestAnswer(200, self._about(request))
            case (("POST" | "PUT"), ["_bulk"]):
                return RestAnswer(200, self._bulk(request, ""))
            case (("GET" | "POST"), ["_search"]):
                return self._search(request, "_all")
            case (("GET" | "POST"), ["_count"]):
                return self._count(request, "_all")
            case "GET", ["_mapping"]:
                return self._mappings(request, "_all")
            case "GET", ["_cat", "indices", *rest] if len(rest) < 2:
                return self._cat(request, rest[0] if rest else "_all")
            case "GET", ["_cluster", "health"]:
                return RestAnswer(200, self._health(request))
            case "POST", ["_refresh"]:
                return RestAnswer(200, {"_shards": SHARDS})
            case _, [first, *_] if first.startswith("_") and first != "_all":
                raise not_supported(f"{request.method} /{'/'.join(request.path)}")
            case _, [name, *rest] if rest:
                return self._route_in(request, name, rest)
            case _, [name]:
                return self._route_index(request, name)
            case _:
                raise not_supported(f"{request.method} /{'/'.join(request.path)}")

    def _route_index(self, request: SearchRequest, name: str) -> RestAnswer:
        match request.method:
            case "HEAD":
                found = self._matching(request.domain, name, must_be=False)
                return RestAnswer(200 if found else 404, {})
            case "GET":
                return RestAnswer(
                    200, {i.name: described(i) for i in self._matching(request.domain, name)}
                )
            case "PUT":
                return self._create(request, name)
            case "DELETE":
                for index in self._matching(request.domain, name):
                    self._store.drop(index)
                return RestAnswer(200, {"acknowledged": True})
            case _:
                raise not_supported(f"{request.method} /{name}")

    def _route_in(self, request: SearchRequest, name: str, rest: Sequence[str]) -> RestAnswer:
        match request.method, list(rest):
            case (("GET" | "POST"), ["_search"]):
                return self._search(request, name)
            case (("GET" | "POST"), ["_count"]):
                return self._count(request, name)
            case (("POST" | "PUT"), ["_bulk"]):
                return RestAnswer(200, self._bulk(request, name))
            case "GET", ["_mapping"]:
                return self._mappings(request, name)
            case (("PUT" | "POST"), ["_mapping"]):
                return self._put_mapping(request, name)
            case "POST", ["_refresh"]:
                self._matching(request.domain, name)
                return RestAnswer(200, {"_shards": SHARDS})
            case "POST", ["_doc"]:
                return self._put(request, name, "", create_only=False)
            case (("PUT" | "POST"), ["_doc", doc_id]):
                create_only = request.query.get("op_type") == "create"
                return self._put(request, name, doc_id, create_only=create_only)
            case (("PUT" | "POST"), ["_create", doc_id]):
                return self._put(request, name, doc_id, create_only=True)
            case (("GET" | "HEAD"), ["_doc", doc_id]):
                return self._get(request, name, doc_id)
            case "DELETE", ["_doc", doc_id]:
                return self._delete(request, name, doc_id)
            case _:
                raise not_supported(f"{request.method} /{name}/{'/'.join(rest)}")

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

    def _cat(self, request: SearchRequest, names: str) -> RestAnswer:
        indexes = self._matching(request.domain, names)
        counts = self._store.counts(indexes)
        rows = [
            {
                "health": "green",
                "status": "open",
                "index": index.name,
                "uuid": index.uuid,
                "pri": "1",
                "rep": "0",
                "docs.count": str(counts[index.id][0]),
                "docs.deleted": "0",
                "store.size": f"{counts[index.id][1]}b",
                "pri.store.size": f"{counts[index.id][1]}b",
            }
            for index in indexes
        ]
        if request.query.get("format") == "json":
            return RestAnswer(200, rows)
        with_heads = "v" in request.query and request.query["v"] != "false"
        return RestAnswer(200, table(rows, with_heads=with_heads))

    def _mappings(self, request: SearchRequest, names: str) -> RestAnswer:
        found = self._matching(request.domain, names)
        return RestAnswer(200, {index.name: {"mappings": shown(index)} for index in found})

    def _matching(self, domain: str, names: str, *, must_be: bool = True) -> list[Index]:
        """Return the indexes that match names with wildcards. Raises SearchError if a plain name is missing."""
        every = self._store.indexes(domain)
        found: dict[str, Index] = {}
        for name in names.split(","):
            if name == "_all" or "*" in name:
                pattern = Wildcard(tuple((name if name != "_all" else "*").split("*")))
                found.update({index.name: index for index in every if pattern.matches(index.name)})
                continue
            exact = [index for index in every if index.name == name]
            if not exact and must_be:
                raise no_index(name)
            found.update({index.name: index for index in exact})
        return [found[name] for name in sorted(found)]

    # --- indexes and documents ----------------------------------------------------------------

    def _create(self, request: SearchRequest, name: str) -> RestAnswer:
        body = object_of(request.body)
        for member in body:
            if member not in ("mappings", "settings"):
                raise not_supported(f"[{member}] of a new index")
        mapping: dict[str, Any] = {"properties": {}, **members_of(body, "mappings")}
        check_top(mapping)
        settings = members_of(body, "settings")
        self._store.create(request.domain, name, mapping, settings, self._clock.now_ms())
        return RestAnswer(200, {"acknowledged": True, "shards_acknowledged": True, "index": name})

    def _put_mapping(self, request: SearchRequest, names: str) -> RestAnswer:
        body = object_of(request.body)
        check_top(body)
        given = members_of(body, "properties")
        check_mapping(given)
        for index in self._matching(request.domain, names):
            merge(index.mapping.setdefault("properties", {}), given)
            self._store.save_mapping(index)
        return RestAnswer(200, {"acknowledged": True})

    def _index(self, domain: str, name: str) -> Index:
        found = self._store.find(domain, name)
        if found is not None:
            return found
        mapping: dict[str, Any] = {"properties": {}}
        return self._store.create(domain, name, mapping, {}, self._clock.now_ms())

    def _put(
        self, request: SearchRequest, name: str, doc_id: str, *, create_only: bool
    ) -> RestAnswer:
        with self._store.database.transaction():
            index = self._index(request.domain, name)
            doc_id = doc_id or self._ids.hex(20)
            written = self._store.put(index, doc_id, request.body, create_only=create_only)
        status = 201 if written.result == "created" else 200
        return RestAnswer(status, written_members(name, doc_id, written))

    def _get(self, request: SearchRequest, name: str, doc_id: str) -> RestAnswer:
        (index,) = self._one(request.domain, name)
        found = self._store.get(index, doc_id)
        if found is None:
            return RestAnswer(404, {"_index": name, "_id": doc_id, "found": False})
        version, seq_no, source = found
        members = {"_index": name, "_id": doc_id, "_version": version, "_seq_no": seq_no}
        return RestAnswer(
            200, {**members, "_primary_term": 1, "found": True, "_source": json.loads(source)}
        )

    def _delete(self, request: SearchRequest, name: str, doc_id: str) -> RestAnswer:
        (index,) = self._one(request.domain, name)
        written = self._store.delete(index, doc_id)
        status = 404 if written.result == "not_found" else 200
        return RestAnswer(status, written_members(name, doc_id, written))

    def _one(self, domain: str, name: str) -> list[Index]:
        found = self._store.find(domain, name)
        if found is None:
            raise no_index(name)
        return [found]

    def _bulk(self, request: SearchRequest, name: str) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        known: dict[str, Index] = {}
        with self._store.database.transaction():
            for action, members, source in actions_of(request.body):
                items.append(
                    {action: self._bulk_item(request.domain, name, action, members, source, known)}
                )
        errors = any("error" in next(iter(item.values())) for item in items)
        return {"took": 0, "errors": errors, "items": items}

    def _bulk_item(
        self,
        domain: str,
        default: str,
        action: str,
        members: Mapping[str, Any],
        source: bytes,
        known: dict[str, Index],
    ) -> dict[str, Any]:
        name = str(members.get("_index") or default)
        doc_id = str(members.get("_id") or self._ids.hex(20))
        try:
            if name not in known:
                known[name] = self._index(domain, name)
            index = known[name]
            if action == "delete":
                written = self._store.delete(index, doc_id)
            else:
                create_only = action == "create"
                written = self._store.put(index, doc_id, source, create_only=create_only)
        except SearchError as error:
            return {"_index": name, "_id": doc_id, "status": error.status, "error": error.cause()}
        return {**written_members(name, doc_id, written), "status": STATUS[written.result]}

    # --- searches -----------------------------------------------------------------------------

    def _search(self, request: SearchRequest, names: str) -> RestAnswer:
        body = object_of(request.body)
        for name in ("size", "from"):
            if name in request.query:
                if not request.query[name].isdecimal() or len(request.query[name]) > 9:
                    raise unreadable(f"Failed to parse int parameter [{name}]")
                body[name] = int(request.query[name])
        if "q" in request.query:
            raise not_supported("the parameter [q]")
        indexes = self._matching(request.domain, names)
        found = self._searching.search(indexes, body, self._clock.now_ms())
        shards = {"total": len(indexes), "successful": len(indexes), "skipped": 0, "failed": 0}
        return RestAnswer(200, {"took": 0, "timed_out": False, "_shards": shards, **found})

    def _count(self, request: SearchRequest, names: str) -> RestAnswer:
        indexes = self._matching(request.domain, names)
        count = self._searching.count(indexes, object_of(request.body), self._clock.now_ms())
        shards = {"total": len(indexes), "successful": len(indexes), "skipped": 0, "failed": 0}
        return RestAnswer(200, {"count": count, "_shards": shards})
