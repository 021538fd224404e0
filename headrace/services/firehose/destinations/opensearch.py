"""The destinations Amazonopensearchservice, Elasticsearch and AmazonOpenSearchServerless.

The index name of a record: the configured name, followed by the rotation period of its arrival time.

Source: docs.aws.amazon.com/firehose/latest/dev/basic-deliver.html, "Index rotation" (documented). Its example for
OneWeek uses ISO's week, which contradicts the rule in the text; headrace follows the rule.

Sends documents with OpenSearch's `_bulk`, and reads the server's answer for each document.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

from headrace.core.ports.messages import SearchDomainNotFound, SearchServer
from headrace.core.values import get_mapping
from headrace.services.firehose.destinations import common
from headrace.services.firehose.destinations import exchange as wire
from headrace.services.firehose.destinations.common import (
    EVERY_FIVE_MINUTES_S,
    Attempt,
    DeliveryRefusal,
    Outcome,
)
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.permits import find_collection_denial, find_domain_denial
from headrace.services.firehose.records import FailedRecord, Record, common_members
from headrace.services.firehose.transform import Stopping

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


def index_name(base: str, rotation: str, arrival_ms: int) -> str:
    """Return the index name for a record's arrival time (UTC)."""
    suffix = _SUFFIXES[rotation](datetime.fromtimestamp(arrival_ms / 1000, UTC))
    return f"{base}-{suffix}" if suffix else base


def compute_us_week(day: date) -> tuple[int, int]:
    """Return year and week: weeks begin on Sunday, and week 1 has the year's first Saturday."""
    saturday = day + timedelta(days=(5 - day.weekday()) % 7)
    return saturday.year, (saturday.timetuple().tm_yday - 1) // 7 + 1


def _render_week(moment: datetime) -> str:
    year, week = compute_us_week(moment.date())
    return f"{year}-w{week:02d}"


_SUFFIXES: dict[str, Callable[[datetime], str]] = {
    "NoRotation": lambda _: "",
    "OneHour": lambda moment: f"{moment:%Y-%m-%d-%H}",
    "OneDay": lambda moment: f"{moment:%Y-%m-%d}",
    "OneWeek": _render_week,
    "OneMonth": lambda moment: f"{moment:%Y-%m}",
}


RULES = common.KindRules(most_mib=100, backup_modes=("FailedDocumentsOnly", "AllDocuments"))
ANSWER_WITHIN_S = 180.0
MOST_ANSWER_BYTES = 256 * 1024 * 1024
_NO_ACCESS = {"401", "403"}


@dataclass(frozen=True, slots=True)
class RealServer:
    """A server behind a URL, which may hold a user and a password."""

    url: str
    stopping: threading.Event

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """See `SearchServer.ask`."""
        parts = urlsplit(self.url)
        headers = {"Content-Type": "application/x-ndjson"}
        if parts.username is not None:
            pair = f"{parts.username}:{parts.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        host = parts.netloc.rpartition("@")[2]
        url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}{path}"
        limits = wire.Limits(ANSWER_WITHIN_S, MOST_ANSWER_BYTES, self.stopping)
        answer = wire.exchange(method, url, headers, body, limits)
        return answer.status, answer.body


class SearchDestination:
    """See `Destination`. One of the three kinds, which differ in how they name the server and in a few members."""

    def __init__(self, kind: str, error_type: str, metrics: str, prefix: str) -> None:
        """Make a kind. `prefix`, `es` or `os`, begins the error line's members about the document."""
        self.kind = kind
        self.error_type = error_type
        self.metrics = metrics
        self._prefix = prefix

    @property
    def _is_serverless(self) -> bool:
        return self.kind == "AmazonOpenSearchServerless"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`. The sentences are assumed."""
        checked = common.check_configuration(configuration, RULES)
        if self._is_serverless:
            if not checked.get("CollectionEndpoint"):
                raise invalid("CollectionEndpoint is required.")
            return checked
        if bool(checked.get("DomainARN")) == bool(checked.get("ClusterEndpoint")):
            raise invalid("Exactly one of DomainARN or ClusterEndpoint must be specified.")
        checked.setdefault("IndexRotationPeriod", "OneDay")
        checked.setdefault("DocumentIdOptions", {"DefaultDocumentIdFormat": "FIREHOSE_DEFAULT"})
        return checked

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`. A domain in the update replaces an endpoint, and the other way round."""
        merged = common.merge_update(present, update)
        for name, other in (("DomainARN", "ClusterEndpoint"), ("ClusterEndpoint", "DomainARN")):
            if update.get(name) and not update.get(other):
                merged.pop(other, None)
        return self.check(merged)

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`."""
        shown = common.describe_configuration(configuration)
        if "VpcConfiguration" in shown:
            shown["VpcConfigurationDescription"] = shown.pop("VpcConfiguration")
        return {f"{self.kind}DestinationDescription": shown}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`."""
        return common.retry_s(configuration)

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return EVERY_FIVE_MINUTES_S

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. With FIREHOSE_DEFAULT a repeated request overwrites the same documents."""
        outcome = Outcome()
        problem = self._explain_denial(attempt)
        if problem:
            # The code and the first sentence: firehose/latest/dev/monitoring-with-cloudwatch-logs.html (documented).
            refused = DeliveryRefusal(
                "AOSS.AccessDenied" if self._is_serverless else "OS.AccessDenied",
                "Access was denied. Ensure that the provided IAM role associated with firehose is not deleted."
                f" {problem}",
            )
            common.take(outcome, attempt, attempt.records, refused)
            return outcome
        try:
            server = self._find_server(attempt)
        except SearchDomainNotFound as error:
            refused = DeliveryRefusal(UNREACHABLE, str(error))
            common.take(outcome, attempt, attempt.records, refused)
            return outcome
        documents = [self._build_document(record, attempt) for record in attempt.records]
        for batch in cut([len(document.source) for document in documents]):
            try:
                results = index_all(server, documents[batch.start : batch.stop])
            except wire.Stopped as error:
                raise Stopping(str(error)) from error
            for index, result in zip(batch, results, strict=True):
                common.take(outcome, attempt, [attempt.records[index]], result)
        if self.kind != "Elasticsearch":
            codes = {failure.code for failure in (*outcome.failed, *outcome.retry)}
            is_refused = float(bool(codes & _NO_ACCESS))
            outcome.measured.append((f"{self.metrics}.AuthFailure", is_refused, "Count"))
            outcome.measured.append(
                (f"{self.metrics}.DeliveryRejected", float(bool(codes)), "Count")
            )
        return outcome

    def _explain_denial(self, attempt: Attempt) -> str:
        """Return why the role may not write; empty when it may, or for a ClusterEndpoint, whose domain is unknown."""
        stream, guard = attempt.stream, attempt.ports.guard
        if self._is_serverless:
            return find_collection_denial(guard, stream)
        arn = str(stream.destination.get("DomainARN") or "")
        return find_domain_denial(guard, stream, arn) if arn else ""

    def _find_server(self, attempt: Attempt) -> SearchServer:
        configuration, stream, ports = (
            attempt.stream.destination,
            attempt.stream,
            attempt.ports,
        )
        endpoint = str(
            configuration.get("ClusterEndpoint") or configuration.get("CollectionEndpoint") or ""
        )
        arn = str(configuration.get("DomainARN") or "")
        if arn:
            _, _, _, region, account, name = arn.split(":", 5)
            server = ports.search.of_domain(
                name.removeprefix("domain/"), account=account, region=region
            )
        else:
            server = ports.search.of_endpoint(
                endpoint, account=stream.account, region=stream.region
            )
        if isinstance(server, str):
            return RealServer(server, ports.stopping)
        return server

    def _build_document(self, record: Record, attempt: Attempt) -> Document:
        configuration = attempt.stream.destination
        return Document(
            index=self._index(record, configuration),
            doc_id=self._build_document_id(record, configuration),
            source=record.data,
            type_name=str(configuration.get("TypeName") or "")
            if self.kind == "Elasticsearch"
            else "",
        )

    def _index(self, record: Record, configuration: Mapping[str, Any]) -> str:
        rotation = str(configuration.get("IndexRotationPeriod", "NoRotation"))
        return index_name(str(configuration["IndexName"]), rotation, record.arrival_ms)

    def _build_document_id(self, record: Record, configuration: Mapping[str, Any]) -> str:
        options = get_mapping(configuration, "DocumentIdOptions")
        is_left_out = options.get("DefaultDocumentIdFormat") == "NO_DOCUMENT_ID"
        return "" if is_left_out else record.record_id

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`. Source: basic-deliver.html (documented)."""
        configuration = attempt.stream.destination
        now_ms = attempt.ports.clock.now_ms()
        line = {
            **common_members(failure, now_ms, failure.record.data),
            "errorCode": failure.code,
            "errorMessage": failure.message,
            f"{self._prefix}DocumentId": self._build_document_id(failure.record, configuration),
            f"{self._prefix}IndexName": self._index(failure.record, configuration),
        }
        if self._prefix == "es":
            line["esTypeName"] = str(configuration.get("TypeName") or "")
        return line


# The error-output types of OpenSearch and (in older guides) Elasticsearch are documented; Serverless's is assumed.
SEARCH_DESTINATIONS = (
    SearchDestination(
        "Amazonopensearchservice",
        "AmazonOpenSearchService-failed",
        "DeliveryToAmazonOpenSearchService",
        "es",
    ),
    SearchDestination("Elasticsearch", "elasticsearch-failed", "DeliveryToElasticsearch", "es"),
    SearchDestination(
        "AmazonOpenSearchServerless",
        "AmazonOpenSearchServerless-failed",
        "DeliveryToAmazonOpenSearchServerless",
        "os",
    ),
)
SEARCH_KINDS = frozenset(destination.kind for destination in SEARCH_DESTINATIONS)
