"""The error output: records that could not be transformed or converted, as JSON lines in AWS's form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.ports import StreamRecord

# What an object holds: delivered records, or the error output of one type.
DELIVERED = ""
CONVERSION_FAILED = "format-conversion-failed"
PROCESSING_FAILED = "processing-failed"
ERROR_TYPES = (PROCESSING_FAILED, CONVERSION_FAILED)


@dataclass(slots=True)
class Failed:
    """A record that could not be processed or converted, and why."""

    record: StreamRecord
    code: str
    message: str
    attempts: int = 1


def conversion_lines(failed: Sequence[Failed], now_ms: int, table: Mapping[str, str]) -> bytes:
    """Return records that do not fit `table` (AWS's `dataCatalogTable`), one JSON object a line.

    Source: docs.aws.amazon.com/firehose/latest/dev/record-format-conversion-error-handling.html (documented).
    """
    return _lines(
        {
            **_common(failure, now_ms),
            "lastErrorCode": failure.code,
            "lastErrorMessage": failure.message,
            "sequenceNumber": failure.record.sequence_number,
            "subSequenceNumber": 0,
            "dataCatalogTable": dict(table),
        }
        for failure in failed
    )


def processing_lines(failed: Sequence[Failed], now_ms: int, function_arn: str) -> bytes:
    """Return records that a function did not transform, one JSON object a line.

    Source: docs.aws.amazon.com/firehose/latest/dev/data-transformation-failure-handling.html (documented).
    """
    return _lines(
        {
            **_common(failure, now_ms),
            "errorCode": failure.code,
            "errorMessage": failure.message,
            "lambdaArn": function_arn,
        }
        for failure in failed
    )


def _common(failure: Failed, now_ms: int) -> dict[str, Any]:
    return {
        "attemptsMade": failure.attempts,
        "arrivalTimestamp": failure.record.approximate_arrival_ms,
        "attemptEndingTimestamp": now_ms,
        "rawData": base64.b64encode(failure.record.data).decode(),
    }


def _lines(objects: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in objects).encode()
