"""Puts records into a stream in batches within AWS's limits, and counts those that were acknowledged."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.cli.options import error_text, explain
from headrace.cli.stream_names import explain_stream
from headrace.core.clock import Clock, SystemClock

RECORDS_PER_PUT = 500
BYTES_PER_PUT = 4 * 1024 * 1024
MOST_TRIES = 10
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0
# How AWS names a record of a request, counting from 1: "Value '' at 'records.2.member.partitionKey' failed ..."
_RECORD_IN_MESSAGE = re.compile(r"'records\.(\d+)\.member")


class PutFailed(Exception):
    """Records were not put; the message is one sentence that names the first of them and AWS's code."""


class Putter:
    """Puts records into one stream, in order, and counts them.

    `put` is called by one thread at a time; the counts may be read, and `stop` called, by any.

    Attributes:
        acknowledged: how many records the stream has taken.
        shards: how many of them each shard has.
        unknown: how many were in a request when the connection or the service failed; the stream may have them or not.
    """

    def __init__(self, kinesis: Any, stream: str, *, clock: Clock | None = None) -> None:
        self.stream = stream
        self.shards: Counter[str] = Counter()
        self.unknown = 0
        self._kinesis = kinesis
        self._clock = clock or SystemClock()
        self._offered = 0
        self._stopped = threading.Event()

    @property
    def acknowledged(self) -> int:
        """How many records the stream has acknowledged."""
        return self.shards.total()

    def stop(self) -> None:
        """Make `put` refuse further batches, and stop its retries."""
        self._stopped.set()

    def summary(self, *, by_shard: bool = False) -> str:
        """Return a sentence about what has been put so far."""
        count = self.acknowledged
        text = f"{count} record{'s' if count != 1 else ''} put into {self.stream}"
        if by_shard and self.shards:
            spread = ", ".join(f"{shard}: {n}" for shard, n in sorted(self.shards.items()))
            text += f" ({spread})"
        if self.unknown:
            text += f"; of {self.unknown} more, which were on their way, some may be there too"
        return text

    def put(self, batch: list[dict[str, Any]]) -> int:
        """Put a batch by one request, with retries of throttled records; return how many records it had.

        A retried record may arrive after a later one with the same key, as with AWS's SDK.

        Raises:
            PutFailed: some records were not put. Those of the batch that were put are counted; later batches are
                refused.
        """
        first = self._offered + 1
        self._offered += len(batch)
        waiting = list(range(len(batch)))
        refusals: dict[int, str] = {}
        tries = 0
        while tries < MOST_TRIES and not self._stopped.is_set():
            tries += 1
            answer = self._ask(batch, waiting, first)
            refusals = self._count(waiting, answer)
            if not refusals:
                return len(batch)
            waiting = list(refusals)
            if tries < MOST_TRIES:
                wait_s = min(_FIRST_WAIT_S * 2 ** (tries - 1), _LONGEST_WAIT_S)
                self._clock.wait(self._stopped, wait_s)
        self._stopped.set()
        if not refusals:
            raise PutFailed(f"record {first + waiting[0]} was not put any more")
        raise PutFailed(
            f"record {first + waiting[0]} was refused {tries} times"
            f"{_and_others(len(waiting) - 1)}: {refusals[waiting[0]].removesuffix('.')}"
        )

    def _ask(self, batch: list[dict[str, Any]], waiting: list[int], first: int) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        self.unknown = len(waiting)
        records = [batch[i] for i in waiting]
        try:
            answer = self._kinesis.put_records(StreamName=self.stream, Records=records)
        except ClientError as error:
            if _status(error) < 500:
                self.unknown = 0
            self._stopped.set()
            raise PutFailed(
                f"{_describe_refused_records(error, waiting, first)}: {error_text(error).removesuffix('.')}"
            ) from error
        except BotoCoreError as error:
            # Botocore's errors that occur after a connection is made.
            if not isinstance(error, HTTPClientError):
                self.unknown = 0
            self._stopped.set()
            raise PutFailed(error_text(error).removesuffix(".")) from error
        self.unknown = 0
        return answer

    def _count(self, waiting: list[int], answer: Any) -> dict[int, str]:
        """Count the records that a request has put; return the refusals by the record's position in the batch."""
        refusals: dict[int, str] = {}
        for index, result in zip(waiting, answer["Records"], strict=True):
            if result.get("ErrorCode"):
                refusals[index] = f"{result['ErrorCode']}: {result.get('ErrorMessage', '')}"
            else:
                self.shards[result["ShardId"]] += 1
        return refusals


def check_stream(kinesis: Any, stream: str) -> None:
    """Check that the cloud and the stream exist before any record is put. Raises ClickException."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        kinesis.describe_stream_summary(StreamName=stream)
    except ClientError as error:
        # A caller who may put records may lack permission to describe the stream.
        with contextlib.suppress(kinesis.exceptions.AccessDeniedException):
            raise explain_stream(error, kinesis, stream) from error
    except BotoCoreError as error:
        raise explain(error) from error


def _status(error: Exception) -> int:
    response: Any = getattr(error, "response", {})
    return int(response["ResponseMetadata"]["HTTPStatusCode"])


def _describe_refused_records(error: Exception, waiting: list[int], first: int) -> str:
    """Return a phrase with the records of a refused request, or with the one that AWS's message names."""
    named = _RECORD_IN_MESSAGE.search(str(error))
    if named is not None and 1 <= int(named[1]) <= len(waiting):
        return f"record {first + waiting[int(named[1]) - 1]} was refused"
    if len(waiting) == 1:
        return f"record {first + waiting[0]} was refused"
    return f"records {first + waiting[0]} to {first + waiting[-1]} were refused"


def _and_others(count: int) -> str:
    if not count:
        return ""
    return f", as {count} other{'s were' if count > 1 else ' was'}"


def batches(records: Iterable[dict[str, Any] | None]) -> Iterator[list[dict[str, Any]]]:
    """Group records into PutRecords requests by AWS's limits of count and bytes; None ends a group early."""
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for record in records:
        record_bytes = 0
        if record is not None:
            record_bytes = len(record["Data"]) + len(record["PartitionKey"].encode())
        is_full = len(batch) == RECORDS_PER_PUT or size_bytes + record_bytes > BYTES_PER_PUT
        if batch and (record is None or is_full):
            yield batch
            batch, size_bytes = [], 0
        if record is not None:
            batch.append(record)
            size_bytes += record_bytes
    if batch:
        yield batch
