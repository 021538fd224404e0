"""The result of an invocation, and the parts of a streamed response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headrace.core.ports import LogLine
from headrace.services.lambda_.limits import RESPONSE_PAYLOAD_BYTES, STREAM_BYTES


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an invocation. `function_error` is None or `Unhandled`."""

    payload: bytes
    function_error: str | None
    duration_ms: float
    lines: list[LogLine] = field(default_factory=list[LogLine])
    tail: bytes = b""


class AnswerSink(Protocol):
    """Takes the parts of a streamed response. Called on the invoking thread."""

    def __call__(self, content_type: str, data: bytes) -> None:
        """Take the next part; the first may be empty."""
        ...


class AnswerParts:
    """A streamed response: its parts go to the sink, or are joined when there is no sink."""

    def __init__(self, sink: AnswerSink | None) -> None:
        self._sink = sink
        self._gathered = bytearray()
        self.size_bytes = 0

    def take(self, content_type: str, data: bytes) -> bool:
        """Take a part. Return False when the response exceeds its size limit."""
        self.size_bytes += len(data)
        if self._sink is not None:
            self._sink(content_type, data)
            return self.size_bytes <= STREAM_BYTES
        self._gathered += data
        return self.size_bytes <= RESPONSE_PAYLOAD_BYTES

    def whole(self, body: bytes) -> bytes:
        """Return the whole response of a function that has ended."""
        return body or bytes(self._gathered)
