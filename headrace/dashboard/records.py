"""The records browser: records of all shards of a stream, merged by arrival, from a position on.

Turns a record's bytes into text for people: gzip, KPL, Avro and Protobuf are unpacked, other bytes are base64.
"""

from __future__ import annotations

import base64
import contextlib
import heapq
import json
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.client.aggregation import disaggregate
from headrace.client.hash_keys import hash_key_of
from headrace.core.evaluation import POOL, Engine, TooMuch
from headrace.dashboard.account import Account, CallRefused, Reader, milliseconds, next_token
from headrace.shards.loads import KeySketch
from headrace.store.sequence import InvalidSequence, parse

MOST_RECORDS = 500
# A search ends after this many records without enough hits, and says so.
MOST_SEARCHED = 20_000
# A shard's read stops after this many empty answers in a row: AWS gives them in spans without records.
MOST_EMPTY = 5
# For the newest records: spans before now, each read after the one before it had too few.
NEWEST_SPANS_MS = (1_000, 10_000, 60_000, 3_600_000, 86_400_000)
# Here first, too: AWS takes five reads a second of a shard, a cloud of our own takes any number of records.
LOCAL_SPAN_MS = 100
# The hottest keys: of how many records, from how many places of the last minute.
MOST_SKETCHED, SKETCH_SPANS, SKETCHED_MS = 5_000, 2, 60_000


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
            records, searched = _merge_shards(account, stream, ids, start, limit, search)
        case "time":
            start = _at_time(_number(at, "at"))
            records, searched = _merge_shards(account, stream, ids, start, limit, search)
        case "sequence":
            ids = [asked["shard"]] if asked.get("shard") else _shard_of(account, stream, shards, at)
            start = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": at}
            records, searched = _merge_shards(account, stream, ids, start, limit, search)
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
    """Return the keys with most bytes in the last minute, by a sketch of bounded size and a sample of the records.

    Of each shard the first records of some spans are read; where a span has more, these stand for the others in it.
    """
    sketch = KeySketch()
    shard_ids = shard_ids[:50]
    most = max(25, MOST_SKETCHED // (max(1, len(shard_ids)) * SKETCH_SPANS))
    span_ms = SKETCHED_MS // SKETCH_SPANS
    count, is_sample = 0, False
    for shard_id in shard_ids:
        for start_ms in range(now_ms - SKETCHED_MS, now_ms, span_ms):
            rows = _first_of_span(account, stream, shard_id, start_ms, start_ms + span_ms, most)
            weight = 1.0
            if len(rows) == most:
                is_sample = True
                weight = max(1.0, span_ms / max(1, rows[-1][0] - start_ms))
            for _, record in rows:
                key = record.get("PartitionKey", "")
                sketch.add(hash_key_of(key), key, weight * (len(record["Data"]) + len(key)))
            count += len(rows)
    return {
        "records": count,
        "isSample": is_sample,
        "spanMs": SKETCHED_MS,
        "keys": [{"key": one.key, "share": round(one.share, 4)} for one in sketch.hottest(20)],
    }


def _first_of_span(
    account: Account, stream: str, shard_id: str, start_ms: int, end_ms: int, most: int
) -> list[tuple[int, dict[str, Any]]]:
    """Return the first records of a span with their arrivals; nothing of a shard that is gone meanwhile."""
    rows: list[tuple[int, dict[str, Any]]] = []
    try:
        for record in _records_of(account, stream, shard_id, _at_time(start_ms), most):
            arrival_ms = milliseconds(record["ApproximateArrivalTimestamp"]) or 0
            if arrival_ms >= end_ms:
                break
            rows.append((arrival_ms, record))
            if len(rows) == most:
                break
    except CallRefused as refusal:
        if refusal.code != "ResourceNotFoundException":
            raise
    return rows


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


def _merge_shards(
    account: Account,
    stream: str,
    shard_ids: list[str],
    start: Mapping[str, Any],
    limit: int,
    search: str,
    *,
    end_ms: int | None = None,
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the first `limit` records of all shards by arrival, before `end_ms` if given, and how many were seen."""

    def of_shard(shard_id: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
        for record in _records_of(account, stream, shard_id, start, limit):
            yield milliseconds(record["ApproximateArrivalTimestamp"]) or 0, shard_id, record

    merged = heapq.merge(*(of_shard(one) for one in shard_ids), key=lambda row: row[0])
    hits: list[tuple[str, dict[str, Any]]] = []
    searched = 0
    for arrival_ms, shard_id, record in merged:
        if end_ms is not None and arrival_ms >= end_ms:
            break
        searched += 1
        if _has(record, search):
            hits.append((shard_id, record))
        if len(hits) >= limit or searched >= MOST_SEARCHED:
            break
    return hits, searched


def _newest(
    account: Account, stream: str, shard_ids: list[str], limit: int, search: str, now_ms: int
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the last `limit` records: ever older spans are read, each up to the one after it, until they are found."""
    hits: list[tuple[str, dict[str, Any]]] = []
    searched, end_ms, is_cut = 0, None, False
    spans_ms = NEWEST_SPANS_MS if account.source == "aws" else (LOCAL_SPAN_MS, *NEWEST_SPANS_MS)
    for span_ms in (*spans_ms, None):
        start_ms = 0 if span_ms is None else now_ms - span_ms
        while True:
            start = {"ShardIteratorType": "TRIM_HORIZON"} if span_ms is None else _at_time(start_ms)
            older, count = _merge_shards(
                account, stream, shard_ids, start, MOST_SEARCHED, search, end_ms=end_ms
            )
            searched += count
            room_ms = (end_ms or now_ms) - start_ms
            if count < MOST_SEARCHED or room_ms <= 1 or span_ms is None:
                break
            # More than are read: only the end of the span, so that no record is missing between two of the answer.
            is_cut, start_ms = True, start_ms + room_ms - max(1, room_ms // 8)
        hits = [*older, *hits]
        if len(hits) >= limit or is_cut or searched >= MOST_SEARCHED:
            break
        end_ms = start_ms
    return hits[-limit:], searched


def _at_time(moment_ms: float) -> dict[str, Any]:
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}


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


# A row of the browser shows this much; the record's own page shows all up to MOST_WHOLE_BYTES.
PREVIEW_BYTES = 2_048
MOST_WHOLE_BYTES = 10 * 1024 * 1024
_GZIP = b"\x1f\x8b"
MOST_SCHEMA_CHARS = 256 * 1024
MOST_DECODED_CHARS = 2 * 1024 * 1024
_DECODE = Engine(Path(__file__).with_name("decode_child.py"))


class BadQuestion(Exception):
    """A parameter of a request is not usable; the message is a sentence."""


def describe_payload(data: bytes, most_bytes: int = PREVIEW_BYTES) -> dict[str, Any]:
    """Return a record's payload: `bytes`, `encoding` (text or base64), `packing`, `data` and `isCut`.

    Nothing of it is parsed: a browser that shows it as text cannot be harmed by it.
    """
    packing: list[str] = []
    raw = data
    if raw.startswith(_GZIP):
        unpacked = _gunzip(raw)
        if unpacked is not None:
            packing.append("gzip")
            raw = unpacked
    is_cut = len(raw) > most_bytes
    part = raw[:most_bytes]
    document: dict[str, Any] = {"bytes": len(data), "packing": packing, "isCut": is_cut}
    try:
        # A character that the cut goes through is left out; any other invalid byte is not text.
        text = part.decode("utf-8") if not is_cut else _decode_cut(part)
        if "\x00" not in text:
            return {**document, "encoding": "text", "data": text}
    except UnicodeDecodeError:
        pass  # not text: base64 below
    return {**document, "encoding": "base64", "data": base64.b64encode(part).decode()}


def decode_payload(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return a payload (`data`, `encoding`) as the JSON `text` that a `schema` gives, and its registry's `header`.

    `format` is avro or protobuf, which needs a `message` too. A child process with bounds of time and memory decodes.
    Raises BadQuestion, with the reason.
    """
    values = {name: asked.get(name, "") for name in ("format", "schema", "message", "data")}
    if not all(isinstance(value, str) for value in values.values()):
        raise BadQuestion("format, schema, message and data are texts.")
    if values["format"] not in ("avro", "protobuf"):
        raise BadQuestion("format is avro or protobuf.")
    if len(values["schema"]) > MOST_SCHEMA_CHARS or len(values["data"]) > MOST_DECODED_CHARS:
        raise BadQuestion("A schema has at most 256 KiB, and a record that is decoded 2 MiB.")
    if asked.get("encoding") != "base64":
        values["data"] = base64.b64encode(values["data"].encode()).decode()
    try:
        request = json.dumps(values).encode()
        answer = json.loads(POOL.ask(_DECODE, request, caller="dashboard"))
    except TooMuch as error:
        raise BadQuestion(f"Decoding takes too much time or memory: {error}.") from error
    if "problem" in answer:
        raise BadQuestion(answer["problem"])
    return answer


def user_records(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return key and data of the records inside a KPL aggregate; None for any other record."""
    records = disaggregate(data)
    return None if records is None else [(one.key, one.data) for one in records]


def _decode_cut(part: bytes) -> str:
    for drop in range(4):
        try:
            return part[: len(part) - drop].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(part) - 4:
                raise
    return part.decode("utf-8")


def _gunzip(data: bytes) -> bytes | None:
    """Return the unpacked bytes, at most MOST_WHOLE_BYTES and one; None for damaged data."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, MOST_WHOLE_BYTES + 1)
    except zlib.error:
        return None
