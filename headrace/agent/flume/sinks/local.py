"""Sinks on this machine: logger, null and file_roll."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path
from typing import IO

from headrace.agent.config.properties import Section
from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import Event, SinkFailed
from headrace.agent.flume.intake import Counts
from headrace.core.clock import Clock

_LOG = logging.getLogger("headrace.agent")
_PATH_MANAGERS = ("DEFAULT", "ROLLTIME")


class Logger:
    """Logs events."""

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self.channel, self.counts = channel, Counts()
        self._most_bytes = section.number("maxBytesToLog", 16)

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(100, timeout_s)
        if taken is None:
            return False
        for event in taken.events:
            part = event.body[: self._most_bytes]
            headers = ", ".join(f"{name}={value}" for name, value in event.headers.items())
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            _LOG.info("Event: { headers:{%s} body: %s %s }", headers, part.hex(" ").upper(), text)
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def close(self) -> None:
        """See `Sink.close`."""


class Null:
    """Drops events."""

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self.channel, self.counts = channel, Counts()
        self._batch = section.number("batchSize", 100, least=1)

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def close(self) -> None:
        """See `Sink.close`."""


def serialize(section: Section, prefix: str = "") -> Serializer:
    """Return what the `serializer` keys make of an event. Raises ConfigurationError."""
    kind = section.text(f"{prefix}serializer", "TEXT")
    ends = section.flag(f"{prefix}serializer.appendNewline", default=True)
    if kind.upper() not in ("TEXT", "HEADER_AND_TEXT"):
        raise section.error(f"{prefix}serializer", f"the serializer {kind!r} is not built")
    return Serializer(has_headers=kind.upper() == "HEADER_AND_TEXT", ends_lines=ends)


class Serializer:
    """Flume's TEXT and HEADER_AND_TEXT."""

    def __init__(self, *, has_headers: bool, ends_lines: bool) -> None:
        """Take what is put before and behind a body."""
        self._has_headers, self._end = has_headers, b"\n" if ends_lines else b""

    def render(self, event: Event) -> bytes:
        """Return an event's bytes."""
        if not self._has_headers:
            return event.body + self._end
        # Java's way to show a map.
        headers = ", ".join(f"{name}={value}" for name, value in event.headers.items())
        return f"{{{headers}}} ".encode() + event.body + self._end


class FileRoll:
    """Files of a folder, a new one at each interval.

    Durability: a transaction is committed once the operating system has it; a kill while it is written leaves a part of
    it in the file, and the next start writes the whole of it again.
    """

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        self.channel, self.counts, self._clock = channel, Counts(), clock
        self._folder = Path(section.text("sink.directory"))
        if not self._folder.is_dir():
            raise section.error("sink.directory", f"{self._folder} is not a folder")
        self._batch = section.number("sink.batchSize", 100, least=1)
        self._roll_s = section.number("sink.rollInterval", 30)
        self._serializer = serialize(section, "sink.")
        manager = section.choice("sink.pathManager", _PATH_MANAGERS, "DEFAULT")
        self._has_time = manager == "ROLLTIME"
        self._prefix = section.text("sink.pathManager.prefix", "")
        self._ending = section.text("sink.pathManager.extension", "")
        self._series_ms, self._number = clock.now_ms(), 0
        self._file: IO[bytes] | None = None
        self._opened_s = 0.0

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        if (
            self._file is not None
            and self._roll_s
            and self._clock.monotonic_s() - self._opened_s >= self._roll_s
        ):
            self.close()
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        try:
            file = self._file or self._open()
            start = file.tell()
            try:
                rest = memoryview(b"".join(map(self._serializer.render, taken.events)))
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                # Such as a full disk: what was written of the transaction is taken back.
                os.ftruncate(file.fileno(), start)
                file.seek(start)
                raise
        except OSError as error:
            self.channel.rollback(taken)
            raise SinkFailed(f"{self._folder}: {error.strerror}") from error
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def _open(self) -> IO[bytes]:
        while True:
            self._number += 1
            series = str(self._series_ms)
            if self._has_time:
                series = self._clock_text()
            path = (
                self._folder
                / f"{self._prefix}{series}-{self._number}{'.' if self._ending else ''}{self._ending}"
            )
            try:
                self._file = path.open("xb", buffering=0)
            except FileExistsError:
                continue
            self._opened_s = self._clock.monotonic_s()
            return self._file

    def _clock_text(self) -> str:
        return (
            datetime.fromtimestamp(self._clock.now_ms() / 1000)
            .astimezone()
            .strftime("%Y%m%d%H%M%S")
        )

    def close(self) -> None:
        """See `Sink.close`."""
        if self._file is not None:
            self._file.close()
            self._file = None
