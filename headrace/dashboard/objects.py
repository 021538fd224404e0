"""What the page shows of a delivery's objects (failed records, Parquet tables), and what it can change.

What the page can change: split and merge shards, put and replay records, redrive failed records.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from botocore import xform_name
from botocore.exceptions import ClientError

from headrace.core.evaluation import POOL, Engine, TooMuch
from headrace.core.values import as_mapping
from headrace.dashboard.account import Account, CallRefused, Reader, milliseconds, next_token
from headrace.dashboard.records import BadQuestion, describe_payload, read_record
from headrace.deliveries.redrive_records import (
    PLACES,
    Bucket,
    DeliveryStreamTarget,
    FailedRecord,
    NotSent,
    ObjectProgress,
    RedriveCounts,
    StreamTarget,
    Target,
    Unreadable,
    redrive_object,
)

MOST_OBJECTS = 50
MOST_FAILED = 200
# An object that is larger, also once it is decompressed, is left to `headrace redrive`.
MOST_OBJECT_BYTES = 16 * 1024 * 1024
_PARQUET = Engine(Path(__file__).with_name("parquet_child.py"))
# Without an error prefix the error type is a folder under the prefix, and ends so.
_ERROR_FOLDERS = ("-failed/", "_failed/", "/errors/")
_MOST_WAIT_S = 0.5
# A second click waits for the first: both would send the same records.
_REDRIVING = threading.Lock()
_OPERATIONS = {
    xform_name(name): name
    for name in ("GetObject", "PutObject", "PutRecordBatch", "PutRecords", "ListObjectsV2")
}


class _NoSuchKey(ClientError):
    """See boto3's `S3.Client.exceptions.NoSuchKey`."""


class _Exceptions:
    NoSuchKey = _NoSuchKey


class _Client:
    """A service of an account by boto3's methods, for the engine of `headrace redrive`."""

    exceptions = _Exceptions

    def __init__(self, account: Account, service: str) -> None:
        self._account, self._service = account, service

    def __getattr__(self, name: str) -> Any:
        if name not in _OPERATIONS:
            raise AttributeError(name)

        def call(**params: Any) -> dict[str, Any]:
            try:
                answer = self._account.call(self._service, _OPERATIONS[name], **params)
            except CallRefused as refusal:
                kind = _NoSuchKey if refusal.code == "NoSuchKey" else ClientError
                error = {"Code": refusal.code, "Message": refusal.message}
                status = {"HTTPStatusCode": refusal.status}
                raise kind({"Error": error, "ResponseMetadata": status}, name) from refusal  # type: ignore[arg-type]
            if isinstance(answer.get("Body"), bytes):
                answer["Body"] = io.BytesIO(answer["Body"])
            return answer

        return call


def s3_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a delivery stream's settings of S3: its destination's own, or those beside another destination."""
    destinations: list[dict[str, Any]] = description.get("Destinations") or [{}]
    own = destinations[0].get("ExtendedS3DestinationDescription")
    if own:
        return own
    for value in destinations[0].values():
        beside = as_mapping(value).get("S3DestinationDescription")
        if beside:
            return cast("dict[str, Any]", beside)
    return {}


def _describe(account: Account, name: str) -> tuple[dict[str, Any], str, str, str]:
    """Return a delivery stream, its bucket, and how the keys of its objects and of its errors begin."""
    answer = account.call("firehose", "DescribeDeliveryStream", DeliveryStreamName=name)
    description = answer["DeliveryStreamDescription"]
    s3 = s3_settings(description)
    bucket = s3.get("BucketARN", "").rpartition(":")[2]
    prefix, errors = (str(s3.get(one) or "") for one in ("Prefix", "ErrorOutputPrefix"))
    return description, bucket, prefix.partition("!")[0], errors.partition("!")[0] if errors else ""


def newest_objects(reader: Reader, bucket: str, prefix: str) -> list[dict[str, Any]]:
    """Return the newest objects under a prefix as the page shows them: key, bytes, time."""
    listed = reader.pages(
        "s3",
        "ListObjectsV2",
        "Contents",
        token=next_token("NextContinuationToken", "ContinuationToken"),
        Bucket=bucket,
        Prefix=prefix,
    )
    newest = sorted(
        (one for one in listed if not one["Key"].startswith(PLACES)),
        key=lambda one: one["LastModified"],
        reverse=True,
    )
    return [
        {"key": o["Key"], "bytes": o["Size"], "timeMs": milliseconds(o["LastModified"])}
        for o in newest
    ]


def _target(account: Account, description: Mapping[str, Any]) -> Target:
    """Return what takes a delivery's records: itself, or the stream that it reads, since it then takes no puts."""
    source = description.get("Source", {}).get("KinesisStreamSourceDescription", {})
    if source:
        stream = source["KinesisStreamARN"].rpartition("/")[2]
        return StreamTarget(_Client(account, "kinesis"), stream, "", _wait)
    if description["DeliveryStreamType"] != "DirectPut":
        kind = description["DeliveryStreamType"]
        raise BadQuestion(f"Its records come from {kind}: send them again from there.")
    name = description["DeliveryStreamName"]
    return DeliveryStreamTarget(_Client(account, "firehose"), name, _wait)


def _wait(seconds: float) -> None:
    time.sleep(min(seconds, _MOST_WAIT_S))


def failed_records(account: Account, name: str) -> dict[str, Any]:
    """Return the newest records that a delivery set aside, by object, each with its reason. Raises CallRefused.

    An object that cannot be read, or is too large for the page, is named with a sentence.
    """
    description, bucket_name, prefix, error_prefix = _describe(account, name)
    reader = Reader(account)
    objects = [
        one
        for one in (
            newest_objects(reader, bucket_name, error_prefix or prefix) if bucket_name else []
        )
        if error_prefix or any(folder in one["key"] for folder in _ERROR_FOLDERS)
    ]
    bucket = Bucket(
        _Client(account, "s3"), bucket_name, "", backup=False, most_bytes=MOST_OBJECT_BYTES
    )
    try:
        target = _target(account, description).name
    except BadQuestion:
        target = ""
    left, size_bytes = MOST_FAILED, 0
    rows: list[dict[str, Any]] = []
    for one in objects[:MOST_OBJECTS]:
        size_bytes += one["bytes"]
        if left <= 0 or (rows and size_bytes > MOST_OBJECT_BYTES):
            break
        row: dict[str, Any] = {**one, "records": [], "count": 0, "sent": 0, "problem": ""}
        rows.append(row)
        try:
            lines = bucket.lines(one["key"])
            progress = bucket.place(one["key"], target)
        except Unreadable as error:
            row["problem"] = f"{error}."
            continue
        except ClientError as error:
            row["problem"] = str(error)
            continue
        row |= _describe_lines(lines, progress, most=left)
        left -= len(lines)
    return {
        "name": name,
        "bucket": bucket_name,
        "prefix": error_prefix or prefix,
        "target": target,
        "objects": rows,
        "isCut": len(rows) < len(objects),
        "refused": reader.refusals(),
    }


def _describe_lines(
    lines: Sequence[FailedRecord], progress: ObjectProgress, *, most: int
) -> dict[str, Any]:
    """Return an object's counts, and its first `most` records."""
    done = progress.sent | progress.sending
    return {
        "count": len(lines),
        "sent": sum(line.number in progress.sent for line in lines),
        "uncertain": sum(line.number in progress.sending for line in lines),
        "records": [
            {
                "number": line.number,
                "code": line.code,
                "message": line.message,
                "arrivedMs": line.arrived_ms,
                "isSource": line.is_source,
                "isSent": line.number in done,
                "payload": describe_payload(line.data),
            }
            for line in lines[:most]
        ],
    }


def redrive_failed(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put the failed records of an object (`key`) of a `delivery` again, each once, also over kills and clicks.

    They go to the delivery stream, or to the stream that it reads. Raises CallRefused, BadQuestion.
    """
    name, key = (str(body.get(one) or "") for one in ("delivery", "key"))
    if not name or not key:
        raise BadQuestion("delivery or key is missing.")
    description, bucket_name, prefix, error_prefix = _describe(account, name)
    if not key.startswith(error_prefix or prefix):
        raise BadQuestion(f"{key[:200]} is no object of {name}'s failed records.")
    target = _target(account, description)
    bucket = Bucket(
        _Client(account, "s3"), bucket_name, "", backup=False, most_bytes=MOST_OBJECT_BYTES
    )
    counts = RedriveCounts()
    with _REDRIVING:
        try:
            lines = bucket.lines(key)
            redrive_object(bucket, key, lines, target, fix=None, again=False, done=counts)
        except (Unreadable, NotSent) as error:
            raise BadQuestion(f"{error}; {counts.sent} records were sent.") from error
        except ClientError as error:
            raise BadQuestion(str(error)) from error
    return {
        "target": target.name,
        "sent": counts.sent,
        "before": counts.before,
        "uncertain": counts.uncertain,
    }


def open_object(account: Account, name: str, key: str) -> dict[str, Any]:
    """Return an object of a delivery: a Parquet file's columns and first rows, else the beginning of its text.

    A file is read in a child process with bounds of time and memory. Raises CallRefused, BadQuestion.
    """
    _, bucket, prefix, error_prefix = _describe(account, name)
    if not bucket or not key or not key.startswith((prefix, error_prefix or prefix)):
        raise BadQuestion(f"{key[:200]} is no object of {name}.")
    size_bytes = account.call("s3", "HeadObject", Bucket=bucket, Key=key)["ContentLength"]
    if size_bytes > MOST_OBJECT_BYTES:
        raise BadQuestion(f"{key} has more than {MOST_OBJECT_BYTES:,} bytes: read it with a tool.")
    body: bytes = account.call("s3", "GetObject", Bucket=bucket, Key=key)["Body"]
    document = {"key": key, "bytes": len(body)}
    if body[:4] != b"PAR1":
        return {**document, "payload": describe_payload(body, 64 * 1024)}
    try:
        answer = json.loads(POOL.ask(_PARQUET, body, caller="dashboard"))
    except TooMuch as error:
        raise BadQuestion(f"{key} takes too much time or memory to open: {error}.") from error
    if "problem" in answer:
        raise BadQuestion(answer["problem"])
    return {**document, **answer}


MOST_PUT_BYTES = 10 * 1024 * 1024


def split(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Split a shard at `hashKey`, or in its middle."""
    stream, shard_id = _text(body, "stream"), _text(body, "shardId")
    hash_key = str(body.get("hashKey") or "")
    if not hash_key:
        listed = account.call("kinesis", "ListShards", StreamName=stream)["Shards"]
        keys = next((s["HashKeyRange"] for s in listed if s["ShardId"] == shard_id), None)
        if keys is None:
            raise BadQuestion(f"Stream {stream} has no shard {shard_id}.")
        hash_key = str((int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2)
    account.call(
        "kinesis",
        "SplitShard",
        StreamName=stream,
        ShardToSplit=shard_id,
        NewStartingHashKey=hash_key,
    )
    return {"split": shard_id, "hashKey": hash_key}


def merge(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a shard with an adjacent one."""
    shard_id, other = _text(body, "shardId"), _text(body, "adjacentShardId")
    account.call(
        "kinesis",
        "MergeShards",
        StreamName=_text(body, "stream"),
        ShardToMerge=shard_id,
        AdjacentShardToMerge=other,
    )
    return {"merged": [shard_id, other]}


def put(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put one record; its data is text, or base64 with `encoding`."""
    data = body.get("data")
    if not isinstance(data, str) or len(data) > MOST_PUT_BYTES * 2:
        raise BadQuestion("data is a text of at most 10 MiB.")
    try:
        raw = base64.b64decode(data, validate=True) if body.get("encoding") == "base64" else None
    except binascii.Error as error:
        raise BadQuestion(f"data is not base64: {error}.") from error
    answer = account.call(
        "kinesis",
        "PutRecord",
        StreamName=_text(body, "stream"),
        PartitionKey=_text(body, "partitionKey"),
        Data=data.encode() if raw is None else raw,
    )
    return {"shardId": answer["ShardId"], "sequenceNumber": answer["SequenceNumber"]}


def replay(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put a record of a stream once more, into the same or another stream."""
    stream = _text(body, "stream")
    start = {
        "ShardIteratorType": "AT_SEQUENCE_NUMBER",
        "StartingSequenceNumber": _text(body, "sequenceNumber"),
    }
    shard_id = _text(body, "shardId")
    read_record(account, stream, shard_id, _text(body, "sequenceNumber"))
    iterator = account.call(
        "kinesis", "GetShardIterator", StreamName=stream, ShardId=shard_id, **start
    )["ShardIterator"]
    record = account.call("kinesis", "GetRecords", ShardIterator=iterator, Limit=1)["Records"][0]
    answer = account.call(
        "kinesis",
        "PutRecord",
        StreamName=str(body.get("target") or stream),
        PartitionKey=record.get("PartitionKey", ""),
        Data=record["Data"],
    )
    return {"shardId": answer["ShardId"], "sequenceNumber": answer["SequenceNumber"]}


def redrive(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Move the messages of a dead-letter queue back to the queue that they came from, as SQS does."""
    answer = account.call("sqs", "StartMessageMoveTask", SourceArn=_text(body, "queueArn"))
    return {"taskHandle": answer.get("TaskHandle", "")}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadQuestion(f"{name} is missing.")
    return value


WRITES: Mapping[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]] = {
    "split": split,
    "merge": merge,
    "put": put,
    "replay": replay,
    "redrive": redrive,
    "redrive-failed": redrive_failed,
}
