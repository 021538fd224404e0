"""What a capture remembers of its server, to notice a lost slot, another server, or another reader."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.cdc.events import CaptureError, format_lsn
from headrace.cdc.server import Identity, Slot


@dataclass(frozen=True, slots=True)
class Progress:
    """The server, and the LSN up to which changes are safe."""

    system_id: str
    timeline: int
    lsn: int


class ProgressFile:
    """A file with one capture's progress, replaced as a whole. A kill leaves the old or the new one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Progress | None:
        """Return the progress, or None. Raises CaptureError for a file that is something else."""
        try:
            content: Any = json.loads(self.path.read_text())
            return Progress(
                str(content["system_id"]), int(content["timeline"]), int(content["lsn"])
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CaptureError(f"{self.path} is no progress of a capture: {error}.") from error

    def write(self, progress: Progress) -> None:
        """Replace the file. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(progress)))
        partial.replace(self.path)

    def remove(self) -> None:
        """Forget: the next capture begins with a snapshot."""
        self.path.unlink(missing_ok=True)


def check(
    progress: Progress | None,
    identity: Identity,
    slot: Slot | None,
    name: str,
    left_lsn: int | None = None,
) -> str | None:
    """Return a warning or None. Raises CaptureError when changes are lost between the last capture and now.

    `left_lsn`: of a promoted server, where its log left that of the server before, if it did.
    """
    again = "start once with --snapshot to read all rows again"
    if slot is not None and slot.wal_status == "lost":
        raise CaptureError(
            f"The server has removed log that the slot {name} needed (max_slot_wal_keep_size): changes are lost;"
            f" {again}."
        )
    if progress is None:
        return None
    if identity.system_id != progress.system_id:
        raise CaptureError(
            f"This is another server than before (system identifier {identity.system_id}, not {progress.system_id}):"
            f" {again}."
        )
    is_promoted = identity.timeline != progress.timeline
    if is_promoted and (left_lsn is None or left_lsn < progress.lsn):
        raise CaptureError(
            f"The server was promoted without everything that was captured: it is at timeline {identity.timeline}, and"
            f" left timeline {progress.timeline} {'never' if left_lsn is None else f'at {format_lsn(left_lsn)}'}, while"
            f" {format_lsn(progress.lsn)} was captured; {again}."
        )
    if is_promoted and slot is None:
        raise CaptureError(
            f"The server was promoted, and does not have the slot {name}, which only a standby with"
            f" sync_replication_slots keeps: changes after {format_lsn(progress.lsn)} are lost; {again}."
        )
    if slot is None:
        raise CaptureError(
            f"Somebody has dropped the slot {name}: changes after {format_lsn(progress.lsn)} are lost; {again}."
        )
    if identity.lsn < progress.lsn:
        raise CaptureError(
            f"The server is at {format_lsn(identity.lsn)}, before {format_lsn(progress.lsn)}, which was captured:"
            f" it was restored to an earlier moment; {again}."
        )
    if slot.confirmed_lsn > progress.lsn:
        raise CaptureError(
            f"Somebody else has read the slot {name} up to {format_lsn(slot.confirmed_lsn)}; this capture is at"
            f" {format_lsn(progress.lsn)}: changes are lost; {again}."
        )
    if is_promoted:
        return (
            f"The server was promoted (timeline {identity.timeline}, before {progress.timeline}); its slot has"
            " everything."
        )
    return None
