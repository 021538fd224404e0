"""Sends documents with OpenSearch's `_bulk`, and reads the server's answer for each document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.ports.search import SearchServer
from headrace.services.firehose.destinations import exchange as wire
from headrace.services.firehose.destinations.outcome import DeliveryRefusal

# The largest request that AWS's smallest domains accept.
# docs.aws.amazon.com/opensearch-service/latest/developerguide/limits.html (documented: 10 MiB)
MOST_BODY_BYTES = 10 * 1024 * 1024
# The size of a document's action line.
_AROUND_BYTES = 300
# AWS's sentences for these are unknown; they are assumed.
UNREACHABLE = "OS.ConnectionFailed"


@dataclass(frozen=True, slots=True)
class Document:
    """A document to index.

    Attributes:
        doc_id: if empty, the server generates one, and another one for a repeated request.
        type_name: the document type, for Elasticsearch 6 and earlier; empty for none.
    """

    index: str
    doc_id: str
    source: bytes
    type_name: str = ""


def cut(sizes: Sequence[int]) -> list[range]:
    """Split documents of these sizes into requests."""
    batches: list[range] = []
    start, body_bytes = 0, 0
    for index, size_bytes in enumerate(sizes):
        more = size_bytes + _AROUND_BYTES
        if index > start and body_bytes + more > MOST_BODY_BYTES:
            batches.append(range(start, index))
            start, body_bytes = index, 0
        body_bytes += more
    if start < len(sizes):
        batches.append(range(start, len(sizes)))
    return batches


def index_all(server: SearchServer, documents: Sequence[Document]) -> list[DeliveryRefusal | None]:
    """Index documents in one request; return for each why it was refused, or None. Raises exchange.Stopped."""
    results: list[DeliveryRefusal | None] = [_refuse_unfit(document) for document in documents]
    sent = [index for index, result in enumerate(results) if result is None]
    if not sent:
        return results
    body = b"".join([_render_lines(documents[index]) for index in sent])
    try:
        status, answer = server.ask("POST", "/_bulk", body)
    except wire.Stopped:
        raise
    except wire.ExchangeFailed as error:
        refused: Sequence[DeliveryRefusal | None] = [
            DeliveryRefusal(UNREACHABLE, str(error))
        ] * len(sent)
    else:
        refused = _read_refusals(status, answer, len(sent))
    for index, result in zip(sent, refused, strict=True):
        results[index] = result
    return results


def _refuse_unfit(document: Document) -> DeliveryRefusal | None:
    """Refuse a document that is not one line. The server refuses other invalid JSON."""
    source = document.source.strip()
    if source and b"\n" not in source and b"\r" not in source:
        return None
    # Documented: a record must be flattened to a single line; AWS's error for one that is not is assumed.
    reason = {"type": "mapper_parsing_exception", "reason": "failed to parse: not a single line"}
    return DeliveryRefusal("400", json.dumps(reason, separators=(",", ":")), is_retryable=False)


def _render_lines(document: Document) -> bytes:
    action: dict[str, str] = {"_index": document.index}
    if document.type_name:
        action["_type"] = document.type_name
    if document.doc_id:
        action["_id"] = document.doc_id
    return json.dumps({"index": action}).encode() + b"\n" + document.source.strip() + b"\n"


def _read_refusals(status: int, answer: bytes, count: int) -> list[DeliveryRefusal | None]:
    shown = answer.decode("utf-8", "replace")[:8192]
    if status != 200:
        return [DeliveryRefusal(str(status), shown)] * count
    try:
        items = json.loads(answer)["items"]
        refusals = [_read_item_refusal(next(iter(item.values()))) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        refusals = []
    if len(refusals) != count:
        return [DeliveryRefusal("500", f"The answer is none of _bulk: {shown}")] * count
    return refusals


def _read_item_refusal(item: Mapping[str, Any]) -> DeliveryRefusal | None:
    """Return why one item was refused, else None. Source of the error line's two members: basic-deliver.html."""
    status = int(item["status"])
    if 200 <= status < 300:
        return None
    error: Any = item.get("error", "")
    if isinstance(error, dict):
        kept = {k: v for k, v in cast("dict[str, Any]", error).items() if k in _SHOWN}
        error = json.dumps(kept, separators=(",", ":"))
    return DeliveryRefusal(str(status), str(error))


_SHOWN = frozenset({"type", "reason", "caused_by"})
