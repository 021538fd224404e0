"""Processes records in AWS's order: deaggregation, decompression, splitting, the function, the partition keys.

Pure except for the function and the queries, which run in other processes. A record that fails at a stage goes to the
error output with the source's data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from headrace.core.ports import StreamRecord
from headrace.services.firehose.aggregates import taken_apart
from headrace.services.firehose.failures import DECOMPRESSION_FAILED, FailedRecord
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.partitions import Keys, keys_of
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.records import Record
from headrace.services.firehose.splitting import (
    UnsplittableRecord,
    checked_logs,
    delimited_parts,
    delimiter_of_parameter,
    inflated,
    json_parts,
    messages_of,
)
from headrace.services.firehose.state import DeliveryStream, processors_of
from headrace.services.firehose.transform import Function, function_of, transform

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
        self._processors = processors_of(stream.destination)
        self._keys: Keys | None = keys_of(stream, ports.queries)
        self._stages = self._made_stages()
        parameters = self._processors.get("Lambda")
        self.function: Function | None = function_of(parameters) if parameters else None

    def run(self, batch: Mapping[str, Sequence[StreamRecord]], *, backup: bool) -> ProcessedRecords:
        """Process records by shard, in the shards' order. With `backup`, also return the unprocessed records.

        Raises Stopping: the records must be processed later.
        """
        made = ProcessedRecords()
        made.records = self._taken_apart(batch)
        if backup:
            made.sources = made.records
        for stage in self._stages:
            given, before = made.records, len(made.failed)
            made.records = _staged(given, stage, made.failed)
            if stage[1] == DECOMPRESSION_FAILED:
                made.measured += _inflation(made.records, made.failed[before:])
        if self.function is not None:
            made.records, failed = transform(
                made.records, self._stream, self.function, self._ports, made.measured
            )
            made.failed += failed
        if self._keys is not None:
            began_s = self._ports.clock.monotonic_s()
            made.records, failed = self._keys.given_to(made.records)
            made.failed += failed
            if self._keys.has_query:
                took_ms = (self._ports.clock.monotonic_s() - began_s) * 1000
                made.measured.append(("JQProcessing.Duration", took_ms, "Milliseconds"))
        return made

    def _taken_apart(self, batch: Mapping[str, Sequence[StreamRecord]]) -> list[Record]:
        of_kinesis = bool(self._stream.source_arn)
        records: list[Record] = []
        for shard_id in sorted(batch):
            for source in batch[shard_id]:
                users = taken_apart(source.data) if of_kinesis else None
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

    def _made_stages(self) -> list[tuple[str, str, Callable[[bytes], list[bytes]]]]:
        stages: list[tuple[str, str, Callable[[bytes], list[bytes]]]] = []
        if "Decompression" in self._processors:
            parameters = self._processors.get("CloudWatchLogProcessing", {})
            wanted = parameters.get("DataMessageExtraction", "false").lower() == "true"
            stages.append(
                (_NOT_INFLATED, DECOMPRESSION_FAILED, lambda data: [_unpacked(data, wanted)])
            )
        parameters = self._processors.get("RecordDeAggregation")
        if parameters is not None:
            if parameters.get("SubRecordType") == "DELIMITED":
                delimiter = delimiter_of_parameter(parameters)
                stages.append((_NOT_SPLIT, "", lambda data: delimited_parts(data, delimiter)))
            else:
                stages.append((_NOT_SPLIT, "", json_parts))
        return stages


def _inflation(records: Sequence[Record], failed: Sequence[FailedRecord]) -> list[Measure]:
    return [
        ("OutputDecompressedRecords.Success", len(records), "Count"),
        ("OutputDecompressedBytes.Success", sum(len(r.data) for r in records), "Bytes"),
        ("OutputDecompressedRecords.Failed", len(failed), "Count"),
        ("OutputDecompressedBytes.Failed", sum(len(f.record.data) for f in failed), "Bytes"),
    ]


def _staged(
    records: list[Record],
    stage: tuple[str, str, Callable[[bytes], list[bytes]]],
    failed: list[FailedRecord],
) -> list[Record]:
    code, error_type, split = stage
    made: list[Record] = []
    for record in records:
        try:
            parts = split(record.data)
        except UnsplittableRecord as error:
            failed.append(FailedRecord(record, code, str(error), error_type=error_type))
            continue
        if len(parts) == 1:
            record.data = parts[0]
            made.append(record)
            continue
        # Each part fails alone. If the whole record failed, a replay of the error output would repeat the other parts.
        made += [
            Record(
                part,
                msgspec.structs.replace(record.source, data=part),
                record.shard_id,
                record.sub * 1000 + place,
            )
            for place, part in enumerate(parts)
        ]
    return made


def _unpacked(data: bytes, messages_only: bool) -> bytes:
    text = inflated(data)
    envelope = checked_logs(text)
    return messages_of(envelope) if messages_only else text
