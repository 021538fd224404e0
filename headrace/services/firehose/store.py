"""Stores delivery streams and their progress in the state database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec

from headrace.core.workers import WorkerDone
from headrace.services.firehose.state import DeliveryStream, Intent, Progress
from headrace.store.database import Database, Documents


class DeliveryStreams:
    """All delivery streams and their progress. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._streams = database.documents("firehose_streams")
        self._progress = database.documents("firehose_progress")
        self._routes = database.documents("firehose_routes")

    def load(self) -> list[DeliveryStream]:
        """Return all stored delivery streams."""
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
        self._progress.put(stream_id, msgspec.to_builtins(progress))

    def delete(self, stream_id: str) -> None:
        """Delete a delivery stream and its progress."""
        self._streams.delete(stream_id)
        self._progress.delete(stream_id)
        routes = self.routes(stream_id)
        for name in routes.load():
            routes.delete(name)

    def routes(self, stream_id: str) -> StreamRoutes:
        """Return the routes of one delivery stream."""
        return StreamRoutes(self._routes, stream_id)


class StreamProgress:
    """The progress of one delivery stream, in memory never ahead of the disk. One thread at a time saves.

    Attributes:
        saved: the progress that was saved last.
    """

    def __init__(
        self, streams: DeliveryStreams, stream_id: str, is_current: Callable[[], bool]
    ) -> None:
        self.saved = streams.progress(stream_id)
        self._streams = streams
        self._stream_id = stream_id
        self._is_current = is_current

    def save(self, progress: Progress) -> None:
        """Store it; durable on return. Raises WorkerDone when the delivery stream is deleted."""
        if not self._is_current():
            raise WorkerDone
        self._streams.save_progress(self._stream_id, progress)
        self.saved = progress


class StreamRoutes:
    """The routes of one delivery stream: see `RouteStore`. Thread-safe."""

    def __init__(self, documents: Documents, stream_id: str) -> None:
        self._documents = documents
        self._begin = f"{stream_id}:"

    def load(self) -> dict[str, dict[str, Any]]:
        """See `RouteStore.load`."""
        return {
            key.removeprefix(self._begin): value
            for key, value in self._documents.items()
            if key.startswith(self._begin)
        }

    def put(self, name: str, piece: dict[str, Any]) -> None:
        """See `RouteStore.put`."""
        self._documents.put(self._begin + name, piece)

    def delete(self, name: str) -> None:
        """See `RouteStore.delete`."""
        self._documents.delete(self._begin + name)
