"""The records browser: records of all shards of a stream, merged by arrival, from a position on."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.client.hash_keys import hash_key_of
from headrace.dashboard.account import Account, CallRefused, Reader, milliseconds, next_token
from headrace.dashboard.payloads import (
    MOST_WHOLE_BYTES,
    BadQuestion,
    describe_payload,
    user_records,
)
from headrace.shards.sketch import KeySketch
from headrace.store.sequence import InvalidSequence, parse

MOST_RECORDS = 500
# A search ends after this many records without enough hits, and says so.
MOST_SEARCHED = 20_000
# A shard's read stops after this many empty answers in a row: AWS gives them in spans without records.
MOST_EMPTY = 5
NEWEST_SPANS_MS = (10_000, 60_000, 600_000, 3_600_000, 86_400_000)


def list_shards(reader: Reader, stream: str) -> list[dict[str, Any]]:
    """Return a stream's shards as AWS lists them."""
    shards: list[dict[str, Any]] = []
    answer = reader.call("kinesis", "ListShards", StreamName=stream)
    while True:
        shards += answer.get("Shards", ())
        token = answer.get("NextToken")
        if not token:
            return shards
        answer = reader.call("kinesis", "ListShards", NextToken=token)


def read_records(
    account: Account, stream: str, asked: Mapping[str, str], now_ms: int
) -> dict[str, Any]:
    """Return records, oldest first. Raises BadQuestion, CallRefused.

    `asked`: `position` (newest, oldest, time, sequence), `at` (milliseconds or a sequence number), `shard`, `limit`,
    `search` (text in key or payload).
    """
    position, at = asked.get("position", "newest"), asked.get("at", "")
    limit = min(MOST_RECORDS, _number(asked.get("limit", "50"), "limit"))
    search = asked.get("search", "").casefold()
    reader = Reader(account)
    shards = list_shards(reader, stream)
    if reader.refused:
        raise reader.refused[0]
    ids = [shard["ShardId"] for shard in shards]
    if asked.get("shard"):
        if asked["shard"] not in ids:
            raise BadQuestion(f"Stream {stream} has no shard {asked['shard']}.")
        ids = [asked["shard"]]
    match position:
        case "newest":
            records, searched = _newest(account, stream, ids, limit, search, now_ms)
        case "oldest":
            start: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
            records, searched = _merged(account, stream, ids, start, limit, search)
        case "time":
            moment = datetime.fromtimestamp(_number(at, "at") / 1000, UTC)
            start = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
            records, searched = _merged(account, stream, ids, start, limit, search)
        case "sequence":
            ids = [asked["shard"]] if asked.get("shard") else _shard_of(account, stream, shards, at)
            start = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": at}
            records, searched = _merged(account, stream, ids, start, limit, search)
        case _:
            raise BadQuestion(f"A position is newest, oldest, time or sequence, not {position!r}.")
    return {
        "stream": stream,
        "records": [_row(shard_id, record) for shard_id, record in records],
        "searched": searched,
        "isSearchCut": searched >= MOST_SEARCHED,
    }


def read_record(account: Account, stream: str, shard_id: str, sequence: str) -> dict[str, Any]:
    """Return one record whole, with the user records of a KPL aggregate. Raises CallRefused, BadQuestion."""
    start = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence}
    record = next(_records_of(account, stream, shard_id, start, 1), None)
    if record is None or record["SequenceNumber"] != sequence:
        raise BadQuestion(f"Stream {stream} has no record {sequence} in {shard_id} any more.")
    return _row(shard_id, record, MOST_WHOLE_BYTES)


def hottest_keys(
    account: Account, stream: str, shard_ids: list[str], now_ms: int
) -> dict[str, Any]:
    """Return the keys with most bytes among the newest records, by a sketch of bounded size."""
    sketch = KeySketch()
    start = {
        "ShardIteratorType": "AT_TIMESTAMP",
        "Timestamp": datetime.fromtimestamp(now_ms / 1000 - 60, UTC),
    }
    records = 0
    for shard_id in shard_ids[:50]:
        try:
            for record in _records_of(account, stream, shard_id, start, 1_000):
                key = record.get("PartitionKey", "")
                sketch.add(hash_key_of(key), key, float(len(record["Data"]) + len(key)))
                records += 1
        except CallRefused as refusal:
            if refusal.code != "ResourceNotFoundException":
                raise
    return {
        "records": records,
        "spanMs": 60_000,
        "keys": [{"key": one.key, "share": round(one.share, 4)} for one in sketch.hottest(20)],
    }


def _number(text: str, name: str) -> int:
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        number = -1
    if not 0 < number < 1 << 52:
        raise BadQuestion(f"{name} is a positive number, not {text[:100]!r}.")
    return number


def _records_of(
    account: Account, stream: str, shard_id: str, start: Mapping[str, Any], limit: int
) -> Iterator[dict[str, Any]]:
    """Yield records of one shard until its end, or until now."""
    answer = account.call(
        "kinesis", "GetShardIterator", StreamName=stream, ShardId=shard_id, **start
    )
    iterator, empty = answer.get("ShardIterator"), 0
    while iterator and empty < MOST_EMPTY:
        answer = account.call(
            "kinesis", "GetRecords", ShardIterator=iterator, Limit=min(limit, 1_000)
        )
        yield from answer["Records"]
        empty = 0 if answer["Records"] else empty + 1
        iterator = answer.get("NextShardIterator")
        if not answer["Records"] and not answer.get("MillisBehindLatest"):
            return


def _merged(
    account: Account,
    stream: str,
    shard_ids: list[str],
    start: Mapping[str, Any],
    limit: int,
    search: str,
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the first `limit` records of all shards by arrival, and how many were looked at."""

    def of_shard(shard_id: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
        for record in _records_of(account, stream, shard_id, start, limit):
            yield milliseconds(record["ApproximateArrivalTimestamp"]) or 0, shard_id, record

    merged = heapq.merge(*(of_shard(one) for one in shard_ids), key=lambda row: row[0])
    hits: list[tuple[str, dict[str, Any]]] = []
    searched = 0
    for _, shard_id, record in merged:
        searched += 1
        if _has(record, search):
            hits.append((shard_id, record))
        if len(hits) >= limit or searched >= MOST_SEARCHED:
            break
    return hits, searched


def _newest(
    account: Account, stream: str, shard_ids: list[str], limit: int, search: str, now_ms: int
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the last `limit` records: spans that grow are read until one holds enough."""
    hits: list[tuple[str, dict[str, Any]]] = []
    searched = 0
    for span_ms in (*NEWEST_SPANS_MS, 0):
        start: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if span_ms:
            moment = datetime.fromtimestamp((now_ms - span_ms) / 1000, UTC)
            start = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
        hits, searched = _merged(account, stream, shard_ids, start, MOST_SEARCHED, search)
        if len(hits) >= limit or searched >= MOST_SEARCHED:
            break
    return hits[-limit:], searched


def _shard_of(
    account: Account, stream: str, shards: list[dict[str, Any]], sequence: str
) -> list[str]:
    """Return the shard that has a sequence number. Raises BadQuestion."""
    for shard in shards:
        start = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence}
        try:
            record = next(_records_of(account, stream, shard["ShardId"], start, 1), None)
        except CallRefused as refusal:
            if refusal.code != "InvalidArgumentException":
                raise
            continue
        if record is not None and record["SequenceNumber"] == sequence:
            return [shard["ShardId"]]
    raise BadQuestion(f"Stream {stream} has no record with the sequence number {sequence[:200]}.")


def _has(record: Mapping[str, Any], search: str) -> bool:
    if not search:
        return True
    if search in record.get("PartitionKey", "").casefold():
        return True
    return search in record["Data"].decode(errors="replace").casefold()


def _row(shard_id: str, record: Mapping[str, Any], most_bytes: int = 2_048) -> dict[str, Any]:
    inside = user_records(record["Data"])
    row = {
        "shardId": shard_id,
        "sequenceNumber": record["SequenceNumber"],
        "timeMs": milliseconds(record["ApproximateArrivalTimestamp"]),
        "partitionKey": record.get("PartitionKey", ""),
        "payload": describe_payload(record["Data"], most_bytes),
    }
    if inside is not None:
        row["userRecords"] = [
            {"partitionKey": key, "payload": describe_payload(data, most_bytes)}
            for key, data in inside[:MOST_RECORDS]
        ]
    return row


def lease_tables(
    reader: Reader, names: list[str], stream: str, shards: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the leases of a stream that consumers keep in DynamoDB as the KCL does: table, shard, checkpoint, owner.

    A table does not say its stream, but a checkpoint has its shard's time of creation; the key of a consumer of many
    streams has the stream's name.
    """
    rows: list[dict[str, Any]] = []
    opened_ms = {one["shardId"]: one["openedMs"] for one in shards}
    for name in names[:20]:
        items = reader.pages(
            "dynamodb",
            "Scan",
            "Items",
            token=next_token("LastEvaluatedKey", "ExclusiveStartKey"),
            TableName=name,
            Limit=200,
        )
        for item in items:
            values = {key: next(iter(value.values()), "") for key, value in item.items()}
            if "checkpoint" not in values:
                continue
            *others, shard_id = str(values.get("leaseKey", "")).split(":")
            checkpoint = str(values["checkpoint"])
            if shard_id not in opened_ms or (others and others[1:2] != [stream]):
                continue
            with contextlib.suppress(InvalidSequence):
                if parse(checkpoint).base.created_s * 1000 != opened_ms[shard_id]:
                    continue
            rows.append(
                {
                    "table": name,
                    "shardId": shard_id,
                    "checkpoint": checkpoint,
                    "owner": str(values.get("leaseOwner", "")),
                }
            )
    return rows
