"""Records that could not be delivered as they should, and AWS's report of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.ports import StreamRecord


@dataclass(slots=True)
class Failed:
    """A record that could not be converted, and why."""

    record: StreamRecord
    code: str
    message: str


def error_lines(failed: Sequence[Failed], now_ms: int) -> bytes:
    """Return AWS's JSON lines of failed records. Source: the format-conversion page (documented)."""
    lines = [
        json.dumps(
            {
                "attemptsMade": 1,
                "arrivalTimestamp": failure.record.approximate_arrival_ms,
                "errorCode": failure.code,
                "errorMessage": failure.message,
                "attemptEndingTimestamp": now_ms,
                "rawData": base64.b64encode(failure.record.data).decode(),
                "sequenceNumber": failure.record.sequence_number,
                "subSequenceNumber": None,
            }
        )
        for failure in failed
    ]
    return ("\n".join(lines) + "\n").encode()
