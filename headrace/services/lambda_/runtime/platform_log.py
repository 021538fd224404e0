"""Writes a function's log: the lines of its output, Lambda's own lines, and the errors that end a process.

Lambda's own lines are text or JSON, in these forms:
https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-advanced.html and
https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html (documented).

The result of an invocation, and the parts of a streamed response.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from headrace.core.clock import Clock
from headrace.core.ports import LogLine
from headrace.services.lambda_.errors import (
    LOG_EVENT_BYTES,
    LOG_INVOCATION_BYTES,
    LOG_TAIL_BYTES,
    RESPONSE_PAYLOAD_BYTES,
    STREAM_BYTES,
)
from headrace.services.lambda_.runtime.environment import SandboxSpec

_LEVELS = ("DEBUG", "INFO", "WARN")
# The memory that a line takes in addition to its text.
_LINE_BYTES = 100


class ProcessBroken(Exception):
    """The process can no longer be used.

    Attributes:
        payload: AWS's error document for the caller.
        log_lines: the log lines before the REPORT line.
        status: the status in the report: `error` or `timeout`.
        error_type: the error type in the report, if any.
    """

    def __init__(
        self, payload: bytes, *log_lines: str, status: str = "error", error_type: str = ""
    ) -> None:
        super().__init__(payload)
        self.payload = payload
        self.log_lines = log_lines
        self.status = status
        self.error_type = error_type


class Usage(NamedTuple):
    """The duration and the memory of an invocation. `init_ms` is None when the process was warm."""

    duration_ms: float
    init_ms: float | None
    memory_mib: int


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
        """Add output of the process."""
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._add(line)
        while len(self._partial) > LOG_EVENT_BYTES:
            self._add(self._partial[:LOG_EVENT_BYTES])
            self._partial = self._partial[LOG_EVENT_BYTES:]

    def platform(self, *lines: str, of_invocation: bool = True) -> None:
        """Add Lambda's own lines, such as START. They are kept however much the function has written.

        A caller gets only the lines of its invocation, not the line of the process's start (recorded).
        """
        if self._partial:
            self.flush()
        now_ms = self._clock.now_ms()
        for line in lines:
            if of_invocation and len(line) < LOG_TAIL_BYTES and "\r" not in line:
                self._tail += f"{line}\n".encode()
                self._lines.append(LogLine(now_ms, line))
            else:
                self._keep(line.encode(), in_tail=of_invocation)
        self._shorten_tail()

    def flush(self) -> None:
        """Add the last line if the process has not ended it."""
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
            self._shorten_tail()
        now_ms = self._clock.now_ms()
        for start in range(0, len(line), LOG_EVENT_BYTES):
            part = line[start : start + LOG_EVENT_BYTES]
            # In an error, the Python runtime client ends each line but the last with a carriage return, so that
            # the error stays one log event.
            text = part.decode("utf-8", "replace").replace("\r", "\n")
            self._lines.append(LogLine(now_ms, text))

    def _shorten_tail(self) -> None:
        if len(self._tail) > 4 * LOG_TAIL_BYTES:
            del self._tail[:-LOG_TAIL_BYTES]

    def take(self) -> tuple[list[LogLine], bytes]:
        """Return the collected lines and their last 4 KB, and start again with none."""
        if self._dropped:
            self._keep(f"headrace dropped {self._dropped} more lines of this invocation".encode())
        lines, self._lines = self._lines, []
        self._kept_bytes = self._dropped = 0
        tail = bytes(self._tail[-LOG_TAIL_BYTES:])
        self._tail.clear()
        return lines, tail


class PlatformLog:
    """Adds Lambda's own lines to a function's log. Not thread-safe."""

    def __init__(self, output: OutputLog, spec: SandboxSpec, clock: Clock) -> None:
        self._output = output
        self._spec = spec
        self._clock = clock
        self._json = spec.log_format == "JSON"
        self._least = _LEVELS.index(spec.system_log_level)

    def init_start(self) -> None:
        """Log that the process starts."""
        runtime = f"{self._spec.runtime}.headrace"
        if not self._json:
            self._output.platform(f"INIT_START Runtime Version: {runtime}", of_invocation=False)
            return
        self._event(
            "INFO",
            "platform.initStart",
            initializationType=self._spec.initialization_type,
            phase="init",
            runtimeVersion=runtime,
            functionName=self._spec.name,
            functionVersion=self._spec.version,
        )

    def init_failed(self, init_ms: float, broken: ProcessBroken) -> None:
        """Log that the process did not become ready."""
        if self._json:
            self._event(
                "WARN",
                "platform.initReport",
                initializationType=self._spec.initialization_type,
                phase="init",
                status=broken.status,
                errorType=broken.error_type,
                metrics={"durationMs": round(init_ms, 3)},
            )
            return
        kind = f"\tError Type: {broken.error_type}" if broken.error_type else ""
        self._output.platform(
            f"INIT_REPORT Init Duration: {init_ms:.2f} ms\tPhase: init\tStatus: {broken.status}{kind}"
        )

    def start(self, request_id: str) -> None:
        """Log that an invocation starts."""
        if self._json:
            self._event("INFO", "platform.start", requestId=request_id, version=self._spec.version)
        else:
            self._output.platform(f"START RequestId: {request_id} Version: {self._spec.version}")

    def report(self, request_id: str, usage: Usage, broken: ProcessBroken | None) -> None:
        """Log that an invocation has ended. `broken` is set if the process can no longer be used."""
        if self._json:
            self._json_report(request_id, usage, broken)
            return
        init = "" if usage.init_ms is None else f"Init Duration: {usage.init_ms:.2f} ms\t"
        status = "" if broken is None else f"Status: {broken.status}\t"
        kind = f"Error Type: {broken.error_type}\t" if broken and broken.error_type else ""
        self._output.platform(
            f"END RequestId: {request_id}",
            f"REPORT RequestId: {request_id}\tDuration: {usage.duration_ms:.2f} ms\t"
            f"Billed Duration: {math.ceil(usage.duration_ms)} ms\t"
            f"Memory Size: {self._spec.memory_mib} MB\t"
            f"Max Memory Used: {self._count_used_mib(usage)} MB\t{init}{status}{kind}",
        )

    def _json_report(self, request_id: str, usage: Usage, broken: ProcessBroken | None) -> None:
        metrics: dict[str, Any] = {
            "durationMs": round(usage.duration_ms, 3),
            "billedDurationMs": math.ceil(usage.duration_ms),
            "memorySizeMB": self._spec.memory_mib,
            "maxMemoryUsedMB": self._count_used_mib(usage),
        }
        if usage.init_ms is not None:
            metrics["initDurationMs"] = round(usage.init_ms, 3)
        record: dict[str, Any] = {
            "requestId": request_id,
            "metrics": metrics,
            "status": "success" if broken is None else broken.status,
        }
        if broken is not None and broken.error_type:
            record["errorType"] = broken.error_type
        self._event("INFO" if broken is None else "WARN", "platform.report", **record)

    def _count_used_mib(self, usage: Usage) -> int:
        return min(usage.memory_mib, self._spec.memory_mib)

    def _event(self, level: str, kind: str, **record: Any) -> None:
        if _LEVELS.index(level) < self._least:
            return
        event = {"time": format_iso_time(self._clock.now_ms()), "type": kind, "record": record}
        self._output.platform(json.dumps(event, separators=(",", ":")))


def format_iso_time(now_ms: int) -> str:
    """Return a time in the format of Lambda's logs: `2026-01-31T12:00:00.000Z`."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03d}Z"


def build_error_document(kind: str, message: str) -> bytes:
    """Return the error document that a caller gets."""
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


def build_timeout_error(request_id: str, limit_s: float, now_ms: int) -> ProcessBroken:
    """Return the error for a function that timed out."""
    text = f"Task timed out after {limit_s:.2f} seconds"
    payload = build_error_document("Sandbox.Timedout", f"RequestId: {request_id} Error: {text}")
    line = f"{format_iso_time(now_ms)} {request_id} {text}"
    return ProcessBroken(payload, line, status="timeout")


def build_exit_error(request_id: str, why: str, kind: str = "Runtime.ExitError") -> ProcessBroken:
    """Return the error for a process that ended or was killed."""
    message = f"RequestId: {request_id} Error: {why}"
    return ProcessBroken(build_error_document(kind, message), message, kind, error_type=kind)


def answer_too_large(*, streamed: bool = False) -> bytes:
    """Return the error for a response that exceeds the size limit."""
    most_bytes = STREAM_BYTES if streamed else RESPONSE_PAYLOAD_BYTES
    return build_error_document(
        "Function.ResponseSizeTooLarge",
        f"Response payload size exceeded maximum allowed payload size ({most_bytes} bytes).",
    )


class Outcome(NamedTuple):
    """The result of an invocation. `function_error` is None or `Unhandled`."""

    payload: bytes
    function_error: str | None
    duration_ms: float
    lines: Sequence[LogLine] = ()
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
