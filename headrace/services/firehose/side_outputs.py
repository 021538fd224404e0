"""Puts the error output and the backup of a delivery, which go to S3 beside the destination."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.core.ports import BucketNotFound
from headrace.services.firehose import output
from headrace.services.firehose.buffers import BACKUP, Buffer
from headrace.services.firehose.destinations.base import Attempt, Destination, ErrorFile
from headrace.services.firehose.failures import (
    DELIVERED,
    PROCESSING_FAILED,
    SOURCE_BACKUP,
    FailedRecord,
    build_processing_line,
    render_lines,
)
from headrace.services.firehose.ports import Ports


@dataclass(frozen=True, slots=True)
class SideOutputs:
    """The number of error objects that were put, and the records and bytes of the backup."""

    outputs: int
    backup_records: int = 0
    backup_bytes: int = 0


def put_side_outputs(
    attempt: Attempt, destination: Destination, buffer: Buffer, refused: Sequence[FailedRecord]
) -> SideOutputs:
    """Put the error output and the backup; delete objects of an earlier try that this one does not put.

    Args:
        attempt: the current try.
        destination: the destination of `attempt`.
        buffer: the delivered records, and those whose processing failed.
        refused: the records that the destination refused for good.
    """
    intent, stream, ports = attempt.intent, attempt.stream, attempt.ports
    bodies: dict[str, bytes] = {}
    by_kind: dict[str, list[FailedRecord]] = {}
    for failure in buffer.failed:
        kind = failure.error_type or PROCESSING_FAILED
        # An intent stored by an earlier version of headrace may lack a key for some kind of object.
        by_kind.setdefault(kind if kind in intent.keys else PROCESSING_FAILED, []).append(failure)
    for kind, failed in by_kind.items():
        bodies[kind] = render_lines(
            build_processing_line(failure, intent.decided_ms) for failure in failed
        )
    if refused:
        for kind in {failure.error_type or destination.error_type for failure in refused}:
            of_kind = [
                failure
                for failure in refused
                if (failure.error_type or destination.error_type) == kind
            ]
            # SideOutputs records that were not processed, there may be those that no object could take.
            bodies[kind] = bodies.get(kind, b"") + (
                destination.error_body(of_kind, attempt)
                if isinstance(destination, ErrorFile)
                else render_lines(destination.error_line(failure, attempt) for failure in of_kind)
            )
    backup, datas = stream.backup, list[bytes]()
    if backup is not None:
        if stream.destination["S3BackupMode"] == "Enabled":
            datas = [record.source.data for record in buffer.sources]
        else:
            kept = buffer.sources if intent.partition == BACKUP else buffer.records
            datas = [record.data for record in kept]
        if datas:
            delimiter = output.find_delimiter(stream.destination)
            bodies[SOURCE_BACKUP] = delimiter.join(datas)
    for name, key in intent.keys.items():
        if name == DELIVERED:
            continue
        s3 = backup if name == SOURCE_BACKUP and backup is not None else stream.s3
        _put(ports, s3, key, bodies.get(name), again=attempt.again, plain=name != SOURCE_BACKUP)
    return SideOutputs(len(bodies.keys() - {SOURCE_BACKUP}), len(datas), sum(map(len, datas)))


def _put(
    ports: Ports,
    s3: Mapping[str, object],
    key: str,
    body: bytes | None,
    *,
    again: bool,
    plain: bool,
) -> None:
    bucket = str(s3["BucketARN"]).rpartition(":")[2]
    if body is None:
        # A bucket that is gone has no object of an earlier try.
        with contextlib.suppress(BucketNotFound):
            if again and any(item.key == key for item in ports.objects.list(bucket, key)):
                ports.objects.delete(bucket, key)
        return
    encoding = None
    kind = str(s3.get("CompressionFormat") or "UNCOMPRESSED")
    if not plain and kind != "UNCOMPRESSED":
        body, encoding = output.compress_as(kind, body, key)
    output.put_beside(ports, s3, key, body, encoding, is_backup=not plain)
