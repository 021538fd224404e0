"""A function's output as log events, one for each line; the last 4 KB are kept for the caller."""

from __future__ import annotations

from headrace.core.clock import Clock
from headrace.core.ports import LogLine
from headrace.services.lambda_.limits import (
    LOG_EVENT_BYTES,
    LOG_INVOCATION_BYTES,
    LOG_TAIL_BYTES,
)

# The memory that a line takes beside its text.
_LINE_BYTES = 100


class OutputLog:
    """Collects one sandbox's log lines. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._partial = b""
        self._lines: list[LogLine] = []
        self._kept_bytes = 0
        self._dropped = 0
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what the process wrote."""
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._add(line)
        while len(self._partial) > LOG_EVENT_BYTES:
            self._add(self._partial[:LOG_EVENT_BYTES])
            self._partial = self._partial[LOG_EVENT_BYTES:]

    def platform(self, *lines: str, of_invocation: bool = True) -> None:
        """Add lines of Lambda's own, such as START; they are kept however much the function has written.

        A caller gets those of its invocation only, not that of the process's beginning (recorded).
        """
        self.flush()
        for line in lines:
            self._keep(line.encode(), in_tail=of_invocation)

    def flush(self) -> None:
        """End a line that the process left open."""
        if self._partial:
            self._add(self._partial)
            self._partial = b""

    def _add(self, line: bytes) -> None:
        self._kept_bytes += len(line) + _LINE_BYTES
        if self._kept_bytes > LOG_INVOCATION_BYTES:
            self._dropped += 1
        else:
            self._keep(line)

    def _keep(self, line: bytes, *, in_tail: bool = True) -> None:
        if in_tail:
            self._tail += line + b"\n"
        if len(self._tail) > 4 * LOG_TAIL_BYTES:
            del self._tail[:-LOG_TAIL_BYTES]
        now_ms = self._clock.now_ms()
        for start in range(0, len(line), LOG_EVENT_BYTES):
            part = line[start : start + LOG_EVENT_BYTES]
            # The Python runtime client ends an error's inner lines with a carriage return, to
            # keep them one event.
            text = part.decode("utf-8", "replace").replace("\r", "\n")
            self._lines.append(LogLine(now_ms, text))

    def take(self) -> tuple[list[LogLine], bytes]:
        """Return and forget the lines, and the last 4 KB of them."""
        if self._dropped:
            self._keep(f"headrace dropped {self._dropped} more lines of this invocation".encode())
        lines, self._lines = self._lines, []
        self._kept_bytes = self._dropped = 0
        tail = bytes(self._tail[-LOG_TAIL_BYTES:])
        self._tail.clear()
        return lines, tail
