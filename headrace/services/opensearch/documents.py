"""Single documents of OpenSearch's REST API: writes, updates, reads by id, and `_bulk` and `_mget` of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.core.ids import Ids
from headrace.services.opensearch.aliases import Names
from headrace.services.opensearch.fields import (
    SearchError,
    not_supported,
    not_valid,
    unreadable,
)
from headrace.services.opensearch.rest_parts import (
    STATUS,
    AnswerBytes,
    actions_of,
    build_written_members,
    error_body,
    object_of,
)
from headrace.services.opensearch.searching import select_source
from headrace.services.opensearch.store import Index, Store, WriteResult, parse_document

_UPDATE_MEMBERS = frozenset({"doc", "upsert", "doc_as_upsert", "detect_noop", "_source"})


class DocumentApi:
    """Writes and reads documents. Thread-safe, as the store is. Names may be aliases."""

    def __init__(self, store: Store, names: Names, ids: Ids) -> None:
        self._store = store
        self._names = names
        self._ids = ids

    def put(
        self, domain: str, name: str, doc_id: str, source: bytes, *, create_only: bool
    ) -> tuple[int, dict[str, Any]]:
        """Write a document; return status and answer. An empty `doc_id` stands for a new id. Raises SearchError."""
        with self._store.database.transaction():
            index = self._names.for_write(domain, name)
            doc_id = doc_id or self._ids.hex(20)
            written = self._store.put(index, doc_id, source, create_only=create_only)
        return STATUS[written.result], build_written_members(index.name, doc_id, written)

    def delete(self, domain: str, name: str, doc_id: str) -> tuple[int, dict[str, Any]]:
        """Delete a document; return status and answer. Raises SearchError."""
        index = self._target_of_delete(domain, name)
        written = self._store.delete(index, doc_id)
        return STATUS[written.result], build_written_members(index.name, doc_id, written)

    def _target_of_delete(self, domain: str, name: str) -> Index:
        # A delete creates no index, but follows an alias to its write index.
        if self._store.aliases(domain, name):
            return self._names.for_write(domain, name)
        return self._names.one(domain, name)

    def get(
        self, domain: str, name: str, doc_id: str, source_filter: Any = True
    ) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a read; `source_filter` is a search's `_source`. Raises SearchError."""
        index = self._names.one(domain, name)
        answer = self._read(index, doc_id, source_filter, AnswerBytes())
        return 200 if answer["found"] else 404, answer

    def _read(
        self, index: Index, doc_id: str, source_filter: Any, size: AnswerBytes
    ) -> dict[str, Any]:
        row = self._store.get(index, doc_id)
        size.add("" if row is None else row[2])
        if row is None:
            return {"_index": index.name, "_id": doc_id, "found": False}
        version, seq_no, source = row
        members = {"_index": index.name, "_id": doc_id, "_version": version, "_seq_no": seq_no}
        members |= {"_primary_term": 1, "found": True}
        part = select_source(json.loads(source), source_filter)
        return members if part is None else {**members, "_source": part}

    def read_many(
        self, domain: str, default: str, body: Mapping[str, Any], source_filter: Any = True
    ) -> dict[str, Any]:
        """Return the answer of `_mget`. Raises SearchError; a missing index is an error of its document alone."""
        asked = _list_asked_documents(body, default)
        size = AnswerBytes()
        docs: list[dict[str, Any]] = []
        for one in asked:
            name, doc_id = str(one["_index"]), str(one["_id"])
            try:
                index = self._names.one(domain, name)
            except SearchError as error:
                failure = {"_index": name, "_id": doc_id, "error": error_body(error)}
                docs.append(failure)
                size.add(str(failure))
                continue
            docs.append(self._read(index, doc_id, one.get("_source", source_filter), size))
        return {"docs": docs}

    # --- updates ------------------------------------------------------------------------------

    def update(
        self,
        domain: str,
        name: str,
        doc_id: str,
        body: Mapping[str, Any],
        source_filter: Any = None,
    ) -> tuple[int, dict[str, Any]]:
        """Merge `doc` into a document, or write `upsert`; return status and answer. Raises SearchError.

        The index is created if it is missing, even if the document then is not there, as on OpenSearch (documented).
        """
        _check_update(body)
        index = self._names.for_write(domain, name)
        written, source = self._update(index, doc_id, body)
        answer = build_written_members(index.name, doc_id, written)
        asked = body.get("_source", source_filter)
        if asked not in (None, False):
            part = select_source(source, asked)
            answer["get"] = {
                "_seq_no": written.seq_no, "_primary_term": 1, "found": True, "_source": part,
            }  # fmt: skip
        return STATUS[written.result], answer

    def _update(
        self, index: Index, doc_id: str, body: Mapping[str, Any]
    ) -> tuple[WriteResult, dict[str, Any]]:
        with self._store.database.transaction():
            row = self._store.get(index, doc_id)
            if row is None:
                new = body.get("doc" if body.get("doc_as_upsert") else "upsert")
                if new is None:
                    raise _build_missing_error(index, doc_id)
                return self._store.put(index, doc_id, _encode(new)), new
            version, seq_no, text = row
            source = parse_document(text.encode())
            has_changed = _merge_into(source, body["doc"])
            if not has_changed and body.get("detect_noop", True):
                return WriteResult("noop", version, seq_no), source
            return self._store.put(index, doc_id, _encode(source)), source

    # --- bulk ---------------------------------------------------------------------------------

    def bulk(self, domain: str, default: str, body: bytes) -> dict[str, Any]:
        """Run a `_bulk`, all or nothing if it is malformed; return its answer. Raises SearchError."""
        items: list[dict[str, Any]] = []
        known: dict[str, Index] = {}
        with self._store.database.transaction():
            for action, members, source in actions_of(body):
                item = self._bulk_item(domain, default, action, members, source, known)
                items.append({action: item})
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
        change = object_of(source) if action == "update" else {}
        if action == "update":
            _check_update(change)
        try:
            if name not in known:
                known[name] = self._names.for_write(domain, name)
            index = known[name]
            if action == "delete":
                written = self._store.delete(index, doc_id)
            elif action == "update":
                written, _ = self._update(index, doc_id, change)
            else:
                create_only = action == "create"
                written = self._store.put(index, doc_id, source, create_only=create_only)
        except SearchError as error:
            return {"_index": name, "_id": doc_id, "status": error.status, "error": error.cause()}
        return {
            **build_written_members(index.name, doc_id, written),
            "status": STATUS[written.result],
        }


def _list_asked_documents(body: Mapping[str, Any], default: str) -> Sequence[Mapping[str, Any]]:
    """Return the `_index`, `_id` and `_source` of each document of an `_mget`. Raises SearchError."""
    for member in body:
        if member not in ("docs", "ids"):
            raise unreadable(f"unknown key [{member}] for a START_ARRAY, expected [docs] or [ids]")
    docs: Any = body.get("docs") or [{"_id": one} for one in _get_list(body.get("ids"), "ids")]
    asked: list[dict[str, Any]] = []
    wrong: list[str] = []
    for number, one in enumerate(_get_list(docs, "docs")):
        if not isinstance(one, dict):
            raise SearchError(
                400, "illegal_argument_exception", "docs array element should include an object"
            )
        members = {"_index": default, **cast("dict[str, Any]", one)}
        for member in members:
            if member not in ("_index", "_id", "_source"):
                raise not_supported(f"[{member}] of a document of _mget")
        wrong += [f"index is missing for doc {number}"] if not members["_index"] else []
        wrong += [f"id is missing for doc {number}"] if members.get("_id") is None else []
        asked.append(members)
    if not asked:
        raise not_valid("no documents to get")
    if wrong:
        raise not_valid(*wrong)
    return asked


def _get_list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise unreadable(f"[{name}] is no list")
    return cast("list[Any]", value)


def _check_update(body: Mapping[str, Any]) -> None:
    """Raise SearchError for an update that OpenSearch refuses, or that has a script."""
    for member in body:
        if member in ("script", "scripted_upsert", "lang", "params"):
            raise not_supported(f"[{member}] of an update")
        if member not in _UPDATE_MEMBERS:
            raise SearchError(
                400, "x_content_parse_exception", f"[1:2] [UpdateRequest] unknown field [{member}]"
            )
    for member in ("doc", "upsert"):
        if member in body and not isinstance(body[member], dict):
            raise SearchError(
                400,
                "x_content_parse_exception",
                f"[UpdateRequest] {member} doesn't support values of this type",
            )
    for member in ("doc_as_upsert", "detect_noop"):
        if not isinstance(body.get(member, False), bool):
            raise SearchError(
                400,
                "x_content_parse_exception",
                f"[UpdateRequest] failed to parse field [{member}]",
            )
    wrong = [] if "doc" in body else ["script or doc is missing"]
    if body.get("doc_as_upsert") and "doc" not in body:
        wrong.append("doc must be specified if doc_as_upsert is enabled")
    if wrong:
        raise not_valid(*wrong)


def _merge_into(target: dict[str, Any], change: Mapping[str, Any]) -> bool:
    """Merge objects by their members, all other values whole; return whether anything has changed."""
    has_changed = False
    for name, new in change.items():
        old = target.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            inner = cast("dict[str, Any]", old)
            has_changed |= _merge_into(inner, cast("dict[str, Any]", new))
        elif name not in target or _encode(old) != _encode(new):
            # By their JSON: 1, 1.0 and true are equal in Python.
            target[name] = new
            has_changed = True
    return has_changed


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _build_missing_error(index: Index, doc_id: str) -> SearchError:
    return SearchError(
        404,
        "document_missing_exception",
        f"[{doc_id}]: document missing",
        index=index.name,
        shard="0",
        index_uuid=index.uuid,
    )
