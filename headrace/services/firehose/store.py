"""How delivery streams and their progress last: documents in the state database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.services.firehose.state import DeliveryStream, Intent, Progress
from headrace.store.database import Database


class DeliveryStreams:
    """All delivery streams and their progress. Thread-safe as the database is."""

    def __init__(self, database: Database) -> None:
        self._streams = database.documents("firehose_streams")
        self._progress = database.documents("firehose_progress")

    def load(self) -> list[DeliveryStream]:
        """Return all delivery streams that are stored."""
        return [DeliveryStream(**value) for _, value in self._streams.items()]

    def save(self, stream: DeliveryStream) -> None:
        """Store a delivery stream; durable on return."""
        self._streams.put(stream.stream_id, asdict(stream))

    def restore(self, stream: DeliveryStream) -> None:
        """Undo the changes to a delivery stream since it was stored."""
        stored: dict[str, Any] = self._streams.get(stream.stream_id) or {}
        for name, value in stored.items():
            setattr(stream, name, value)

    def progress(self, stream_id: str) -> Progress:
        """Return a delivery stream's progress."""
        value = self._progress.get(stream_id)
        if value is None:
            return Progress()
        intent = value.pop("intent")
        return Progress(**value, intent=None if intent is None else Intent(**intent))

    def save_progress(self, stream_id: str, progress: Progress) -> None:
        """Store progress; durable on return."""
        self._progress.put(stream_id, asdict(progress))

    def delete(self, stream_id: str) -> None:
        """Delete a delivery stream and its progress."""
        self._streams.delete(stream_id)
        self._progress.delete(stream_id)
