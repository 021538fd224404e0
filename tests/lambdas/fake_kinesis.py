"""A stream in memory, which refuses what it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.services.firehose import processing
from tests.lambdas.folders import load_module

user_records = load_module("aggregate", "user_records").user_records

THROTTLED = {
    "ErrorCode": "ProvisionedThroughputExceededException",
    "ErrorMessage": "Rate exceeded for shard shardId-000000000000 in stream s under account 1.",
}


class FakeKinesis:
    """Keeps records in the order accepted. `refuses(request number, entry)` decides on each entry."""

    def __init__(
        self, refuses: Callable[[int, dict[str, Any]], bool] = lambda request, entry: False
    ) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.records: list[dict[str, Any]] = []
        self._refuses = refuses

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        assert len(Records) <= 500
        assert sum(len(r["Data"]) + len(r["PartitionKey"].encode()) for r in Records) <= 5 << 20
        number = len(self.requests)
        self.requests.append(Records)
        answers: list[dict[str, str]] = []
        for entry in Records:
            if self._refuses(number, entry):
                answers.append(THROTTLED)
            else:
                self.records.append(entry)
                answers.append({"ShardId": "shardId-0", "SequenceNumber": str(len(self.records))})
        return {"FailedRecordCount": answers.count(THROTTLED), "Records": answers}

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(data) for record in self.records for data in taken_apart(record["Data"])]


def taken_apart(data: bytes) -> list[bytes]:
    """Return the data of what a record holds, as `lambdas/aggregate` and Firehose see it."""
    users = user_records(data)
    firehoses = processing.split_aggregate(data)
    assert users == ([data] if firehoses is None else [payload for _, payload in firehoses])
    return users
