"""The error output: records that could not be processed, converted or delivered, as JSON lines in AWS's form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.services.firehose.records import Record

# What an object of a delivery holds: delivered records, the records as the source had them, or errors of one type.
DELIVERED = ""
SOURCE_BACKUP = "source-backup"
CONVERSION_FAILED = "format-conversion-failed"
PROCESSING_FAILED = "processing-failed"
DECOMPRESSION_FAILED = "decompression-failed"


@dataclass(slots=True)
class Failed:
    """A record that could not be processed, converted or delivered, and why.

    Attributes:
        attempts: how often it was tried.
        function_arn: the function that did not process it.
        error_type: where it goes in the error output, empty for that of its stage.
        log_message: what the log says, when it is not `message`.
    """

    record: Record
    code: str
    message: str
    attempts: int = 1
    function_arn: str = ""
    error_type: str = ""
    log_message: str = ""


def common_members(failure: Failed, now_ms: int, raw: bytes) -> dict[str, Any]:
    """Return the members of an error line that every type has. `raw` is the data to put in it."""
    return {
        "attemptsMade": failure.attempts,
        "arrivalTimestamp": failure.record.arrival_ms,
        "attemptEndingTimestamp": now_ms,
        "rawData": base64.b64encode(raw).decode(),
    }


def processing_line(failure: Failed, now_ms: int) -> dict[str, Any]:
    """Return the error line of a record that was not processed: its data is the source's.

    Source: docs.aws.amazon.com/firehose/latest/dev/data-transformation-failure-handling.html (documented, but for
    `lambdaARN`, which it writes `lambdaArn` and AWS was seen to write so).
    """
    line = {
        **common_members(failure, now_ms, failure.record.source.data),
        "errorCode": failure.code,
        "errorMessage": failure.message,
    }
    if failure.function_arn:
        line["lambdaARN"] = failure.function_arn
    return line


def conversion_line(failure: Failed, now_ms: int, table: Mapping[str, str]) -> dict[str, Any]:
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


def as_lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """Return one JSON object a line."""
    return "".join(json.dumps(item) + "\n" for item in objects).encode()
