"""Keeps a stream compacted in S3: Parquet files with the latest of each key, and where in the stream to go on.

`manifest.json` names the files and each shard's last sequence number; it is replaced last, in one request, on the
condition that it is still the one that was read. So a kill leaves the old snapshot or the new one, and of two writers
one is refused. spark_jobs/compact.py writes the same files, which `rebuild` reads. Needs the extra `parquet`.
"""

from __future__ import annotations

import importlib
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.cdc.events import CaptureError, Compaction, Line
from headrace.client.aggregation import disaggregate
from headrace.client.clock import Clock
from headrace.client.hash_keys import list_all_shards

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
        """Return the latest of each key, and the manifest; both empty when there is none.

        Raises CaptureError for what is no snapshot; botocore's errors.
        """
        parquet: Any = importlib.import_module("pyarrow.parquet")
        compaction = Compaction(keys)
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._prefix + "manifest.json")
        except self._s3.exceptions.NoSuchKey:
            self._etag = None
            return compaction, {}
        self._etag = answer["ETag"]
        name = "manifest.json"
        try:
            manifest: dict[str, Any] = json.loads(answer["Body"].read())
            compaction.restore((), manifest["truncated"])
            for name in self._files(manifest):
                content = self._s3.get_object(Bucket=self._bucket, Key=name)["Body"].read()
                table: Any = parquet.read_table(io.BytesIO(content))
                compaction.restore(lines_of(table), manifest["truncated"])
        except self._s3.exceptions.NoSuchKey as error:
            raise self._damage_error(f"{name}, which its manifest names, is not there") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # Arrow's errors are ValueErrors, too.
            raise self._damage_error(f"{name} is none of its: {error}") from error
        return compaction, manifest

    def _damage_error(self, what: str) -> CaptureError:
        return CaptureError(
            f"s3://{self._bucket}/{self._prefix} is no snapshot ({what}): give an empty folder, and capture the"
            " database with --snapshot."
        )

    def _files(self, manifest: Mapping[str, Any]) -> list[str]:
        """Return the keys of a manifest's files; before 2026-12 it named one, by its whole key."""
        if "file" in manifest:
            return [manifest["file"]]
        return [self._prefix + name for name in manifest.get("files", ())]

    def advance(
        self, kinesis: Any, stream: str, keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> tuple[Compaction, int]:
        """Fold what the stream has after the snapshot, and store the new one; return it, and how many records it read.

        Raises CaptureError, also when records have expired unread or another process has stored a snapshot meanwhile;
        botocore's errors.
        """
        now_ms = self._clock.now_ms()
        current = self._fold(kinesis, stream, keys, now_ms)
        if "batch" in current.manifest:
            raise CaptureError(
                f"s3://{self._bucket}/{self._prefix} is the output of the Spark job compact: give another folder."
            )
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
        check_resume(f"s3://{self._bucket}/{self._prefix}", manifest, summary, stream, now_ms)
        offsets: dict[str, str] = dict(manifest.get("offsets", {}))
        count = 0
        for shard_id, number, key, data in records_after(kinesis, stream, offsets):
            compaction.take(data, key, now_ms)
            offsets[shard_id] = number
            count += 1
        arn = summary["StreamARN"]
        return _Current(compaction, manifest, offsets, count, arn, retention_ms(summary))

    def _store(
        self,
        compaction: Compaction,
        old: dict[str, Any],
        offsets: dict[str, str],
        stream: str,
        now_ms: int,
    ) -> None:
        from botocore.exceptions import ClientError

        buffer, name = io.BytesIO(), f"{now_ms}-{uuid.uuid4().hex}.parquet"
        parquet: Any = importlib.import_module("pyarrow.parquet")
        parquet.write_table(table_of(compaction.lines()), buffer)
        file = self._prefix + name
        self._s3.put_object(Bucket=self._bucket, Key=file, Body=buffer.getvalue())
        manifest = {
            "files": [name], "stream": stream, "offsets": offsets, "time_ms": now_ms, "truncated": compaction.truncated,
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
        for key in self._files(old):
            self._s3.delete_object(Bucket=self._bucket, Key=key)


def retention_ms(summary: Mapping[str, Any]) -> int:
    """Return how long a stream keeps its records, from its description."""
    return int(summary["RetentionPeriodHours"]) * _HOUR_MS


def check_resume(
    where: str, state: Mapping[str, Any], summary: Mapping[str, Any], stream: str, now_ms: int
) -> None:
    """Raise CaptureError when what is stored cannot go on with this stream: another's, or records are gone.

    `state` has stream and time_ms; it is empty when nothing is stored yet.
    """
    if not state:
        return
    # The Spark job knows the stream by the name that it was given.
    if state["stream"] not in (summary["StreamARN"], stream):
        raise CaptureError(f"{where} has the snapshot of {state['stream']}, not of {stream}.")
    if not state["offsets"] and state.get("batch") is not None:
        raise CaptureError(
            f"{where} does not say where in {stream} to go on: EMR's own connector names no shards."
        )
    if now_ms - state["time_ms"] > retention_ms(summary):
        raise CaptureError(
            f"The snapshot is older than the {summary['RetentionPeriodHours']} hours that {stream} keeps its"
            " records: some have expired unread; capture the database with --snapshot, and begin in an empty"
            " folder or table."
        )


def table_of(lines: Iterable[Line]) -> Any:
    """Return a compaction's lines as Arrow's table."""
    arrow: Any = importlib.import_module("pyarrow")
    types = ("string", "string", "string", "bool_", "int64", "int64", "int64")
    columns = list(zip(*lines, strict=True)) or [()] * len(types)
    arrays = [arrow.array(c, getattr(arrow, t)()) for c, t in zip(columns, types, strict=True)]
    return arrow.table(arrays, names=Compaction.COLUMNS)


def lines_of(table: Any) -> Iterator[Line]:
    """Return the lines of Arrow's table."""
    return zip(*(table[name].to_pylist() for name in Compaction.COLUMNS), strict=True)


def records_after(
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
