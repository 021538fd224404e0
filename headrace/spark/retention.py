"""Reports records that a query can no longer read: DataLoss, or a warning without `kinesis.failOnDataLoss`.

Kinesis itself does not report that records have expired unread: it continues with the oldest left.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from headrace.spark.offsets import Offset
from headrace.spark.options import Options
from headrace.spark.spans import DataLoss, Shard, expired, without

log = logging.getLogger(__name__)

LEAST_RETENTION_S = 86_400  # documented: a day


class StreamTime(Protocol):
    """The calls that the check makes."""

    def now_ms(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the stream's time."""
        ...

    def retention_ms(self) -> int:
        """Return how long the stream keeps a record."""
        ...


def check_retention(reads: StreamTime, options: Options, shard_id: str, resumed_ms: int) -> None:
    """Raise DataLoss, or warn, if a shard that has records now was last read longer ago than its stream keeps them.

    A shard that had no records for that long has lost none, but cannot be distinguished from one that has.
    """
    if reads.now_ms()[0] - resumed_ms <= reads.retention_ms():
        return
    report_loss(
        f"The checkpoint of shard {shard_id} of stream {options.stream} is older than the stream's "
        "retention: records that came since may be lost. Set kinesis.failOnDataLoss to false to go on.",
        options,
    )


def drop_expired(shards: Collection[Shard], start: Offset, options: Options) -> Offset:
    """Return `start` without shards that are no longer listed; raise DataLoss, or warn, if one had records left."""
    finished, lost = expired(shards, start)
    if lost:
        report_loss(
            f"Shards {', '.join(sorted(lost))} of stream {start.stream} expired before they were "
            "read to their end: records are lost. Set kinesis.failOnDataLoss to false to go on without them.",
            options,
        )
    return without(start, finished | lost)


def report_loss(message: str, options: Options) -> None:
    """Raise DataLoss, or warn if the query is to go on."""
    if options.fail_on_data_loss:
        raise DataLoss(message)
    log.warning("%s", message)
