"""How an invocation of a function ends, and where its answer goes while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headrace.core.ports import LogLine
from headrace.services.lambda_.limits import RESPONSE_PAYLOAD_BYTES, STREAM_BYTES


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an invocation ended. `function_error` is None, or `Unhandled`."""

    payload: bytes
    function_error: str | None
    duration_ms: float
    lines: list[LogLine] = field(default_factory=list[LogLine])
    tail: bytes = b""


class AnswerSink(Protocol):
    """Takes an answer that the function streams, part by part. Called on the invoking thread."""

    def __call__(self, content_type: str, data: bytes) -> None:
        """Take the next part; the first may be empty."""
        ...


class AnswerParts:
    """An answer in parts: handed to the sink, or gathered when there is none."""

    def __init__(self, sink: AnswerSink | None) -> None:
        self._sink = sink
        self._gathered = bytearray()
        self.size_bytes = 0

    def take(self, content_type: str, data: bytes) -> bool:
        """Take a part; False when the answer is over its limit."""
        self.size_bytes += len(data)
        if self._sink is not None:
            self._sink(content_type, data)
            return self.size_bytes <= STREAM_BYTES
        self._gathered += data
        return self.size_bytes <= RESPONSE_PAYLOAD_BYTES

    def whole(self, body: bytes) -> bytes:
        """Return the answer of a function that has come to its end."""
        return body or bytes(self._gathered)
