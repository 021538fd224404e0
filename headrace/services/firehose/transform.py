"""Transforms records with a Lambda function, which gets them in batches and returns their replacements.

Source: docs.aws.amazon.com/firehose/latest/dev/data-transformation.html and its pages (documented, read 2026).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.core.values import as_mapping, get_list
from headrace.services.firehose.errors import (
    ANSWER_BYTES,
    INVOCATION_BYTES,
    LAMBDA_BUFFER_MIB,
    LAMBDA_INTERVAL_S,
    LAMBDA_MAX_BUFFER_MIB,
    LAMBDA_MIN_BUFFER_MIB,
    LAMBDA_MOST_INTERVAL_S,
    LAMBDA_MOST_RETRIES,
    LAMBDA_RETRIES,
    check_between,
    check_both,
    invalid,
)
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.permits import find_function_denial
from headrace.services.firehose.records import FailedRecord, Ports, Record
from headrace.services.firehose.state import DeliveryStream

MIB = 1024 * 1024
_RECORD_OVERHEAD_BYTES = 512
# The delay after the first throttled attempt; it doubles with each attempt.
_THROTTLED_PAUSE_S = 1.0
# Lambda's error for a function that timed out.
_TIMED_OUT = b'"Sandbox.Timedout"'
# Source: docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html (documented).
_ACCESS_DENIED = "Lambda.InvokeAccessDenied"
_NO_ACCESS = (
    "Access was denied to the Lambda function."
    " Ensure that the access policy allows access to the Lambda function."
)


class Stopping(Exception):
    """A function failed while the cloud stopped. This says nothing about the records: they are tried again."""


# The end of a function's ARN: its name, and optionally a version or an alias. Other ARNs cannot be invoked.
_FUNCTION = re.compile(r"function:[a-zA-Z0-9-_]{1,140}(:(\$LATEST|[a-zA-Z0-9-_]{1,128}))?")


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda processor's parameters. `batch_bytes` counts the records' data."""

    arn: str
    retries: int
    batch_bytes: int
    interval_s: float


def _record_id(record: Record) -> str:
    return f"{record.source.sequence_number}{record.sub:06d}"


def function_of(parameters: Mapping[str, str]) -> Function:
    """Return the function in a Lambda processor's parameters. Raises AwsError for invalid parameters."""
    arn = parameters.get("LambdaArn", "")
    if not arn:
        raise invalid("LambdaArn is required when Lambda processor is used.")
    try:
        named = Arn.parse(arn)
        if named.service != "lambda" or not _FUNCTION.fullmatch(named.resource):
            raise InvalidArn(arn)
    except InvalidArn as error:
        raise invalid("Invalid lambda ARN.") from error
    of = " for lambda processor"
    check_both(parameters, "BufferSizeInMBs", "BufferIntervalInSeconds", of)
    try:
        retries = int(parameters.get("NumberOfRetries", LAMBDA_RETRIES))
        size_mib = float(parameters.get("BufferSizeInMBs", LAMBDA_BUFFER_MIB))
        interval_s = int(parameters.get("BufferIntervalInSeconds", LAMBDA_INTERVAL_S))
    except ValueError as error:
        raise invalid("The parameters of the lambda processor must be numbers.") from error
    check_between(f"BufferSizeInMBs{of}", size_mib, LAMBDA_MIN_BUFFER_MIB, LAMBDA_MAX_BUFFER_MIB)
    check_between(f"BufferIntervalInSeconds{of}", interval_s, 0, LAMBDA_MOST_INTERVAL_S)
    check_between("Number of retries for lambda", retries, 0, LAMBDA_MOST_RETRIES)
    return Function(arn, retries, int(size_mib * MIB), float(interval_s))


def transform(
    records: Sequence[Record],
    stream: DeliveryStream,
    function: Function,
    ports: Ports,
    measured: list[Measure],
) -> tuple[list[Record], list[FailedRecord]]:
    """Return the transformed records, in order, and the failed records.

    Args:
        records: the records to transform.
        stream: the records' delivery stream.
        function: the function of its Lambda processor.
        ports: invokes the function.
        measured: this function adds the metrics of processing to it.

    Raises Stopping.
    """
    done: list[Record] = []
    failed: list[FailedRecord] = []
    sentence = find_function_denial(ports.guard, stream, function.arn)
    if sentence:
        _fail(records, (_ACCESS_DENIED, f"{_NO_ACCESS} {sentence}"), 1, function, failed)
        return done, failed
    for batch in _batches(records, function.batch_bytes):
        answer, attempts = _invoke(batch, stream, function, ports, measured)
        if isinstance(answer, Exception) or answer.function_error:
            if ports.stopping.is_set():
                raise Stopping(function.arn)
            _fail(batch, _reason(answer), attempts, function, failed)
            continue
        before = len(done)
        _take(batch, answer.payload, attempts, function, done, failed)
        taken = done[before:]
        measured.append(("SucceedProcessing.Records", len(taken), "Count"))
        measured.append(("SucceedProcessing.Bytes", sum(len(r.data) for r in taken), "Bytes"))
    return done, failed


def _fail(
    records: Sequence[Record],
    reason: tuple[str, str],
    attempts: int,
    function: Function,
    failed: list[FailedRecord],
) -> None:
    failed += [
        FailedRecord(record, *reason, attempts, function_arn=function.arn) for record in records
    ]


def _batches(records: Sequence[Record], batch_bytes: int) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size_bytes = sent_bytes = 0
    for record in records:
        more_bytes = len(record.data)
        more_sent = more_bytes * 4 // 3 + _RECORD_OVERHEAD_BYTES
        if batch and (
            size_bytes + more_bytes > batch_bytes or sent_bytes + more_sent > INVOCATION_BYTES
        ):
            yield batch
            batch, size_bytes, sent_bytes = [], 0, 0
        batch.append(record)
        size_bytes += more_bytes
        sent_bytes += more_sent
    if batch:
        yield batch


def _payload(batch: list[Record], stream: DeliveryStream, invocation_id: str) -> bytes:
    event: dict[str, Any] = {
        "invocationId": invocation_id,
        "deliveryStreamArn": stream.arn,
        "region": stream.region,
    }
    if stream.source_arn:
        event["sourceKinesisStreamArn"] = stream.source_arn
    event["records"] = [
        _build_sent_record(record, of_stream=bool(stream.source_arn)) for record in batch
    ]
    return msgspec.json.encode(event)


def _build_sent_record(record: Record, *, of_stream: bool) -> dict[str, Any]:
    source = record.source
    sent: dict[str, Any] = {
        "recordId": _record_id(record),
        "approximateArrivalTimestamp": source.approximate_arrival_ms,
        "data": base64.b64encode(record.data).decode(),
    }
    if of_stream:
        sent["kinesisRecordMetadata"] = {
            "sequenceNumber": source.sequence_number,
            "subsequenceNumber": record.sub,
            **({"partitionKey": source.partition_key} if source.partition_key else {}),
            "shardId": record.shard_id,
            "approximateArrivalTimestamp": source.approximate_arrival_ms,
        }
    return sent


def _invoke(
    batch: list[Record],
    stream: DeliveryStream,
    function: Function,
    ports: Ports,
    measured: list[Measure],
) -> tuple[InvokeResult | FunctionNotFound | FunctionThrottled, int]:
    """Return the last attempt's answer, or why there is none, and the number of attempts.

    Each attempt has a new invocation id; the records keep theirs (observed by others on AWS, 2026). An
    invocation that Lambda throttles is an attempt like others (documented); the pause after it is assumed.
    """
    answer: InvokeResult | FunctionNotFound | FunctionThrottled = FunctionNotFound(function.arn)
    attempts = 0
    pause_s = _THROTTLED_PAUSE_S
    while attempts <= function.retries:
        attempts += 1
        payload = _payload(batch, stream, ports.ids.uuid())
        began_s = ports.clock.monotonic_s()
        try:
            answer = ports.functions.invoke(function.arn, payload)
        except (FunctionNotFound, FunctionThrottled) as error:
            answer = error
            measured.append(("ExecuteProcessing.Success", 0, "Count"))
            if isinstance(error, FunctionThrottled) and attempts <= function.retries:
                if ports.clock.wait(ports.stopping, pause_s):
                    break
                pause_s *= 2
            continue
        took_ms = (ports.clock.monotonic_s() - began_s) * 1000
        measured.append(("ExecuteProcessing.Duration", took_ms, "Milliseconds"))
        measured.append(("ExecuteProcessing.Success", float(not answer.function_error), "Count"))
        if not answer.function_error:
            break
        if ports.stopping.is_set():
            break
    return answer, attempts


def _reason(answer: InvokeResult | FunctionNotFound | FunctionThrottled) -> tuple[str, str]:
    if isinstance(answer, FunctionThrottled):
        return (
            "Lambda.InvokeLimitExceeded",
            "The limit of concurrent executions is exceeded. Raise it, or the function's reserved concurrency.",
        )
    if isinstance(answer, FunctionNotFound):
        return "Lambda.ResourceNotFound", "The specified Lambda function does not exist."
    if answer.function_error == "Unhandled" and _TIMED_OUT in answer.payload:
        # Observed by others: an error line of 2022 in a public test of a pipeline.
        return (
            "Lambda.FunctionTimedOut",
            "The Lambda function invocation timed out. Increase the Timeout setting in the Lambda function.",
        )
    return (
        "Lambda.FunctionError",
        "The Lambda function was successfully invoked but it returned an error result.",
    )


def _take(
    batch: list[Record],
    payload: bytes,
    attempts: int,
    function: Function,
    done: list[Record],
    failed: list[FailedRecord],
) -> None:
    """Sort the records into `done` and `failed` as the function's answer says."""
    if len(payload) > ANSWER_BYTES:
        _fail(batch, _UNREADABLE, attempts, function, failed)
        return
    by_id, doubled = _answers(payload)
    for record in batch:
        record_id = _record_id(record)
        item, reason = by_id.get(record_id), None
        if record_id in doubled:
            reason = _DOUBLED
        elif item is None:
            reason = _MISSING
        elif item.get("result") == "Ok":
            reason = _replace(record, item)
            if reason is None:
                done.append(record)
        elif item.get("result") == "ProcessingFailed":
            reason = _FAILED_STATUS
        elif item.get("result") != "Dropped":
            reason = _NO_RESULT
        if reason is not None:
            _fail([record], reason, attempts, function, failed)


def _answers(payload: bytes) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Return an answer's records by id, and the ids that it has several times.

    An answer without a list of records names no record (observed by others, 2026); nor does an entry without an id.
    """
    try:
        answer: Any = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        answer = None
    by_id: dict[str, dict[str, Any]] = {}
    doubled: set[str] = set()
    for entry in get_list(as_mapping(answer), "records"):
        item = as_mapping(entry)
        record_id = item.get("recordId")
        if isinstance(record_id, str):
            if record_id in by_id:
                doubled.add(record_id)
            by_id[record_id] = item
    return by_id, doubled


def _replace(record: Record, item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Give a record the data of its answer. Return why that is impossible, or None."""
    text = item.get("data")
    if text is None:
        return _NO_DATA
    if not isinstance(text, str):
        return _NOT_BASE64
    try:
        record.data = _decode(text)
    except ValueError:
        return _NOT_BASE64
    metadata = as_mapping(item.get("metadata"))
    record.keys = _texts(metadata, "partitionKeys")
    record.otf = _texts(metadata, "otfMetadata")
    return None


def _decode(text: str) -> bytes:
    """Return what a text in Base64 says; raise if it is none.

    Functions append "Cg==", a line feed, to the data that they got, which may end with padding (four published ones):
    each padded part counts. Assumed: Jackson, with which services in Java read JSON, decodes so; it skips white space,
    too, such as the line ends of Python's base64.encodebytes.
    """
    without_space = "".join(text.split())
    parts = _PADDED_PART.findall(without_space)
    if "".join(parts) != without_space:
        raise binascii.Error("padding without data")
    return b"".join(base64.b64decode(part, validate=True) for part in parts)


def _texts(metadata: Mapping[str, Any] | None, name: str) -> dict[str, str] | None:
    """Return the texts under a name of a record's metadata; keys that are no texts become text, null stays away."""
    members = (metadata or {}).get(name)
    if not isinstance(members, dict):
        return None
    items = cast("dict[str, Any]", members).items()
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in items
        if value is not None
    }


# Sentences observed by others on AWS (us-west-2, 2026-09-10), unless marked.
_MISSING = (
    "Lambda.MissingRecordId",
    "One or more record Ids were not returned. Ensure that the Lambda function returns all received record Ids.",
)
_DOUBLED = (
    "Lambda.DuplicatedRecordId",
    (
        "Multiple records were returned with the same record Id. Ensure that the Lambda function returns a unique"
        " record Id for each record."
    ),
)
_FAILED_STATUS = ("Lambda.ProcessingFailedStatus", "ProcessingFailed status set for record")
_BAD_FORMAT = "Lambda.InvalidReturnFormat"
_NO_DATA = (
    _BAD_FORMAT,
    (
        "The data field cannot be null when the SourceType is DirectPut or KinesisStreamAsSource and processing result"
        " is Ok. The value field cannot be null when the SourceType is MSKAsSource and processing result is Ok."
    ),
)
_NO_RESULT = (
    _BAD_FORMAT,
    "The result field must be one of Ok, Dropped or ProcessingFailed.",
)  # its sentence is assumed
_PADDED_PART = re.compile(r"[^=]+=*")
_NOT_BASE64 = (_BAD_FORMAT, "The data field must be encoded in base64.")  # assumed
# The code is documented in "Monitor Firehose using CloudWatch Logs"; that a large answer has it is assumed.
_UNREADABLE = (
    "Lambda.JsonProcessingException",
    "What the Lambda function returned does not follow the status model that Firehose requires.",
)
