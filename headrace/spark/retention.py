"""Checks whether records can have expired unread, which Kinesis does not report: it continues with the oldest left."""

from __future__ import annotations

import logging
from typing import Protocol

from headrace.spark.options import Options
from headrace.spark.spans import DataLoss

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
    message = (
        f"The checkpoint of shard {shard_id} of stream {options.stream} is older than the stream's "
        "retention: records that came since may be lost. Set kinesis.failOnDataLoss to false to go on."
    )
    if options.fail_on_data_loss:
        raise DataLoss(message)
    log.warning("%s", message)
