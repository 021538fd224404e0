"""Reads the records that Firehose could not deliver and wrote to S3, and sends each once, even over a kill.

The progress is kept in the same bucket: for each object a list of the lines that were sent, written before and after
each batch. When a kill interrupts a batch, it is unknown whether the batch was sent; it is sent again only on request
(`--uncertain-again`).

Reads the manifests that Firehose writes below `errors/manifests/` for objects that Redshift did not load.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import io
import json
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from headrace.core.values import parse_json

# The prefix of the progress objects, in the same bucket.
PLACES = "headrace-redrive/"
BATCH_RECORDS = 500
BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
_T = TypeVar("_T")
_SOURCE_DATA = ("Lambda.", "DynamicPartitioning.", "Decompression")
Fix = Callable[[bytes, dict[str, Any]], "bytes | str | dict[str, Any] | None"]


class Unreadable(Exception):
    """An object cannot be read as error output or as a backup."""


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that Firehose could not deliver, or backed up.

    Attributes:
        key: the key of its object.
        number: its line in the object, from 0.
        code: AWS's error code; `backup` for a record that was backed up.
        message: AWS's error message.
        arrived_ms: when it arrived at Firehose; 0 when that is unknown.
        data: the record.
        is_source: the data is the producer's; else it is the output of processing.
        error: the complete error line.
    """

    key: str
    number: int
    code: str
    message: str
    arrived_ms: int
    data: bytes
    is_source: bool
    error: dict[str, Any]


@dataclass(slots=True)
class ObjectProgress:
    """The progress of an object: which lines were sent, and which were being sent during a kill."""

    sent: set[int] = field(default_factory=set[int])
    sending: set[int] = field(default_factory=set[int])


class Target(Protocol):
    """The target of records."""

    name: str

    def send(self, datas: list[bytes], keys: Sequence[str] = ()) -> list[int]:
        """Send a batch; return the positions of the records that the target refused.

        `keys` are the partition keys that the records had, empty where unknown.
        Raises when it is unknown which records arrived.
        """
        ...


def lines_of(
    key: str, body: bytes, *, backup: bool, most_bytes: int | None = None
) -> list[FailedRecord]:
    """Return the records in an object, of at most `most_bytes` once it is decompressed. Raises Unreadable."""
    text = _plain(key, body, most_bytes)
    return [
        _parse_backed_up(key, number, line) if backup else _parse_failed(key, number, line)
        for number, line in enumerate(text.split(b"\n"))
        if line
    ]


def _plain(key: str, body: bytes, most_bytes: int | None = None) -> bytes:
    read_bytes = -1 if most_bytes is None else most_bytes + 1
    try:
        if body.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
                body = file.read(read_bytes)
        elif body.startswith(b"PK\x03\x04"):
            with (
                zipfile.ZipFile(io.BytesIO(body)) as archive,
                archive.open(archive.namelist()[0]) as file,
            ):
                body = file.read(read_bytes)
        elif key.endswith(".snappy"):
            # Imported only when it is used.
            from headrace.deliveries.snappy import snappy_decompressed

            body = snappy_decompressed(body, most_bytes)
    except (OSError, EOFError, ValueError, IndexError, zlib.error, zipfile.BadZipFile) as error:
        raise Unreadable(f"{key} cannot be decompressed: {error}") from error
    if most_bytes is not None and len(body) > most_bytes:
        raise Unreadable(f"{key} has more than {most_bytes:,} bytes")
    return body


def _parse_backed_up(key: str, number: int, line: bytes) -> FailedRecord:
    return FailedRecord(key, number, "backup", "", 0, line, True, {})


def _parse_failed(key: str, number: int, line: bytes) -> FailedRecord:
    try:
        error = parse_json(line)
        data = base64.b64decode(error["rawData"], validate=True)
        code = str(error.get("errorCode") or error["lastErrorCode"])
        arrived_ms = int(error.get("arrivalTimestamp") or 0)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as problem:
        raise Unreadable(
            f"line {number + 1} of {key} is not an error line of Firehose"
        ) from problem
    message = str(error.get("errorMessage") or error.get("lastErrorMessage") or "")
    is_source = code.startswith(_SOURCE_DATA)
    return FailedRecord(key, number, code, message, arrived_ms, data, is_source, error)


class Bucket:
    """The failed records under a prefix of a bucket, and the progress of one target.

    `most_bytes` bounds an object, also once it is decompressed; without it every object is read.
    """

    def __init__(
        self, s3: Any, bucket: str, prefix: str, *, backup: bool, most_bytes: int | None = None
    ) -> None:
        self._most_bytes = most_bytes
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._backup = backup

    def object_keys(self) -> Iterator[str]:
        """Yield the objects' keys, in order."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        for page in pages:
            for item in page.get("Contents", []):
                if not item["Key"].startswith(PLACES) and not item["Key"].endswith("/"):
                    yield item["Key"]

    def lines(self, key: str) -> list[FailedRecord]:
        """Return the records of an object, or of the objects that a manifest names. Raises Unreadable."""
        body = self._read(self._bucket, key)["Body"].read()
        urls = None if self._backup else urls_of(body)
        return (
            lines_of(key, body, backup=self._backup, most_bytes=self._most_bytes)
            if urls is None
            else self._read_named(key, urls)
        )

    def _read(self, bucket: str, key: str) -> dict[str, Any]:
        answer = self._s3.get_object(Bucket=bucket, Key=key)
        if self._most_bytes is not None and answer["ContentLength"] > self._most_bytes:
            raise Unreadable(f"{key} has more than {self._most_bytes:,} bytes")
        return cast("dict[str, Any]", answer)

    def manifest_urls(self) -> Iterator[str]:
        """Yield the addresses of the manifests under the prefix, in order."""
        for key in self.object_keys():
            body = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            if urls_of(body) is not None:
                yield f"s3://{self._bucket}/{key}"

    def _read_named(self, key: str, urls: list[str]) -> list[FailedRecord]:
        failed_records: list[FailedRecord] = []
        size_bytes = 0
        for url in urls:
            bucket, name = place_of(url)
            try:
                answer = self._read(bucket, name)
            except self._s3.exceptions.NoSuchKey as error:
                raise Unreadable(f"{url}, which {key} names, is not there") from error
            arrived_ms = int(answer["LastModified"].timestamp() * 1000)
            text = _plain(name, answer["Body"].read(), self._most_bytes)
            size_bytes += len(text)
            if self._most_bytes is not None and size_bytes > self._most_bytes:
                raise Unreadable(f"{key} names more than {self._most_bytes:,} bytes")
            for data in records_of(text):
                code, message = NOT_LOADED, f"not loaded from {url}"
                number = len(failed_records)
                failed_records.append(
                    FailedRecord(key, number, code, message, arrived_ms, data, False, {"url": url})
                )
        return failed_records

    def _place_key(self, key: str, target: str) -> str:
        name = hashlib.sha256(target.encode()).hexdigest()[:16]
        return f"{PLACES}{name}/{key}.json"

    def place(self, key: str, target: str) -> ObjectProgress:
        """Return the progress of an object for a target."""
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._place_key(key, target))
        except self._s3.exceptions.NoSuchKey:
            return ObjectProgress()
        stored = json.loads(answer["Body"].read())
        return ObjectProgress(_numbers(stored["sent"]), _numbers(stored["sending"]))

    def keep(self, key: str, target: str, progress: ObjectProgress) -> None:
        """Write the progress of an object for a target."""
        stored = {
            "target": target,
            "sent": _ranges(progress.sent),
            "sending": _ranges(progress.sending),
        }
        self._s3.put_object(
            Bucket=self._bucket,
            Key=self._place_key(key, target),
            Body=json.dumps(stored).encode(),
            ContentType="application/json",
        )


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _numbers(ranges: list[list[int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@dataclass(slots=True)
class RedriveCounts:
    """The counts of a run.

    Attributes:
        sent: records that were sent.
        before: records that had been sent by an earlier run.
        left_out: records for which the fix returned None.
        uncertain: records that were being sent during a kill, and were not sent again.
    """

    sent: int = 0
    before: int = 0
    left_out: int = 0
    uncertain: int = 0


def redrive_object(
    bucket: Bucket,
    key: str,
    lines: list[FailedRecord],
    target: Target,
    *,
    fix: Fix | None,
    again: bool,
    done: RedriveCounts,
) -> None:
    """Send an object's selected lines to a target, except those that were sent before.

    Args:
        bucket: stores the progress.
        key: the object.
        lines: the selected lines.
        target: the target of the records.
        fix: returns the changed record, or None to leave it out.
        again: also send lines that were being sent during a kill.
        done: the counts, which are increased.
    """
    progress = bucket.place(key, target.name)
    if again:
        progress.sending.clear()
    # It is unknown which of these were sent: they count as sent, and are reported.
    done.uncertain += sum(line.number in progress.sending for line in lines)
    done.before += sum(line.number in progress.sent for line in lines)
    waiting = [line for line in lines if line.number not in progress.sent | progress.sending]

    def chosen() -> Iterator[tuple[int, bytes]]:
        for line in waiting:
            data = line.data if fix is None else apply_fix(fix, line)
            if data is None:
                done.left_out += 1
            else:
                yield line.number, data

    for batch in batches_of(chosen()):
        numbers = {number for number, _ in batch}
        bucket.keep(key, target.name, ObjectProgress(progress.sent, progress.sending | numbers))
        refused = {batch[position][0] for position in target.send([data for _, data in batch])}
        progress.sent |= numbers - refused
        bucket.keep(key, target.name, progress)
        done.sent += len(numbers - refused)
        if refused:
            raise NotSent(f"{target.name} refused {len(refused)} records of {key}")


def batches_of(records: Iterable[tuple[_T, bytes]]) -> Iterator[list[tuple[_T, bytes]]]:
    """Group records, each after what its caller knows it by, so that a request of any target takes a group."""
    batch: list[tuple[_T, bytes]] = []
    size_bytes = 0
    for known_by, data in records:
        if batch and (len(batch) >= BATCH_RECORDS or size_bytes + len(data) > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append((known_by, data))
        size_bytes += len(data)
    if batch:
        yield batch


def apply_fix(fix: Fix, line: FailedRecord) -> bytes | None:
    """Return the record that a fix returns as bytes, text, or an object that becomes JSON; None leaves it out."""
    fixed = fix(line.data, line.error)
    if fixed is None or isinstance(fixed, bytes):
        return fixed
    return fixed.encode() if isinstance(fixed, str) else json.dumps(fixed).encode()


# --- targets ----------------------------------------------------------------------------------


class NotSent(Exception):
    """A target did not accept records."""


class DeliveryStreamTarget:
    """A delivery stream."""

    def __init__(self, firehose: Any, name: str, wait: Callable[[float], None]) -> None:
        self.name = f"firehose:{name}"
        self._firehose = firehose
        self._stream = name
        self._wait = wait

    def send(self, datas: list[bytes], keys: Sequence[str] = ()) -> list[int]:
        """See `Target.send`. Only throttled records are tried again."""
        return _put_with_retries(datas, self._put, self._wait)

    def _put(self, datas: list[bytes]) -> list[dict[str, Any]]:
        answer = self._firehose.put_record_batch(
            DeliveryStreamName=self._stream, Records=[{"Data": data} for data in datas]
        )
        return cast("list[dict[str, Any]]", answer["RequestResponses"])


class StreamTarget:
    """A Kinesis stream. `key` names the JSON field with the partition key; else it is the record's, or random."""

    def __init__(self, kinesis: Any, name: str, key: str, wait: Callable[[float], None]) -> None:
        self.name = f"kinesis:{name}"
        self._kinesis = kinesis
        self._stream = name
        self._key = key
        self._wait = wait

    def send(self, datas: list[bytes], keys: Sequence[str] = ()) -> list[int]:
        """See `Target.send`."""
        pairs = list(zip(datas, keys or [""] * len(datas), strict=True))
        return _put_with_retries(pairs, self._put, self._wait)

    def _put(self, pairs: list[tuple[bytes, str]]) -> list[dict[str, Any]]:
        records = [
            {"Data": data, "PartitionKey": self._key_of(data, known)} for data, known in pairs
        ]
        answer = self._kinesis.put_records(StreamName=self._stream, Records=records)
        return cast("list[dict[str, Any]]", answer["Records"])

    def _key_of(self, data: bytes, known: str) -> str:
        if self._key:
            try:
                return str(parse_json(data)[self._key])[:256] or "-"
            except (ValueError, KeyError, TypeError):
                pass  # The record has no such field: use a random key.
        return known or str(uuid.uuid4())


class FileTarget:
    """A file of lines."""

    def __init__(self, path: Path) -> None:
        self.name = f"file:{path.resolve()}"
        self._path = path

    def send(self, datas: list[bytes], keys: Sequence[str] = ()) -> list[int]:
        """See `Target.send`."""
        with self._path.open("ab") as file:
            file.write(b"".join(data.rstrip(b"\n") + b"\n" for data in datas))
        return []


_MOST_TURNS = 8


def _put_with_retries(
    datas: list[_T],
    put: Callable[[list[_T]], list[dict[str, Any]]],
    wait: Callable[[float], None],
) -> list[int]:
    """Put records, retrying refused ones a few times; return the positions of those that are still refused."""
    from botocore.exceptions import ClientError

    left = list(range(len(datas)))
    for turn in range(_MOST_TURNS):
        try:
            results = put([datas[index] for index in left])
        except ClientError as error:
            # The service answered with an error, so it took no record. Only server errors may pass later.
            answer: Any = error.response
            if answer["ResponseMetadata"]["HTTPStatusCode"] < 500:
                return left
        else:
            left = [p for p, r in zip(left, results, strict=True) if r.get("ErrorCode")]
        if not left:
            return []
        wait(min(5.0, 0.1 * 2**turn))
    return left


# AWS's manifest has no error code; Firehose's log has it.
NOT_LOADED = "Redshift.NotLoaded"
_BLANKS = " \t\r\n,"
_decoder = json.JSONDecoder()


def urls_of(body: bytes) -> list[str] | None:
    """Return the objects that a manifest of COPY names; None when the document is not a manifest."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        entries = parse_json(body)["entries"]
        return [str(entry["url"]) for entry in cast("list[dict[str, Any]]", entries)]
    except (ValueError, KeyError, TypeError):
        return None


def place_of(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an `s3://` address."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def records_of(body: bytes) -> list[bytes]:
    """Return the records of an object for COPY; joined, they are the object again.

    JSON documents are split where each ends, all other data by lines: Firehose writes no separator between records.
    """
    try:
        return list(_documents(body.decode()))
    except (ValueError, RecursionError):
        return body.splitlines(keepends=True)


def _documents(text: str) -> Iterator[bytes]:
    start = at = 0
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    while at < len(text):
        if text[at] not in "{[":
            raise ValueError(text[at : at + 20])
        _, at = _decoder.raw_decode(text, at)
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        yield text[start:at].encode()
        start = at
