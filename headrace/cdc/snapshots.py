"""Keeps a stream compacted in S3: a Parquet file with the latest of each key, and where in the stream to go on.

`manifest.json` names the file and each shard's last sequence number; it is replaced last, in one request, on the
condition that it is still the one that was read. So a kill leaves the old snapshot or the new one, and of two writers
one is refused. Needs the extra `parquet`.
"""

from __future__ import annotations

import importlib
import io
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.cdc.changes import CaptureError
from headrace.cdc.compaction import Compaction
from headrace.client.aggregation import disaggregate
from headrace.client.clock import Clock
from headrace.client.streams import list_all_shards

_HOUR_MS = 3_600_000
_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict")


@dataclass(frozen=True)
class _Current:
    """A snapshot with what the stream has after it: how many records, and the offsets behind them."""

    compaction: Compaction
    manifest: dict[str, Any]
    offsets: dict[str, str]
    count: int
    stream_arn: str
    retention_ms: int


class Snapshots:
    """The snapshots of one stream in one folder of a bucket. One thread; any number of processes.

    Durability: as S3's; `advance` returns when the new snapshot is what readers see.
    """

    def __init__(self, s3: Any, bucket: str, prefix: str, clock: Clock) -> None:
        """Take boto3's client of S3, and the folder."""
        self._s3, self._bucket, self._clock = s3, bucket, clock
        self._prefix = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        self._etag: str | None = None

    def load(
        self, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> tuple[Compaction, dict[str, Any]]:
        """Return the latest of each key, and the manifest; both empty when there is none. Raises botocore's errors."""
        parquet: Any = importlib.import_module("pyarrow.parquet")
        compaction = Compaction(keys)
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._prefix + "manifest.json")
        except self._s3.exceptions.NoSuchKey:
            self._etag = None
            return compaction, {}
        self._etag = answer["ETag"]
        manifest: dict[str, Any] = json.loads(answer["Body"].read())
        content = self._s3.get_object(Bucket=self._bucket, Key=manifest["file"])["Body"].read()
        table: Any = parquet.read_table(io.BytesIO(content))
        compaction.restore(table.to_pylist(), manifest["truncated"])
        return compaction, manifest

    def advance(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> tuple[Compaction, int]:
        """Fold what the stream has after the snapshot, and store the new one; return it, and how many records it read.

        Raises CaptureError, also when records have expired unread or another process has stored a snapshot meanwhile;
        botocore's errors.
        """
        now_ms = self._clock.now_ms()
        current = self._fold(kinesis, stream, keys, now_ms)
        compaction = current.compaction
        compaction.forget_tombstones(now_ms - 2 * current.retention_ms)
        self._store(compaction, current.manifest, current.offsets, current.stream_arn, now_ms)
        return compaction, current.count

    def rebuild(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> Compaction:
        """Return the tables as of now: the snapshot, and the stream from its offsets on. Stores nothing.

        A view is what a function makes of `rows(table)`. Raises CaptureError, also when there is no snapshot or records
        after it have expired; botocore's errors.
        """
        current = self._fold(kinesis, stream, keys, self._clock.now_ms())
        if not current.manifest:
            raise CaptureError(
                f"There is no snapshot in s3://{self._bucket}/{self._prefix}: make one by headrace compact."
            )
        return current.compaction

    def _fold(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None, now_ms: int
    ) -> _Current:
        """Fold what the stream has after the snapshot into it, in memory. Raises CaptureError."""
        compaction, manifest = self.load(keys)
        summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        if manifest and manifest["stream"] != summary["StreamARN"]:
            raise CaptureError(
                f"s3://{self._bucket}/{self._prefix} has the snapshot of {manifest['stream']}, not of {stream}."
            )
        retention_ms = summary["RetentionPeriodHours"] * _HOUR_MS
        if manifest and now_ms - manifest["time_ms"] > retention_ms:
            raise CaptureError(
                f"The snapshot is older than the {summary['RetentionPeriodHours']} hours that {stream} keeps its"
                " records: some have expired unread; capture the database with --snapshot, and begin in an empty"
                " folder."
            )
        offsets: dict[str, str] = dict(manifest.get("offsets", {}))
        count = 0
        for shard_id, number, key, data in _records(kinesis, stream, offsets):
            compaction.take(data, key, now_ms)
            offsets[shard_id] = number
            count += 1
        arn = summary["StreamARN"]
        return _Current(compaction, manifest, offsets, count, arn, retention_ms)

    def _store(
        self,
        compaction: Compaction,
        old: dict[str, Any],
        offsets: dict[str, str],
        stream: str,
        now_ms: int,
    ) -> None:
        from botocore.exceptions import ClientError

        buffer, file = io.BytesIO(), f"{self._prefix}{now_ms}-{uuid.uuid4().hex}.parquet"
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        types = zip(
            Compaction.COLUMNS,
            ("string", "string", "string", "bool_", "uint64", "int64", "int64"),
            strict=True,
        )
        schema = arrow.schema([(name, getattr(arrow, type_)()) for name, type_ in types])
        parquet.write_table(arrow.table(compaction.columns(), schema=schema), buffer)
        self._s3.put_object(Bucket=self._bucket, Key=file, Body=buffer.getvalue())
        manifest = {
            "file": file, "stream": stream, "offsets": offsets, "time_ms": now_ms, "truncated": compaction.truncated,
        }  # fmt: skip
        condition = {"IfMatch": self._etag} if self._etag else {"IfNoneMatch": "*"}
        try:
            answer = self._s3.put_object(
                Bucket=self._bucket,
                Key=self._prefix + "manifest.json",
                Body=json.dumps(manifest).encode(),
                **condition,
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _CONFLICTS:
                raise
            self._s3.delete_object(Bucket=self._bucket, Key=file)
            raise CaptureError(
                f"Another process has stored a snapshot in s3://{self._bucket}/{self._prefix} meanwhile; it counts."
            ) from error
        self._etag = answer["ETag"]
        if old:
            self._s3.delete_object(Bucket=self._bucket, Key=old["file"])


def _records(
    kinesis: Any, stream: str, offsets: Mapping[str, str]
) -> Iterator[tuple[str, str, str, bytes]]:
    """Read every shard from its offset to its end of now; yield its id, sequence number, partition key and data."""
    start_of = dict(offsets)
    for shard in list_all_shards(kinesis, StreamName=stream):
        shard_id = shard["ShardId"]
        start: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
        if shard_id in start_of:
            start = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": start_of[shard_id],
            }
        iterator = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard_id, **start)[
            "ShardIterator"
        ]
        while iterator:
            page = kinesis.get_records(ShardIterator=iterator)
            for record in page["Records"]:
                for key, data in _users(record):
                    yield shard_id, record["SequenceNumber"], key, data
            iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None


def _users(record: Any) -> list[tuple[str, bytes]]:
    users = disaggregate(record["Data"])
    if users is None:
        return [(record["PartitionKey"], record["Data"])]
    return [(user.key, user.data) for user in users]
