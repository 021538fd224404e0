"""Filter criteria: decides which records or messages a mapping passes to its function. No I/O.

Sources (documented): https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html for the pattern
language, .../with-kinesis-filtering.html for the members of a Kinesis record. A pattern on `data` that is an object
matches only records whose data is a JSON object; a pattern that is a list matches only data that is plain text, not
JSON. Data that is not UTF-8 matches no pattern on `data`. For a DynamoDB stream, a pattern may use any member
(.../with-ddb-filtering.html names only `dynamodb`, but AWS's own examples use `eventName`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.event_patterns import (
    BadEventPattern,
    compile_pattern,
    matches_event,
    matches_payload,
)
from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.event import key_of


class InvalidPattern(ValueError):
    """The text is not a valid filter pattern."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One checked pattern."""

    alternatives: tuple[dict[str, list[Any]], ...]

    @staticmethod
    def parse(text: str) -> Filter:
        """Read a pattern. Raises InvalidPattern."""
        try:
            return Filter(compile_pattern(text))
        except BadEventPattern as error:
            raise InvalidPattern(str(error)) from error

    def matches(self, record: StreamRecord) -> bool:
        """Whether a record passes the filter."""
        metadata = {
            "kinesisSchemaVersion": "1.0",
            **key_of(record),
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
        }
        return matches_payload(self.alternatives, metadata, "data", record.data)

    def matches_change(self, record: StreamRecord) -> bool:
        """Whether a change of a table passes the filter. The record's data is the whole record of the event."""
        return matches_event(self.alternatives, json.loads(record.data))

    def matches_message(self, message: dict[str, Any]) -> bool:
        """Whether a message of a queue passes the filter. `message` has the form of messages in events."""
        return matches_payload(self.alternatives, message, "body", message["body"].encode())


def passes(record: StreamRecord, filters: Sequence[Filter], *, of_table: bool = False) -> bool:
    """Whether any filter matches a record of a Kinesis or a DynamoDB stream. Without filters, every record passes."""
    if of_table:
        return not filters or any(one.matches_change(record) for one in filters)
    return not filters or any(one.matches(record) for one in filters)
