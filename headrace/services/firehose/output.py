"""The objects of a delivery: what they are called, what is in them, and putting them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    FunctionInvoker,
    LogSink,
    MetricSink,
    ObjectStore,
    SchemaCatalog,
    StreamRecord,
)
from headrace.services.firehose import prefix, processors, serde
from headrace.services.firehose.failures import (
    CONVERSION_FAILED,
    ERROR_TYPES,
    PROCESSING_FAILED,
    Failed,
    conversion_lines,
    processing_lines,
)
from headrace.services.firehose.state import DeliveryStream, Intent
from headrace.services.firehose.transform import Origin, transform

if TYPE_CHECKING:
    from headrace.services.firehose.convert import Converted

DELIVERED = ""


@dataclass(frozen=True, slots=True)
class Ports:
    """What deliveries need of the rest of the cloud. `stopping` is set before the cloud goes down."""

    clock: Clock
    ids: Ids
    objects: ObjectStore
    schemas: SchemaCatalog
    functions: FunctionInvoker
    logs: LogSink
    metrics: MetricSink
    stopping: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Written:
    """What a delivery came to."""

    objects: int = 0
    size_bytes: int = 0
    failed: list[Failed] = field(default_factory=list[Failed])


def name_objects(stream: DeliveryStream, oldest_ms: int, ids: Ids, now_ms: int) -> dict[str, str]:
    """Return a delivery's object keys by error type. The random parts are drawn here, once."""
    at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d-%H-%M-%S")
    name = f"{stream.name}-{stream.version}-{at}-{ids.uuid()}"
    keys: dict[str, str] = {}
    for error_type in (DELIVERED, *ERROR_TYPES):
        text = stream.prefix
        if error_type:
            text = prefix.error_prefix(stream.prefix, stream.error_prefix, error_type)
        folder = prefix.evaluate(
            text,
            oldest_ms,
            time_zone=stream.time_zone,
            random=lambda: ids.hex(prefix.RANDOM_CHARS),
            error_type=error_type,
        )
        keys[error_type] = folder + name + ("" if error_type else _extension(stream))
    return keys


def _extension(stream: DeliveryStream) -> str:
    given = stream.destination.get("FileExtension")
    if given:
        return str(given)
    if stream.conversion is not None:
        return ".parquet"
    return ".gz" if stream.destination.get("CompressionFormat") == "GZIP" else ""


def write(
    stream: DeliveryStream,
    intent: Intent,
    batch: Mapping[str, Sequence[StreamRecord]],
    ports: Ports,
    *,
    again: bool,
) -> Written:
    """Put an intent's objects; durable as the cloud is set.

    Args:
        stream: whose destination is the intent's, whatever it has become since.
        intent: names the objects.
        batch: the intent's records, by shard.
        ports: the rest of the cloud.
        again: an earlier try may have put some: what this one does not put is taken away.
    """
    stream = replace(stream, destination=intent.destination, version=intent.version)
    bodies, written = _bodies(stream, intent, batch, ports)
    for error_type, key in intent.keys.items():
        body = bodies.get(error_type)
        if body is None:
            if again and any(i.key == key for i in ports.objects.list(stream.bucket, key)):
                ports.objects.delete(stream.bucket, key)
            continue
        encoding = None
        if not error_type and stream.destination.get("CompressionFormat") == "GZIP":
            # A fixed time in the header: a delivery done again gives the same bytes.
            body, encoding = gzip.compress(body, mtime=0), "gzip"
        ports.objects.put(
            stream.bucket,
            key,
            body,
            content_type="application/octet-stream",
            content_encoding=encoding,
        )
        if not error_type:
            written.objects, written.size_bytes = 1, len(body)
    return written


def _bodies(
    stream: DeliveryStream,
    intent: Intent,
    batch: Mapping[str, Sequence[StreamRecord]],
    ports: Ports,
) -> tuple[dict[str, bytes], Written]:
    """Return the objects' bytes by error type, only of those that are to be."""
    written = Written()
    bodies: dict[str, bytes] = {}
    records = [record for shard_id in sorted(batch) for record in batch[shard_id]]
    function = processors.function(stream.destination)
    if function is not None:
        records, failed = transform(
            batch,
            function,
            Origin(stream.arn, stream.region, stream.source_arn),
            functions=ports.functions,
            new_id=ports.ids.uuid,
            stopping=ports.stopping.is_set,
        )
        if failed:
            written.failed += failed
            bodies[PROCESSING_FAILED] = processing_lines(failed, intent.decided_ms, function.arn)
    if stream.conversion is None:
        delimiter = processors.delimiter(stream.destination)
        if records:
            bodies[DELIVERED] = b"".join([record.data + delimiter for record in records])
        return bodies, written
    table = _table(stream)
    made = _convert(stream, table, records, ports)
    if made.failed:
        written.failed += made.failed
        bodies[CONVERSION_FAILED] = conversion_lines(made.failed, intent.decided_ms, table)
    if made.rows:
        bodies[DELIVERED] = made.data
    return bodies, written


def _table(stream: DeliveryStream) -> dict[str, str]:
    """Return the table that a conversion is to, as AWS's error output names it."""
    assert stream.conversion is not None
    given = stream.conversion["SchemaConfiguration"]
    return {
        "catalogId": given.get("CatalogId") or stream.account,
        "databaseName": given["DatabaseName"],
        "tableName": given["TableName"],
        "region": given.get("Region") or stream.region,
        "versionId": given.get("VersionId") or "LATEST",
    }


def _convert(
    stream: DeliveryStream, table: Mapping[str, str], records: list[StreamRecord], ports: Ports
) -> Converted:
    # pyarrow takes a fifth of a second to import, and a cloud must be healthy within one.
    from headrace.services.firehose import convert

    assert stream.conversion is not None
    schema = ports.schemas.table(
        table["databaseName"],
        table["tableName"],
        account=table["catalogId"],
        region=table["region"],
    )
    return convert.to_parquet(
        records, schema, serde.reading(stream.conversion), serde.writing(stream.conversion)
    )
