"""What a producer says of itself: its counts, and the records that failed unheard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headrace.client.receipts import PutError


class PutsFailed(Exception):
    """`count` records failed that had no callback; `error` is the first one's."""

    def __init__(self, count: int, error: PutError) -> None:
        super().__init__(
            f"{count} record{'s were' if count > 1 else ' was'} not put; the first: {error}"
        )
        self.count, self.error = count, error


class RequestCounts(NamedTuple):
    """What became of one request.

    Attributes:
        records: that it had, of the stream: an aggregate is one.
        refused: how many of them its answer refuses.
        bytes_: of the data that arrived.
        has_failed: there is no answer but an error.
    """

    records: int
    refused: int
    bytes_: int
    has_failed: bool


@dataclass(slots=True)
class ProducerMetrics:
    """Counts since the start. `buffered` and `buffered_bytes` are those of now."""

    acknowledged: int = 0
    failed: int = 0
    dropped: int = 0
    requests: int = 0
    entries: int = 0
    bytes: int = 0
    throttled: int = 0
    retried: int = 0
    in_foreign_shard: int = 0
    map_refreshes: int = 0
    buffered: int = 0
    buffered_bytes: int = 0
