"""Reads failure messages and checks failed records: pure functions, no AWS.

A failure destination names a range of a shard, without the records: they must be read again from the stream before its
retention ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


class NotAFailure(ValueError):
    """The message does not name a failed batch of a Kinesis stream."""


@dataclass(frozen=True, slots=True)
class FailedRange:
    """The records that a mapping gave up: `first` to `last`, both included, `count` of them."""

    stream_arn: str
    shard_id: str
    first: str
    last: str
    count: int
    condition: str

    def holds(self, sequence_number: str) -> bool:
        """Whether a record is in the range."""
        return int(self.first) <= int(sequence_number) <= int(self.last)

    def is_past(self, sequence_number: str) -> bool:
        """Whether a record comes after the range."""
        return int(sequence_number) > int(self.last)


def parse_failure(body: str) -> FailedRange:
    """Return the range that a failure destination's message names. Raises NotAFailure."""
    try:
        document = json.loads(body)
        batch = document["KinesisBatchInfo"]
        return FailedRange(
            stream_arn=str(batch["streamArn"]),
            shard_id=str(batch["shardId"]),
            first=str(int(batch["startSequenceNumber"])),
            last=str(int(batch["endSequenceNumber"])),
            count=int(batch["batchSize"]),
            condition=str(document["requestContext"]["condition"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAFailure("it does not name a failed batch of a Kinesis stream") from error


def fault_of(data: bytes) -> str | None:
    """Return, as a clause, why a record can never be processed; None if it can."""
    try:
        event: Any = json.loads(data)
    except (ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(event, dict):
        return "it is not a JSON object"
    for name in ("event_id", "event_time", "carrier", "origin", "dest"):
        if not isinstance(event.get(name), str) or not event[name]:
            return f"its {name} is not a text"
    for name in ("flight", "sched_dep_time", "sched_arr_time", "distance"):
        if not isinstance(event.get(name), int) or isinstance(event.get(name), bool):
            return f"its {name} is not a whole number"
    return None


def report_of(failed: FailedRange, sequence_number: str, reason: str) -> str:
    """Return the report on a record that is not put back: its position, never its content."""
    return json.dumps(
        {
            "streamArn": failed.stream_arn,
            "shardId": failed.shard_id,
            "sequenceNumber": sequence_number,
            "condition": failed.condition,
            "reason": reason,
        }
    )
