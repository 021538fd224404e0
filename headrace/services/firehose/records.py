"""A record on its way through a delivery stream, the error output where it may end, and what deliveries depend on."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    ControlPlane,
    FunctionInvoker,
    Guard,
    LogSink,
    MetricSink,
    NoGuard,
    ObjectStore,
    SchemaCatalog,
    StreamRecord,
)
from headrace.core.ports.messages import SearchDomainNotFound, SearchDomains, SearchServer
from headrace.core.ports.warehouses import NoWarehouses, Warehouses
from headrace.services.firehose.errors import BATCH_RECORDS
from headrace.services.firehose.permits import StreamKeys
from headrace.services.firehose.queries import Queries

# Takes a secret's ARN, account and region; returns its text, or None when it does not exist.
SecretReader = Callable[[str, str, str], str | None]


def find_no_secret(arn: str, account: str, region: str) -> str | None:
    """Return None: the lookup for a cloud without Secrets Manager."""
    return None


class NoSearchDomains:
    """The `SearchDomains` of a cloud without OpenSearch: it finds no domain."""

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_domain`."""
        raise SearchDomainNotFound(f"There is no domain {name} in {region}.")

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_endpoint`: every endpoint is a real server's."""
        return url


@dataclass(frozen=True, slots=True)
class Ports:
    """The dependencies of all deliveries. `guard` checks roles' permissions; `stopping` is set before the cloud stops.

    `control` calls the Glue catalogue of Iceberg tables; None without Glue.
    """

    clock: Clock
    ids: Ids
    objects: ObjectStore
    schemas: SchemaCatalog
    functions: FunctionInvoker
    logs: LogSink
    metrics: MetricSink
    guard: Guard = field(default_factory=NoGuard)
    queries: Queries = field(default_factory=Queries)
    search: SearchDomains = field(default_factory=NoSearchDomains)
    secrets: SecretReader = find_no_secret
    control: ControlPlane | None = None
    warehouses: Warehouses = field(default_factory=NoWarehouses)
    keys: StreamKeys = field(default_factory=StreamKeys)
    stopping: threading.Event = field(default_factory=threading.Event)


# A put's RecordId is the number of the request's first record, then the record's place in the request. The ids of a
# request differ only in their last digits, which makes them fast to write.
PLACES = tuple(f"{place:03}" for place in range(BATCH_RECORDS))


class Record(msgspec.Struct, gc=False):
    """A source record, or part of one, during and after processing. It does not change once it is in a buffer.

    Attributes:
        data: the data to deliver, without the delimiter that a processor appends at the end.
        source: the source's record, with its data before processing.
        shard_id: the source's shard; always the same for direct puts.
        sub: its index among the records made from one source record.
        keys: partition keys from the function.
        partition: with dynamic partitioning, the name of its buffer.
        otf: a function's `otfMetadata`: the Iceberg table and the operation for the record.
    """

    data: bytes
    source: StreamRecord
    shard_id: str
    sub: int = 0
    keys: Mapping[str, str] | None = None
    otf: Mapping[str, str] | None = None
    partition: str = ""

    @property
    def record_id(self) -> str:
        """Its id, which is the same over retries, restarts and kills: `<sequence number>.<sub>`."""
        return f"{self.source.sequence_number}.{self.sub}"

    @property
    def arrival_ms(self) -> int:
        """When the source accepted the record."""
        return self.source.approximate_arrival_ms


# The contents of a delivery's object: delivered records, the source's records, or errors of one type.
DELIVERED = ""
SOURCE_BACKUP = "source-backup"
CONVERSION_FAILED = "format-conversion-failed"
PROCESSING_FAILED = "processing-failed"
DECOMPRESSION_FAILED = "decompression-failed"


@dataclass(slots=True)
class FailedRecord:
    """A record that could not be processed, converted or delivered, and why.

    Attributes:
        attempts: how often it was tried.
        function_arn: the function that failed to process it.
        error_type: its error-output type; empty for the type of its stage.
        log_message: the log's message, if it differs from `message`.
    """

    record: Record
    code: str
    message: str
    attempts: int = 1
    function_arn: str = ""
    error_type: str = ""
    log_message: str = ""


def common_members(failure: FailedRecord, now_ms: int, raw: bytes) -> dict[str, Any]:
    """Return the members that every error line has. `raw` is its data."""
    return {
        "attemptsMade": failure.attempts,
        "arrivalTimestamp": failure.record.arrival_ms,
        "attemptEndingTimestamp": now_ms,
        "rawData": base64.b64encode(raw).decode(),
    }


def build_processing_line(failure: FailedRecord, now_ms: int) -> dict[str, Any]:
    """Return the error line of a record whose processing failed, with the source's data.

    Source: docs.aws.amazon.com/firehose/latest/dev/data-transformation-failure-handling.html (documented). Only
    `lambdaARN` differs: the page writes `lambdaArn`, AWS was observed to write `lambdaARN`.
    """
    line = {
        **common_members(failure, now_ms, failure.record.source.data),
        "errorCode": failure.code,
        "errorMessage": failure.message,
    }
    if failure.function_arn:
        line["lambdaARN"] = failure.function_arn
    return line


def conversion_line(failure: FailedRecord, now_ms: int, table: Mapping[str, str]) -> dict[str, Any]:
    """Return the error line of a record that does not fit `table` (AWS's `dataCatalogTable`).

    Source: docs.aws.amazon.com/firehose/latest/dev/record-format-conversion-error-handling.html (documented).
    """
    return {
        **common_members(failure, now_ms, failure.record.data),
        "lastErrorCode": failure.code,
        "lastErrorMessage": failure.message,
        "sequenceNumber": failure.record.source.sequence_number,
        "subSequenceNumber": failure.record.sub,
        "dataCatalogTable": dict(table),
    }


def render_lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """Return JSON lines."""
    return "".join(json.dumps(item) + "\n" for item in objects).encode()
