"""Limits the size of Spark's event logs: of each running job's log, and of all logs of a cloud together.

A log that is too long loses files from its middle, oldest first: its first file describes the application, and its last
ones the current state. Files are emptied, not deleted, because Spark's history server refuses a log with a missing
file. When all logs together are too large, the logs of the jobs that ended first are deleted.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.spark_submit.history import event_log_folders, link_event_logs
from headrace.spark_submit.process import JobProcess
from headrace.spark_submit.ui import event_logs_in

log = logging.getLogger(__name__)

# About a day of a micro-batch each second.
MOST_APPLICATION_BYTES = 64 * 1024 * 1024
MOST_TOTAL_BYTES = 1024 * 1024 * 1024
LOOK_EVERY_S = 30.0
# The file that Spark writes to, and the one before, which may still be open.
_NEWEST_KEPT = 2
# The content of an empty file, by suffix; for zstd (RFC 8878) a frame with one empty raw block.
_EMPTY = {".zstd": bytes.fromhex("28b52ffd2000010000"), "": b""}


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    job: Path
    bytes: int
    changed_ns: int


class EventLogBounds:
    """The worker that enforces the limits, and updates the links that the history server lists."""

    name = "spark-event-logs"

    def __init__(
        self,
        data_dir: Path,
        *,
        most_application_bytes: int = MOST_APPLICATION_BYTES,
        most_total_bytes: int = MOST_TOTAL_BYTES,
    ) -> None:
        self._data_dir = data_dir
        self._most_application_bytes = most_application_bytes
        self._most_total_bytes = most_total_bytes

    def step(self) -> float:
        """Shorten and remove logs until they are within the limits; see `Worker.step`."""
        logs: list[_Found] = []
        for events in event_log_folders(self._data_dir):
            for event_log in event_logs_in(events):
                # A job may be removed meanwhile, together with its log.
                with contextlib.suppress(FileNotFoundError):
                    shorten(event_log.path, self._most_application_bytes)
                    size_bytes, changed_ns = _size(event_log.path)
                    logs.append(_Found(event_log.path, events.parent, size_bytes, changed_ns))
        self._remove_oldest(logs)
        link_event_logs(self._data_dir)
        return LOOK_EVERY_S

    def _remove_oldest(self, logs: list[_Found]) -> None:
        total_bytes = sum(one.bytes for one in logs)
        for one in sorted(logs, key=lambda one: one.changed_ns):
            if total_bytes <= self._most_total_bytes:
                return
            process = JobProcess.find(one.job)
            if process is not None and process.exit_code is None and process.alive:
                continue
            log.info(
                "event log %s is removed: all are over %d bytes", one.path, self._most_total_bytes
            )
            if one.path.is_dir():
                shutil.rmtree(one.path, ignore_errors=True)
            else:
                one.path.unlink(missing_ok=True)
            total_bytes -= one.bytes


def shorten(event_log: Path, most_bytes: int) -> None:
    """Empty the oldest files, except the first, of a rolled log until the rest is within the limit."""
    if not event_log.is_dir():
        return
    files = sorted(event_log.glob("events_*"), key=_index)
    total_bytes = sum(file.stat().st_size for file in files)
    for file in files[1:-_NEWEST_KEPT]:
        empty, size_bytes = _EMPTY.get(file.suffix), file.stat().st_size
        if total_bytes <= most_bytes:
            return
        if empty is None or size_bytes <= len(empty):
            continue
        # Atomically: a history server may be reading.
        partial = file.with_name(f".{file.name}.partial")
        partial.write_bytes(empty)
        partial.replace(file)
        total_bytes -= size_bytes - len(empty)


def _index(file: Path) -> int:
    """Return the number of a rolled file: `events_<number>_<application>[.<codec>]`."""
    number = file.name.split("_")[1]
    return int(number) if number.isdigit() else 0


def _size(event_log: Path) -> tuple[int, int]:
    """Return a log's size in bytes, and its last change in nanoseconds."""
    files = [event_log, *event_log.iterdir()] if event_log.is_dir() else [event_log]
    stats = [file.stat() for file in files]
    return sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
