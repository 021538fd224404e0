"""Processes records in AWS's order: deaggregation, decompression, splitting, the function, the partition keys.

Pure except for the function and the queries, which run in other processes. A record that fails at a stage goes to the
error output with the source's data.

Deaggregates records of the Kinesis Producer Library: many user records in one Kinesis record.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message with a table of keys and
records that refer to it, and the message's MD5. A record that only begins like this is passed on unchanged.
`headrace.spark.reading` has its own reader of the format: it is sent to EMR in a zip without the rest of headrace.

Decompresses a record of CloudWatch Logs, and splits a record into parts, before the function gets them.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any, cast

import msgspec

from headrace.core.ports import StreamRecord
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.prefix import Keys, build_keys
from headrace.services.firehose.records import DECOMPRESSION_FAILED, FailedRecord, Ports, Record
from headrace.services.firehose.state import DeliveryStream, processors_of
from headrace.services.firehose.transform import Function, function_of, transform

# A record of 1,000 KiB can decompress to a thousand times its size.
MOST_INFLATED_BYTES = 64 * 1024 * 1024
# Source: docs.aws.amazon.com/firehose/latest/dev/dynamic-partitioning-multirecord-deaggergation.html (documented).
MOST_SUB_RECORDS = 500
_GZIP = 31
_decode = msgspec.json.Decoder().decode
_scan = json.JSONDecoder().raw_decode


class UnsplittableRecord(ValueError):
    """The record does not have the form that the processor needs."""


def inflate_logs(data: bytes) -> bytes:
    """Decompress a record of CloudWatch Logs: all members of a GZIP file. Raises UnsplittableRecord."""
    members: list[bytes] = []
    left, room = data, MOST_INFLATED_BYTES
    while left:
        inflate = zlib.decompressobj(_GZIP)
        try:
            part = inflate.decompress(left, room + 1)
        except zlib.error as error:
            raise UnsplittableRecord(f"not a GZIP file: {error}") from error
        if len(part) > room:
            raise UnsplittableRecord(f"it inflates to more than {MOST_INFLATED_BYTES} bytes")
        if not inflate.eof:
            raise UnsplittableRecord("the GZIP file ends early")
        members.append(part)
        room -= len(part)
        left = inflate.unused_data
    if not members:
        raise UnsplittableRecord("the record is empty")
    return b"".join(members)


def parse_logs(text: bytes) -> dict[str, Any]:
    """Decompress a record of CloudWatch Logs and check that it is JSON. Raises UnsplittableRecord."""
    try:
        envelope = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnsplittableRecord(f"not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise UnsplittableRecord("not a JSON object")
    return cast("dict[str, Any]", envelope)


def messages_of(envelope: Mapping[str, Any]) -> bytes:
    """Return the messages of the log events, each followed by a newline; none for a control message."""
    kind = envelope.get("messageType")
    if kind == "CONTROL_MESSAGE":
        return b""
    events = envelope.get("logEvents")
    if kind != "DATA_MESSAGE" or not isinstance(events, list):
        raise UnsplittableRecord("not a message of CloudWatch Logs")
    messages: list[str] = []
    for event in cast("list[Any]", events):
        message = cast("dict[str, Any]", event).get("message") if isinstance(event, dict) else None
        if not isinstance(message, str):
            raise UnsplittableRecord("a log event has no message")
        messages.append(message)
    return "".join(f"{message}\n" for message in messages).encode()


def delimiter_of_parameter(parameters: Mapping[str, str]) -> bytes:
    """Return the delimiter of a RecordDeAggregation processor with DELIMITED. Raises AwsError."""
    delimiter = parameters.get("Delimiter")
    if not delimiter:
        raise invalid("Delimiter should be present for DELIMITED")
    try:
        return base64.b64decode(delimiter, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Delimiter must be base64 encoded.") from error


def json_parts(data: bytes) -> list[bytes]:
    """Return the JSON objects in a record, in sequence or on separate lines. Raises UnsplittableRecord."""
    try:
        if isinstance(_decode(data), dict):
            return [data.strip()]
    except (msgspec.DecodeError, RecursionError):
        pass  # Probably several values: the code below finds them.
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnsplittableRecord("not UTF-8") from error
    parts: list[bytes] = []
    offset = 0
    while offset < len(text):
        if text[offset].isspace():
            offset += 1
            continue
        try:
            value, end = _scan(text, offset)
        except (ValueError, RecursionError) as error:
            raise UnsplittableRecord(f"not JSON: {error}") from error
        if not isinstance(value, dict):
            raise UnsplittableRecord("a part is not a JSON object")
        parts.append(text[offset:end].encode())
        offset = end
        if len(parts) > MOST_SUB_RECORDS:
            raise UnsplittableRecord(f"a record can have at most {MOST_SUB_RECORDS} parts")
    if not parts:
        raise UnsplittableRecord("the record is empty")
    return parts


def split_at_delimiter(data: bytes, delimiter: bytes) -> list[bytes]:
    """Split a record at a delimiter; leave out empty parts. Raises UnsplittableRecord."""
    parts = [part for part in data.split(delimiter) if part]
    if len(parts) > MOST_SUB_RECORDS:
        raise UnsplittableRecord(f"a record can have at most {MOST_SUB_RECORDS} parts")
    if not parts:
        raise UnsplittableRecord("the record is empty")
    return parts


MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_MOST_VARINT_BYTES = 10
_MOST_KEY_CHARS = 256
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def split_aggregate(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return the partition keys and data of the user records in `data`; None if it is not an aggregate."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        return None
    body, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if md5(body, usedforsecurity=False).digest() != digest:
        return None
    keys: list[str] = []
    user_records: list[tuple[int, bytes]] = []
    try:
        for number, value in _iterate_fields(body):
            if number == 1 and isinstance(value, bytes):
                keys.append(value.decode()[:_MOST_KEY_CHARS])
            elif number == 3 and isinstance(value, bytes):
                user_records.append(_record(value))
        return [(keys[index], payload) for index, payload in user_records]
    except (IndexError, ValueError):
        return None


def _record(body: bytes) -> tuple[int, bytes]:
    key, payload = 0, b""
    for number, value in _iterate_fields(body):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 3 and isinstance(value, bytes):
            payload = value
    return key, payload


def _iterate_fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a message's fields: number and value. Raises ValueError, IndexError."""
    offset = 0
    while offset < len(body):
        tag, offset = _parse_varint(body, offset)
        kind, size = tag & 7, 0
        if kind == _VARINT:
            value, offset = _parse_varint(body, offset)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, offset = _parse_varint(body, offset)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not a protobuf message")
        if offset + size > len(body):
            raise ValueError("a field goes beyond the end")
        yield tag >> 3, body[offset : offset + size]
        offset += size


def _parse_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for turn in range(_MOST_VARINT_BYTES):
        byte = body[offset + turn]
        value |= (byte & 0x7F) << (7 * turn)
        if byte < 0x80:
            return value, offset + turn + 1
    raise ValueError("a number is too long")


_NOT_SPLIT = "DynamicPartitioning.RecordDeaggregationFailed"
# Both observed by others in AWS's error output, 2026.
_NOT_INFLATED = "Decompression failed."


@dataclass(slots=True)
class ProcessedRecords:
    """The result of processing: records to deliver, failed records, and the source's records for a backup.

    `measured` are the values of the processors' metrics.
    """

    records: list[Record] = field(default_factory=list[Record])
    failed: list[FailedRecord] = field(default_factory=list[FailedRecord])
    sources: list[Record] = field(default_factory=list[Record])
    measured: list[Measure] = field(default_factory=list[Measure])


class RecordProcessor:
    """The processors of a delivery stream's destination. Used by one thread at a time."""

    def __init__(self, stream: DeliveryStream, ports: Ports) -> None:
        self._stream = stream
        self._ports = ports
        self._has_aggregates = stream.has_aggregates
        self._backs_up = stream.destination.get("S3BackupMode") == "Enabled"
        self._processors = processors_of(stream.destination)
        self._keys: Keys | None = build_keys(stream, ports.queries)
        self._stages = self._build_stages()
        parameters = self._processors.get("Lambda")
        self.function: Function | None = function_of(parameters) if parameters else None

    def run(self, batch: Mapping[str, Sequence[StreamRecord]]) -> ProcessedRecords:
        """Process records by shard, in the shards' order; return the unprocessed ones too, if they are backed up.

        Raises Stopping: the records must be processed later.
        """
        processed = ProcessedRecords()
        processed.records = self._split_aggregates(batch)
        if self._backs_up:
            processed.sources = processed.records
        for stage in self._stages:
            counts, before = processed.records, len(processed.failed)
            processed.records = _run_stage(counts, stage, processed.failed)
            if stage[1] == DECOMPRESSION_FAILED:
                processed.measured += _measure_inflation(
                    processed.records, processed.failed[before:]
                )
        if self.function is not None:
            processed.records, failed = transform(
                processed.records, self._stream, self.function, self._ports, processed.measured
            )
            processed.failed += failed
        if self._keys is not None:
            began_s = self._ports.clock.monotonic_s()
            processed.records, failed = self._keys.assign(processed.records)
            processed.failed += failed
            if self._keys.has_query:
                took_ms = (self._ports.clock.monotonic_s() - began_s) * 1000
                processed.measured.append(("JQProcessing.Duration", took_ms, "Milliseconds"))
        return processed

    def _split_aggregates(self, batch: Mapping[str, Sequence[StreamRecord]]) -> list[Record]:
        records: list[Record] = []
        for shard_id in sorted(batch):
            for source in batch[shard_id]:
                users = split_aggregate(source.data) if self._has_aggregates else None
                if users is None:
                    records.append(Record(source.data, source, shard_id))
                    continue
                records += [
                    Record(
                        data,
                        msgspec.structs.replace(source, partition_key=key, data=data),
                        shard_id,
                        sub,
                    )
                    for sub, (key, data) in enumerate(users)
                ]
        return records

    def _build_stages(self) -> list[tuple[str, str, Callable[[bytes], list[bytes]]]]:
        stages: list[tuple[str, str, Callable[[bytes], list[bytes]]]] = []
        if "Decompression" in self._processors:
            parameters = self._processors.get("CloudWatchLogProcessing", {})
            messages_only = parameters.get("DataMessageExtraction", "false").lower() == "true"
            stages.append(
                (
                    _NOT_INFLATED,
                    DECOMPRESSION_FAILED,
                    lambda data: [_unpack_logs(data, messages_only)],
                )
            )
        parameters = self._processors.get("RecordDeAggregation")
        if parameters is not None:
            if parameters.get("SubRecordType") == "DELIMITED":
                delimiter = delimiter_of_parameter(parameters)
                stages.append((_NOT_SPLIT, "", lambda data: split_at_delimiter(data, delimiter)))
            else:
                stages.append((_NOT_SPLIT, "", json_parts))
        return stages


def _measure_inflation(records: Sequence[Record], failed: Sequence[FailedRecord]) -> list[Measure]:
    return [
        ("OutputDecompressedRecords.Success", len(records), "Count"),
        ("OutputDecompressedBytes.Success", sum(len(r.data) for r in records), "Bytes"),
        ("OutputDecompressedRecords.Failed", len(failed), "Count"),
        ("OutputDecompressedBytes.Failed", sum(len(f.record.data) for f in failed), "Bytes"),
    ]


def _run_stage(
    records: list[Record],
    stage: tuple[str, str, Callable[[bytes], list[bytes]]],
    failed: list[FailedRecord],
) -> list[Record]:
    code, error_type, split = stage
    split_records: list[Record] = []
    for record in records:
        try:
            parts = split(record.data)
        except UnsplittableRecord as error:
            failed.append(FailedRecord(record, code, str(error), error_type=error_type))
            continue
        if len(parts) == 1:
            record.data = parts[0]
            split_records.append(record)
            continue
        # Each part fails alone. If the whole record failed, a replay of the error output would repeat the other parts.
        split_records += [
            Record(
                part,
                msgspec.structs.replace(record.source, data=part),
                record.shard_id,
                record.sub * 1000 + index,
            )
            for index, part in enumerate(parts)
        ]
    return split_records


def _unpack_logs(data: bytes, messages_only: bool) -> bytes:
    text = inflate_logs(data)
    envelope = parse_logs(text)
    return messages_of(envelope) if messages_only else text
