"""Reads and writes parts of OpenSearch's REST API: bodies, the lines of `_bulk`, tables; bounds an answer's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from headrace.core.values import parse_json
from headrace.services.opensearch.fields import (
    SearchError,
    bad_argument,
    not_supported,
    unreadable,
)
from headrace.services.opensearch.store import Index, WriteResult

# OpenSearch's own bound is 95 % of its heap. Of headrace's process no answer takes more than this.
MOST_BYTES = 100 * 1024 * 1024
# About what an answer's members without its documents take.
_MEMBERS_BYTES = 500


class AnswerBytes:
    """Counts the documents of one answer. For one thread."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, text: str = "") -> None:
        """Count a document or a part of the answer. Raises OpenSearch's error for an answer that is too large."""
        self._bytes += len(text) + _MEMBERS_BYTES
        if self._bytes > MOST_BYTES:
            raise SearchError(
                429,
                "circuit_breaking_exception",
                f"[parent] Data too large, data for [<http_request>] would be [{self._bytes}/{self._bytes}b],"
                f" which is larger than the limit of [{MOST_BYTES}/{MOST_BYTES}b]",
                bytes_wanted=self._bytes,
                bytes_limit=MOST_BYTES,
                durability="TRANSIENT",
            )


_ACTIONS = frozenset({"index", "create", "delete", "update"})
SHARDS = {"total": 1, "successful": 1, "failed": 0}
STATUS = {"created": 201, "updated": 200, "deleted": 200, "noop": 200, "not_found": 404}


def build_written_members(name: str, doc_id: str, written: WriteResult) -> dict[str, Any]:
    """Return an answer's members about a written document."""
    return {
        "_index": name,
        "_id": doc_id,
        "_version": written.version,
        "result": written.result,
        # Nothing was written to any shard.
        "_shards": SHARDS if written.result != "noop" else dict.fromkeys(SHARDS, 0),
        "_seq_no": written.seq_no,
        "_primary_term": 1,
    }


def error_body(error: SearchError) -> dict[str, Any]:
    """Return the `error` of one answer of several."""
    return error.body()["error"]


def object_of(body: bytes) -> dict[str, Any]:
    """Return a body's JSON object, or an empty one for an empty body. Raises SearchError."""
    if not body.strip():
        return {}
    try:
        document: Any = parse_json(body)
    except ValueError as error:
        raise unreadable(f"the body is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise unreadable("the body is no JSON object")
    return cast("dict[str, Any]", document)


def members_of(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object under `name`, or an empty one. Raises SearchError."""
    members: Any = body.get(name) or {}
    if not isinstance(members, dict):
        raise unreadable(f"[{name}] is no object")
    return cast("dict[str, Any]", members)


def check_top(mapping: Mapping[str, Any]) -> None:
    """Raise SearchError for unsupported top-level members of a mapping."""
    for member in mapping:
        if member != "properties":
            raise not_supported(f"[{member}] of a mapping")


def merge(present: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Add fields to a mapping. Raises SearchError for a field whose type would change."""
    for name, field in changes.items():
        old = present.get(name)
        if old is None:
            present[name] = field
        elif "properties" in old or "properties" in field:
            merge(old.setdefault("properties", {}), field.get("properties") or {})
        elif old.get("type") != field.get("type"):
            raise SearchError(
                400,
                "illegal_argument_exception",
                f"mapper [{name}] cannot be changed from type [{old.get('type')}] to [{field.get('type')}]",
            )


def render_mapping(index: Index) -> dict[str, Any]:
    """Return an index's mapping in the form of answers."""
    return index.mapping if index.mapping.get("properties") else {}


def describe_index(index: Index, aliases: Mapping[str, Any]) -> dict[str, Any]:
    """Return an index and its aliases in the form of GET's answer."""
    settings = {
        "number_of_shards": "1",
        "number_of_replicas": "0",
        "uuid": index.uuid,
        "provided_name": index.name,
        "creation_date": str(index.created_ms),
    }
    return {"aliases": aliases, "mappings": render_mapping(index), "settings": {"index": settings}}


def index_row(index: Index, count: int, size_bytes: int) -> dict[str, str]:
    """Return an index's row of `_cat/indices`."""
    return {
        "health": "green",
        "status": "open",
        "index": index.name,
        "uuid": index.uuid,
        "pri": "1",
        "rep": "0",
        "docs.count": str(count),
        "docs.deleted": "0",
        "store.size": f"{size_bytes}b",
        "pri.store.size": f"{size_bytes}b",
    }


def source_filter(query: Mapping[str, str]) -> Any:
    """Return the parameter `_source` in the form of a search's member: true, false or a list of names."""
    text = query.get("_source", "true")
    return text != "false" if text in ("", "true", "false") else text.split(",")


def scroll_ids_of(
    body: Mapping[str, Any], query: Mapping[str, str], path: Sequence[str]
) -> list[str]:
    """Return the ids that a request about scrolls names in its body, its parameters or its path. Raises SearchError."""
    for member in body:
        if member not in ("scroll_id", "scroll"):
            raise bad_argument(
                f"Unknown parameter [{member}] in request body or parameter is of the wrong type[VALUE_STRING] "
            )
    value: Any = body.get("scroll_id", query.get("scroll_id", ",".join(path)))
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [part for one in values for part in str(one).split(",") if part]


def actions_of(body: bytes) -> Iterator[tuple[str, Mapping[str, Any], bytes]]:
    """Yield each action of a `_bulk`, its members, and its document. Raises SearchError for a malformed one."""
    if body and not body.endswith(b"\n"):
        raise SearchError(
            400,
            "illegal_argument_exception",
            "The bulk request must be terminated by a newline [\\n]",
        )
    lines = iter(body.split(b"\n"))
    number = 0
    for line in lines:
        number += 1
        if not line.strip():
            continue
        head = object_of(line)
        if len(head) != 1:
            raise _build_malformed_error(number)
        ((action, members),) = head.items()
        if action not in _ACTIONS or not isinstance(members, dict):
            raise _build_malformed_error(number)
        source = b"" if action == "delete" else next(lines, b"")
        number += action != "delete"
        yield action, cast("dict[str, Any]", members), source


def _build_malformed_error(line: int) -> SearchError:
    return SearchError(
        400,
        "illegal_argument_exception",
        f"Malformed action/metadata line [{line}], expected one of [create, delete, index, update]",
    )


def table(rows: Sequence[Mapping[str, str]], *, with_heads: bool) -> str:
    """Return rows in the form of `_cat`."""
    if not rows:
        return ""
    heads = list(rows[0])
    lines = [*([heads] if with_heads else []), *([row[head] for head in heads] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    padded = (
        " ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "".join(line.rstrip() + "\n" for line in padded)
