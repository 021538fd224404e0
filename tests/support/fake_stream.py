"""A stream without a cloud, for the clients' tests: it takes PutRecords, splits and merges, and is read."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import cbor2

from headrace.client.hash_keys import HASH_KEYS, ShardRange, hash_key_of
from headrace.client.wire import ServiceError


class FakeStream:
    """Stands in for `Streams` and, with `call`, for a `Wire`. One thread, or the producer's tests' few."""

    def __init__(self, shards: int = 1) -> None:
        self.name_member = {"StreamName": "s"}
        width = HASH_KEYS // shards
        self.all: list[ShardRange] = [
            ShardRange(_id(i), i * width, HASH_KEYS - 1 if i == shards - 1 else (i + 1) * width - 1)
            for i in range(shards)
        ]
        self.open: dict[str, ShardRange] = {shard.shard_id: shard for shard in self.all}
        self.records: dict[str, list[dict[str, Any]]] = {shard.shard_id: [] for shard in self.all}
        self.requests: list[dict[str, Any]] = []
        self.listed = 0
        # What the next requests meet: an exception, or for each entry an error code or None.
        self.faults: list[BaseException | list[str | None]] = []
        # What the next reads meet: an exception, or None.
        self.read_faults: list[BaseException | None] = []
        self.reads: list[tuple[str, dict[str, Any]]] = []
        self._number = 0

    def shards(self, shard_filter: dict[str, Any] | None = None) -> list[ShardRange]:
        kind = (shard_filter or {}).get("Type")
        if kind == "AT_LATEST":
            return self.open_shards()
        if kind == "AT_TRIM_HORIZON":
            ids = {shard.shard_id for shard in self.all}
            return [shard for shard in self.all if not ids & set(shard.parents)]
        return list(self.all)

    def open_shards(self) -> list[ShardRange]:
        self.listed += 1
        return sorted(self.open.values(), key=lambda shard: shard.shard_id)

    def places_records_itself(self) -> bool:
        return False

    def split(self, shard_id: str) -> list[ShardRange]:
        old = self.open.pop(shard_id)
        middle = (old.start + old.end) // 2
        return [
            self._add(old.start, middle, (shard_id,)),
            self._add(middle + 1, old.end, (shard_id,)),
        ]

    def merge(self, left: str, right: str) -> ShardRange:
        first, second = self.open.pop(left), self.open.pop(right)
        return self._add(first.start, second.end, (left, right))

    def children(self, shard_id: str) -> list[ShardRange]:
        return [shard for shard in self.all if shard_id in shard.parents]

    def call(self, action: str, body: bytes, content_type: str = "") -> bytes:
        if action != "PutRecords":
            return self._read(action, json.loads(body))
        request = cbor2.loads(body)
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, BaseException):
            raise fault
        results: list[dict[str, Any]] = []
        for index, entry in enumerate(request["Records"]):
            code = fault[index] if fault is not None and index < len(fault) else None
            results.append(
                self._put(entry) if code is None else {"ErrorCode": code, "ErrorMessage": "no"}
            )
        failed = sum("ErrorCode" in result for result in results)
        return cbor2.dumps({"FailedRecordCount": failed, "Records": results})

    def close(self) -> None:
        """See Wire."""

    def data(self) -> list[bytes]:
        """Return all data, shard by shard."""
        return [record["Data"] for records in self.records.values() for record in records]

    def page(self, shard_id: str, start: int, most: int) -> bytes:
        """Return an answer of GetRecords."""
        rows = self.records[shard_id][start : start + most]
        at_end = start + len(rows) >= len(self.records[shard_id])
        answer: dict[str, Any] = {
            "Records": [row | {"Data": b64encode(row["Data"]).decode()} for row in rows],
            "MillisBehindLatest": 0 if at_end else 1000,
        }
        if at_end and shard_id not in self.open:
            answer["ChildShards"] = [
                {
                    "ShardId": child.shard_id,
                    "ParentShards": list(child.parents),
                    "HashKeyRange": {
                        "StartingHashKey": str(child.start),
                        "EndingHashKey": str(child.end),
                    },
                }
                for child in self.children(shard_id)
            ]
        else:
            answer["NextShardIterator"] = json.dumps([shard_id, start + len(rows)])
        return json.dumps(answer).encode()

    def _read(self, action: str, request: dict[str, Any]) -> bytes:
        self.reads.append((action, request))
        if self.read_faults:
            fault = self.read_faults.pop(0)
            if fault is not None:
                raise fault
        if action == "GetRecords":
            shard_id, start = json.loads(request["ShardIterator"])
            return self.page(shard_id, start, request["Limit"])
        rows = self.records[request["ShardId"]]
        start = {"TRIM_HORIZON": 0, "LATEST": len(rows)}.get(request["ShardIteratorType"])
        if start is None:
            numbers = [row["SequenceNumber"] for row in rows]
            start = numbers.index(request["StartingSequenceNumber"])
            start += request["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER"
        return json.dumps({"ShardIterator": json.dumps([request["ShardId"], start])}).encode()

    def _put(self, entry: dict[str, Any]) -> dict[str, Any]:
        explicit = entry.get("ExplicitHashKey")
        place = int(explicit) if explicit is not None else hash_key_of(entry["PartitionKey"])
        shard = next(shard for shard in self.open.values() if place in shard)
        self._number += 1
        row = entry | {"SequenceNumber": f"{self._number:056d}", "ApproximateArrivalTimestamp": 1.0}
        self.records[shard.shard_id].append(row)
        return {"SequenceNumber": row["SequenceNumber"], "ShardId": shard.shard_id}

    def _add(self, start: int, end: int, parents: tuple[str, ...]) -> ShardRange:
        shard = ShardRange(_id(len(self.all)), start, end, parents)
        self.all.append(shard)
        self.open[shard.shard_id] = shard
        self.records[shard.shard_id] = []
        return shard


def throttle() -> ServiceError:
    """Return the error of a throttled request."""
    return ServiceError("ProvisionedThroughputExceededException", "slow down", 400)


def _id(number: int) -> str:
    return f"shardId-{number:012d}"
