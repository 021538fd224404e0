"""A producer's journal: records that were taken, and which of them are done, so that a crash loses none.

A folder with numbered segments. Each is a sequence of frames: CRC-32 of the rest, length, kind, and, for a record, its
id, keys and data; for an acknowledgement, ids. A segment whose records are all done is removed. A frame that a crash
cut off ends its segment: `put` had not returned for it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_HEAD = struct.Struct("<IIB")  # CRC-32 of what follows it; bytes of the body; kind
_RECORD_HEAD = struct.Struct("<QH")  # id; bytes of the keys
_RECORD, _DONE = 1, 2
_SEGMENT_BYTES = 64 << 20
_LOG = logging.getLogger("headrace.client")


class SpoolError(Exception):
    """The journal cannot be used: another producer has it, or it is damaged. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class SpooledRecord:
    """A record that is not done."""

    id: int
    data: bytes
    key: str | None
    explicit: str | None


class Spool:
    """A journal in a folder. One producer at a time; the producer's lock guards it.

    Durability: `append` returns when the operating system has the record, or, with `fsync`, the disk.
    """

    def __init__(
        self, folder: Path, *, fsync: bool = False, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        """Open or make a journal. Raises SpoolError, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._fsync, self._segment_bytes = folder, fsync, segment_bytes
        self._lock_file = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock_file.close()
            raise SpoolError(f"another producer uses the spool {folder}") from error
        # By segment: how many of its records are not done; by record: its segment.
        self._undone: dict[int, int] = {}
        self._segment_of: dict[int, int] = {}
        self._pending: list[SpooledRecord] = []
        self._next_id = 0
        self._read()
        self._segment = max(self._undone, default=0)
        self._file: BinaryIO | None = None
        self._bytes = 0

    def pending(self) -> list[SpooledRecord]:
        """Return the records that were not done when the journal was opened, in order; then forget them."""
        pending, self._pending = self._pending, []
        return pending

    def append(self, data: bytes, key: str | None, explicit: str | None, known_id: int = -1) -> int:
        """Note a record, unless it is one of `pending` with `known_id`; return its id. Raises OSError."""
        if known_id >= 0:
            return known_id
        record_id, self._next_id = self._next_id, self._next_id + 1
        keys = json.dumps([key, explicit]).encode()
        self._write(_RECORD, _RECORD_HEAD.pack(record_id, len(keys)) + keys + data)
        self._segment_of[record_id] = self._segment
        self._undone[self._segment] = self._undone.get(self._segment, 0) + 1
        return record_id

    def acknowledge(self, ids: Iterable[int]) -> None:
        """Note that records are done. Raises OSError."""
        done = array("Q", ids)
        self._write(_DONE, done.tobytes())
        for record_id in done:
            segment = self._segment_of.pop(record_id)
            self._undone[segment] -= 1
        self._remove_done()

    def close(self) -> None:
        """Close the journal; another producer may open it. Calling it twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock_file.close()

    def _remove_done(self) -> None:
        # In order: a later segment's acknowledgements may be of an earlier one's records.
        for segment in sorted(self._undone):
            if self._undone[segment] or segment == self._segment:
                return
            del self._undone[segment]
            self._path(segment).unlink(missing_ok=True)

    def _write(self, kind: int, body: bytes) -> None:
        if self._file is None or self._bytes > self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        rest = struct.pack("<IB", len(body), kind) + body
        frame = struct.pack("<I", zlib.crc32(rest)) + rest
        self._file.write(frame)
        self._bytes += len(frame)
        if self._fsync:
            os.fsync(self._file.fileno())

    def _begin_segment(self) -> None:
        if self._file is not None:
            self._file.close()
        self._segment += 1
        self._undone.setdefault(self._segment, 0)
        self._file, self._bytes = self._path(self._segment).open("ab", buffering=0), 0

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:012d}.spool"

    def _read(self) -> None:
        records: dict[int, SpooledRecord] = {}
        for path in sorted(self._folder.glob("*.spool")):
            segment = int(path.stem)
            self._undone[segment] = 0
            for kind, body in _frames(path):
                if kind == _DONE:
                    for record_id in array("Q", body):
                        if records.pop(record_id, None) is not None:
                            self._undone[self._segment_of.pop(record_id)] -= 1
                    continue
                record = _record_of(body)
                records[record.id] = record
                self._segment_of[record.id] = segment
                self._undone[segment] += 1
                self._next_id = max(self._next_id, record.id + 1)
        self._pending = [records[record_id] for record_id in sorted(records)]
        if self._pending:
            _LOG.info("The spool %s has %d records to put", self._folder, len(self._pending))


def _frames(path: Path) -> Iterator[tuple[int, bytes]]:
    content = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        crc, length, kind = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        if end > len(content) or zlib.crc32(content[at + 4 : end]) != crc:
            break
        yield kind, content[at + _HEAD.size : end]
        at = end
    if at < len(content):
        _LOG.warning(
            "The last %d bytes of %s are no whole record; a crash left them",
            len(content) - at,
            path,
        )


def _record_of(body: bytes) -> SpooledRecord:
    record_id, keys_bytes = _RECORD_HEAD.unpack_from(body)
    start = _RECORD_HEAD.size
    key, explicit = json.loads(body[start : start + keys_bytes])
    return SpooledRecord(record_id, body[start + keys_bytes :], key, explicit)
