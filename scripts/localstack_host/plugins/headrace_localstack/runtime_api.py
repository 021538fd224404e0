"""Lambda's Runtime API for one process of a function: a separate HTTP server, one invocation at a time.

Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

_PREFIX = "/2018-06-01/runtime/"
_INVOCATIONS = f"{_PREFIX}invocation/"
# How long a request for the next invocation waits before an empty answer makes the process ask again.
_WAIT_S = 1.0


@dataclass
class Invocation:
    """An event for the process, and its result."""

    request_id: str
    function_arn: str
    trace_id: str
    deadline_ms: int
    payload: bytes
    is_done: threading.Event = field(default_factory=threading.Event)
    result: bytes = b""
    is_error: bool = False

    def end(self, result: bytes, *, is_error: bool) -> None:
        """Set the result; only the first one counts."""
        if not self.is_done.is_set():
            self.result, self.is_error = result, is_error
            self.is_done.set()


class RuntimeApi:
    """The server. `is_ready` is set when the process asks for work; `init_error` is its error when it cannot start."""

    def __init__(self) -> None:
        self.is_ready = threading.Event()
        self.has_ended = threading.Event()
        self.init_error = b""
        self._waiting: queue.Queue[Invocation] = queue.Queue()
        self._current: Invocation | None = None
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self})
        )
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True, name="runtime-api"
        ).start()

    @property
    def address(self) -> str:
        """Host and port, as AWS_LAMBDA_RUNTIME_API names them."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def give(self, invocation: Invocation) -> None:
        """Queue an invocation for the process."""
        self._waiting.put(invocation)

    def take(self) -> Invocation | None:
        """Return the next invocation, or None after a while without one or after `close`."""
        self.is_ready.set()
        if self.has_ended.is_set():
            return None
        try:
            self._current = self._waiting.get(timeout=_WAIT_S)
        except queue.Empty:
            return None
        return self._current

    def end(self, request_id: str, result: bytes, *, is_error: bool) -> bool:
        """Store an invocation's result; return false if that invocation does not run."""
        current = self._current
        if current is None or current.request_id != request_id:
            return False
        current.end(result, is_error=is_error)
        return True

    def fail_init(self, error: bytes) -> None:
        """Store the error of a process that could not load its function."""
        self.init_error = error
        self.is_ready.set()

    def close(self) -> None:
        """Stop the server."""
        self.has_ended.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Handles the Runtime API's paths for the process of one `api`."""

    api: ClassVar[RuntimeApi]
    protocol_version = "HTTP/1.1"
    # Send head and body in one segment: in two, the second waits 40 ms for the first's delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path != f"{_INVOCATIONS}next":
            self._answer(404, b"")
            return
        invocation = None
        while invocation is None:
            if self.api.has_ended.is_set():
                # AWS's runtime client ends with a sentence when its connection does; an HTTP error crashes it.
                self.close_connection = True
                return
            invocation = self.api.take()
        self._answer(
            200,
            invocation.payload,
            {
                "Content-Type": "application/json",
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                "Lambda-Runtime-Trace-Id": invocation.trace_id,
            },
        )

    def do_POST(self) -> None:
        body = self._body()
        if self.path == f"{_PREFIX}init/error":
            self.api.fail_init(body)
            self._accept()
            return
        request_id, _, kind = self.path.removeprefix(_INVOCATIONS).partition("/")
        is_known = kind in ("response", "error") and self.api.end(
            request_id, body, is_error=kind == "error"
        )
        if is_known:
            self._accept()
        else:
            self._answer(400, b'{"errorType":"InvalidRequestID"}')

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts: list[bytes] = []
        while length := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue
        return b"".join(parts)

    def _accept(self) -> None:
        self._answer(202, json.dumps({"status": "OK"}).encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Log nothing: a line for each invocation would fill LocalStack's log."""
