"""Reads streams of several services through one `StreamReader`: the ARN names the service. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    Position,
    ReadResult,
    ShardInfo,
    StreamNotFound,
    StreamReader,
    TrimHorizon,
)


class StreamRouter:
    """Implements `headrace.core.ports.StreamReader` with one reader for each service, by the service's name in ARNs."""

    def __init__(self, readers: Mapping[str, StreamReader]) -> None:
        self._readers = dict(readers)

    def _of(self, arn: str) -> StreamReader:
        """Return the reader of a stream's service. Raises StreamNotFound when the service has no streams."""
        service = (arn.split(":", 3) + [""] * 3)[2]
        reader = self._readers.get(service)
        if reader is None:
            raise StreamNotFound(arn)
        return reader

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """See `StreamReader.shards`."""
        return self._of(stream_arn).shards(stream_arn)

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """See `StreamReader.pin`."""
        return self._of(stream_arn).pin(stream_arn, shard_id, position)

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """See `StreamReader.read`."""
        reader = self._of(stream_arn)
        return reader.read(
            stream_arn, shard_id, position, max_records=max_records, max_bytes=max_bytes
        )

    def consumer_status(self, consumer_arn: str) -> str | None:
        """See `StreamReader.consumer_status`."""
        return self._of(consumer_arn).consumer_status(consumer_arn)

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        return self._of(stream_arn).subscribe(stream_arn, wake)
