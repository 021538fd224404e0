"""The objects of a delivery: transforming and converting the records, and putting the result into the bucket."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.core.ports import StreamRecord
from headrace.services.firehose import serde
from headrace.services.firehose.failures import (
    CONVERSION_FAILED,
    DELIVERED,
    PROCESSING_FAILED,
    Failed,
    conversion_lines,
    processing_lines,
)
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.state import DeliveryStream, Intent
from headrace.services.firehose.transform import transform

if TYPE_CHECKING:
    from headrace.services.firehose.convert import Converted


@dataclass(slots=True)
class Written:
    """What a delivery has put: objects, bytes, and the records that failed."""

    objects: int = 0
    size_bytes: int = 0
    failed: list[Failed] = field(default_factory=list[Failed])


def write(
    stream: DeliveryStream,
    intent: Intent,
    batch: Mapping[str, Sequence[StreamRecord]],
    ports: Ports,
    *,
    again: bool,
) -> Written:
    """Put an intent's objects, as durable as `--durability` says.

    Args:
        stream: the delivery stream. The intent's destination is used, even if the stream has another by now.
        intent: names the objects.
        batch: the intent's records, by shard.
        ports: the rest of the cloud.
        again: an earlier try may have put some objects; those that this try does not put are deleted.
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
            # A fixed time in the header, so that a repeated delivery gives the same bytes.
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
    """Return the bytes of the objects to put, by error type."""
    written = Written()
    bodies: dict[str, bytes] = {}
    records = [record for shard_id in sorted(batch) for record in batch[shard_id]]
    parameters = stream.processors.get("Lambda")
    if parameters is not None:
        records, failed = transform(batch, stream, parameters, ports)
        if failed:
            written.failed += failed
            bodies[PROCESSING_FAILED] = processing_lines(
                failed, intent.decided_ms, parameters["LambdaArn"]
            )
    if stream.conversion is None:
        delimiter = _delimiter(stream)
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


def _delimiter(stream: DeliveryStream) -> bytes:
    """Return what follows each record; nothing without the processor."""
    parameters = stream.processors.get("AppendDelimiterToRecord")
    if parameters is None:
        return b""
    return parameters.get("Delimiter", "\\n").replace("\\n", "\n").replace("\\t", "\t").encode()


def _table(stream: DeliveryStream) -> dict[str, str]:
    """Return the Glue table of a conversion, as AWS's error output names it."""
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
    serde.check_can_convert()
    from headrace.services.firehose import convert

    assert stream.conversion is not None
    schema = ports.schemas.table(
        table["databaseName"],
        table["tableName"],
        account=table["catalogId"],
        region=table["region"],
    )
    return convert.to_parquet(records, schema, *serde.options_of(stream.conversion))
