"""Stores event source mappings and their checkpoints in the state database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from headrace.core.ports import AfterSequence, AtSequence, TrimHorizon
from headrace.services.lambda_.mappings.mapping import (
    NOTHING_YET,
    Checkpoint,
    LaneProgress,
    Mapping,
    Pinned,
)
from headrace.services.lambda_.mappings.window import Window
from headrace.store.database import Database, Documents


class MappingStore:
    """Stores mappings and their checkpoints in the state database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mappings: Documents = database.documents("lambda_mappings")
        self._checkpoints: Documents = database.documents("lambda_checkpoints")

    def load(self) -> list[Mapping]:
        """Return every mapping."""
        return [Mapping(**value) for _, value in self._mappings.items()]

    def put(self, mapping: Mapping, pinned: dict[str, Pinned] | None = None) -> None:
        """Store a mapping, and for a new mapping the starting positions of its shards."""
        value = {**asdict(mapping), "last_result": NOTHING_YET, "last_failure": ""}
        del value["noted_losses"], value["handed"]
        with self._database.transaction():
            self._mappings.put(mapping.uuid, value)
            for shard_id, position in (pinned or {}).items():
                self.checkpoint(mapping.uuid, shard_id, position)

    def delete(self, uuid: str) -> None:
        """Remove a mapping and its checkpoints."""
        with self._database.transaction():
            self._mappings.delete(uuid)
            for key, _ in self._checkpoints.items(f"{uuid}/"):
                self._checkpoints.delete(key)

    def checkpoint(
        self,
        uuid: str,
        shard_id: str,
        position: Pinned | None,
        *,
        marks: tuple[LaneProgress, ...] = (),
        window: Window | None = None,
    ) -> None:
        """Store a shard's checkpoint; see `Checkpoint`."""
        value: dict[str, Any]
        match position:
            case None:
                value = {"kind": "done"}
            case TrimHorizon():
                value = {"kind": "trim"}
            case AtSequence(number):
                value = {"kind": "at", "sequence": number}
            case AfterSequence(number):
                value = {"kind": "after", "sequence": number}
        if marks:
            value["marks"] = [[one.lanes, one.done] for one in marks]
        if window is not None:
            value["window"] = window.to_json()
        self._checkpoints.put(f"{uuid}/{shard_id}", value)

    def forget_shards(self, uuid: str, shard_ids: Iterable[str]) -> None:
        """Remove the checkpoints of shards that the stream no longer has."""
        with self._database.transaction():
            for shard_id in shard_ids:
                self._checkpoints.delete(f"{uuid}/{shard_id}")

    def checkpoints(self, uuid: str) -> dict[str, Checkpoint]:
        """Return a mapping's checkpoints, by shard id."""
        prefix = f"{uuid}/"
        return {
            key.removeprefix(prefix): _parse_checkpoint(value)
            for key, value in self._checkpoints.items(prefix)
        }

    def load_checkpoint(self, uuid: str, shard_id: str) -> Checkpoint:
        """Return a shard's checkpoint.

        A shard without a checkpoint was opened after the mapping was made; it is read from its start.
        """
        return _parse_checkpoint(self._checkpoints.get(f"{uuid}/{shard_id}") or {"kind": "trim"})


def _parse_checkpoint(value: dict[str, Any]) -> Checkpoint:
    position: Pinned | None
    match value["kind"]:
        case "done":
            position = None
        case "at":
            position = AtSequence(value["sequence"])
        case "after":
            position = AfterSequence(value["sequence"])
        case _:
            position = TrimHorizon()
    marks = tuple(
        LaneProgress(lanes, {int(lane): number for lane, number in done.items()})
        for lanes, done in value.get("marks", ())
    )
    window = value.get("window")
    return Checkpoint(position, marks, None if window is None else Window.from_json(window))
