"""Transformation by a Lambda function: it gets records in batches and answers with what replaces them.

Source: docs.aws.amazon.com/firehose/latest/dev/data-transformation.html and its pages (documented, read 2026).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import FunctionInvoker, FunctionNotFound, InvokeResult, StreamRecord
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import Failed
from headrace.services.firehose.limits import (
    INVOCATION_BYTES,
    LAMBDA_BUFFER_MIB,
    LAMBDA_MAX_BUFFER_MIB,
    LAMBDA_MIN_BUFFER_MIB,
    LAMBDA_RETRIES,
)
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.state import DeliveryStream

MIB = 1024 * 1024
_RECORD_OVERHEAD_BYTES = 512
Batch = Mapping[str, Sequence[StreamRecord]]


class Stopping(Exception):
    """A function failed while the cloud stopped. This says nothing about the records: they are tried again."""


class _Answered(msgspec.Struct):
    recordId: str
    result: str
    data: str | None = None


class _Answer(msgspec.Struct):
    records: list[_Answered]


_decode = msgspec.json.Decoder(_Answer).decode


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda processor's parameters. `batch_bytes` counts the records' data."""

    arn: str
    retries: int
    batch_bytes: int


@dataclass(slots=True)
class _Entry:
    shard_id: str
    record: StreamRecord

    @property
    def record_id(self) -> str:
        return self.record.sequence_number + "000000"


def function_of(parameters: Mapping[str, str]) -> Function:
    """Return the function that a Lambda processor's parameters name. Raises AwsError for bad parameters."""
    arn = parameters.get("LambdaArn", "")
    try:
        if Arn.parse(arn).service != "lambda":
            raise InvalidArn(arn)
        retries = int(parameters.get("NumberOfRetries", LAMBDA_RETRIES))
        size_mib = float(parameters.get("BufferSizeInMBs", LAMBDA_BUFFER_MIB))
    except InvalidArn as error:
        raise invalid(f"Invalid Lambda ARN: {arn}") from error
    except ValueError as error:
        raise invalid("NumberOfRetries and BufferSizeInMBs must be numbers.") from error
    if not LAMBDA_MIN_BUFFER_MIB <= size_mib <= LAMBDA_MAX_BUFFER_MIB:
        raise invalid(
            f"BufferSizeInMBs must be between {LAMBDA_MIN_BUFFER_MIB} and {LAMBDA_MAX_BUFFER_MIB}."
        )
    if retries < 0:
        raise invalid("NumberOfRetries must not be negative.")
    return Function(arn, retries, int(size_mib * MIB))


def transform(
    batch: Batch, stream: DeliveryStream, parameters: Mapping[str, str], ports: Ports
) -> tuple[list[StreamRecord], list[Failed]]:
    """Return the transformed records, in order, and those that could not be transformed.

    Args:
        batch: records by shard.
        stream: the delivery stream that the records go through.
        parameters: of its Lambda processor.
        ports: invokes the function.

    Raises FunctionThrottled (the delivery is to be tried later; no record counts as failed) and Stopping.
    """
    function = function_of(parameters)
    done: list[StreamRecord] = []
    failed: list[Failed] = []
    for entries in _batches(batch, function.batch_bytes):
        payload = _payload(entries, stream, ports.ids.uuid())
        answer, attempts = _invoke(payload, function, ports.functions)
        if answer is None or answer.function_error:
            if ports.stopping.is_set():
                raise Stopping(function.arn)
            failed += [Failed(entry.record, *_reason(answer), attempts) for entry in entries]
            continue
        _take(entries, answer.payload, attempts, done, failed)
    return done, failed


def _batches(batch: Batch, batch_bytes: int) -> Iterator[list[_Entry]]:
    entries: list[_Entry] = []
    size_bytes = sent_bytes = 0
    for shard_id in sorted(batch):
        for record in batch[shard_id]:
            more_bytes = len(record.data)
            more_sent = more_bytes * 4 // 3 + _RECORD_OVERHEAD_BYTES
            if entries and (
                size_bytes + more_bytes > batch_bytes or sent_bytes + more_sent > INVOCATION_BYTES
            ):
                yield entries
                entries, size_bytes, sent_bytes = [], 0, 0
            entries.append(_Entry(shard_id, record))
            size_bytes += more_bytes
            sent_bytes += more_sent
    if entries:
        yield entries


def _payload(entries: list[_Entry], stream: DeliveryStream, invocation_id: str) -> bytes:
    event: dict[str, Any] = {
        "invocationId": invocation_id,
        "deliveryStreamArn": stream.arn,
        "region": stream.region,
    }
    if stream.source_arn:
        event["sourceKinesisStreamArn"] = stream.source_arn
    event["records"] = [_sent(entry, of_stream=bool(stream.source_arn)) for entry in entries]
    return msgspec.json.encode(event)


def _sent(entry: _Entry, *, of_stream: bool) -> dict[str, Any]:
    record = entry.record
    sent: dict[str, Any] = {
        "recordId": entry.record_id,
        "approximateArrivalTimestamp": record.approximate_arrival_ms,
        "data": base64.b64encode(record.data).decode(),
    }
    if of_stream:
        sent["kinesisRecordMetadata"] = {
            "sequenceNumber": record.sequence_number,
            "subsequenceNumber": 0,
            "partitionKey": record.partition_key,
            "shardId": entry.shard_id,
            "approximateArrivalTimestamp": record.approximate_arrival_ms,
        }
    return sent


def _invoke(
    payload: bytes, function: Function, functions: FunctionInvoker
) -> tuple[InvokeResult | None, int]:
    """Return the answer (None: there is no such function) and the attempts made."""
    answer: InvokeResult | None = None
    attempts = 0
    while attempts <= function.retries:
        attempts += 1
        try:
            answer = functions.invoke(function.arn, payload)
        except FunctionNotFound:
            answer = None
            continue
        if not answer.function_error:
            break
    return answer, attempts


def _reason(answer: InvokeResult | None) -> tuple[str, str]:
    if answer is None:
        return "Lambda.ResourceNotFoundException", "The specified Lambda function does not exist."
    return (
        "Lambda.FunctionError",
        "The Lambda function was successfully invoked but it returned an error result.",
    )


def _take(
    entries: list[_Entry],
    payload: bytes,
    attempts: int,
    done: list[StreamRecord],
    failed: list[Failed],
) -> None:
    """Sort the records into `done` and `failed` as the function's answer says."""
    try:
        answered = _decode(payload).records
    except msgspec.DecodeError:
        failed += [Failed(entry.record, *_UNREADABLE, attempts) for entry in entries]
        return
    by_id = {item.recordId: item for item in answered}
    if len(by_id) != len(answered):
        failed += [Failed(entry.record, *_DOUBLED, attempts) for entry in entries]
        return
    for entry in entries:
        item = by_id.get(entry.record_id)
        if item is None:
            failed.append(Failed(entry.record, *_MISSING, attempts))
        elif item.result == "Ok":
            data = _data(item)
            if data is None:
                failed.append(Failed(entry.record, *_UNREADABLE, attempts))
            else:
                done.append(replace(entry.record, data=data))
        elif item.result == "ProcessingFailed":
            failed.append(Failed(entry.record, *_FAILED_STATUS, attempts))
        elif item.result != "Dropped":
            failed.append(Failed(entry.record, *_UNREADABLE, attempts))


def _data(item: _Answered) -> bytes | None:
    try:
        return None if item.data is None else base64.b64decode(item.data, validate=True)
    except (binascii.Error, ValueError):
        return None


# Codes are documented in "Monitor Firehose using CloudWatch Logs"; the sentences are ours.
_MISSING = ("Lambda.MissingRecordId", "The Lambda function did not return all received record ids.")
_DOUBLED = ("Lambda.DuplicatedRecordId", "The Lambda function returned a record id twice.")
_FAILED_STATUS = (
    "Lambda.ProcessingFailedStatus",
    "The Lambda function set the status ProcessingFailed.",
)
_UNREADABLE = (
    "Lambda.JsonProcessingException",
    "What the Lambda function returned does not follow the status model that Firehose requires.",
)
