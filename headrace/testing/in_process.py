"""The base of all clouds in the test's own process: pages and faults without a socket, options, temporary folders.

Passes botocore's requests to a cloud in this process.

botocore sends every request by `URLLib3Session.send`. While a cloud is entered, this module replaces that method, and
so catches all clients, also those that a module made long before.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError
from botocore.httpsession import URLLib3Session

from headrace.aws.calls.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from headrace.aws.server.server import when_done
from headrace.cloud import Cloud
from headrace.core.arn import is_account_id
from headrace.store.database import MIGRATIONS, STATE_FILE, Database
from headrace.store.disk_space import free_bytes
from headrace.testing.access import CloudAccess
from headrace.testing.guard import is_aws, is_metadata
from headrace.testing.waiting import NoSuchPage

# Nobody listens on this port: a request that needs a socket fails at once, and never reaches another cloud.
NO_PORT = 1
_PREFIX = "headrace-test-"
# A file system in memory. In containers it often has only 64 MB.
_MEMORY = Path("/dev/shm")
_MUCH_BYTES = 1 << 30
_OPTIONS = frozenset(
    {
        "durability",
        "strict",
        "state_delay_ms",
        "limits",
        "log_group_events",
        "log_group_mib",
        "spark",
        "iam",
        "mqtt",
        "mqtt_port",
        "mqtt_tls_port",
    }
)


class UnknownOption(TypeError):
    """An unknown option; the text is one sentence."""


class InProcessAccess(CloudAccess):
    """A cloud in this process, reached without a socket.

    Attributes:
        cloud: the cloud itself.
        data_dir: its folder.
    """

    cloud: Cloud
    data_dir: Path

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a request in process; the body comes back as bytes."""
        return whole(self.cloud.handle(request), request)

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`."""
        where, _, query = path.partition("?")
        headers = {"host": "localhost", "accept": "application/json"}
        answer = self.handle(HttpRequest("GET", f"/_headrace/{where}", query, headers))
        if answer.status != 200:
            raise NoSuchPage(f"/_headrace/{path} answers {answer.status}.")
        return json.loads(cast("bytes", answer.body))

    def add_fault(self, rule: dict[str, Any]) -> None:
        """Add a fault on demand, as `headrace faults add` does; see docs/services.md."""
        self.cloud.gateway.faults.add(rule)

    @property
    def can_advance(self) -> bool:
        """See `CloudAccess.can_advance`."""
        return True

    @property
    def runs_folders(self) -> bool:
        """See `CloudAccess.runs_folders`."""
        return True


def temporary_folder() -> Path:
    """Make a folder for a test's data: below TMPDIR if set, else in memory if there is enough."""
    parent = None
    with contextlib.suppress(OSError):
        if "TMPDIR" not in os.environ and free_bytes(_MEMORY) >= _MUCH_BYTES:
            parent = _MEMORY
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


class _Tables:
    """The state file of a cloud that has stored nothing: the tables of the clouds after a process' first one."""

    content: bytes | None = None


def give_tables(folder: Path) -> None:
    """Write the tables that an earlier cloud of this process has made into a cloud's new folder.

    To make a hundred tables takes SQLite a third of a cloud's start.
    """
    state = folder / STATE_FILE
    if _Tables.content is not None and not state.exists():
        state.write_bytes(_Tables.content)


def keep_tables(folder: Path, built: Database) -> None:
    """Keep the tables of a cloud that was just built in a new folder, without their rows, for `give_tables`."""
    if _Tables.content is not None or built.first_tables != frozenset({MIGRATIONS}):
        return
    path = folder / f"{STATE_FILE}.tables"
    with (
        contextlib.closing(sqlite3.connect(folder / STATE_FILE)) as state,
        contextlib.closing(sqlite3.connect(path)) as copied,
    ):
        state.backup(copied)
        rows = copied.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in rows:
            if name != MIGRATIONS:
                copied.execute(f"DELETE FROM {name}")
        copied.commit()
    _Tables.content = path.read_bytes()
    path.unlink()


def check_options(account: str, options: dict[str, Any]) -> None:
    """Raise UnknownOption for an option that a test's cloud does not have."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        known = ", ".join(["account", "region", "data_dir", "seed", *sorted(_OPTIONS)])
        raise UnknownOption(f"A cloud has no option {unknown[0]!r}; it has {known}.")
    if not is_account_id(account):
        raise UnknownOption(f"An account is 12 digits, not {account!r}.")


# Longer than any answer takes.
_LONGEST_ANSWER_S = 900.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# The port that clients written for an emulator use.
_EMULATORS_PORT = 4566
_VIRTUAL_S3 = re.compile(r"^(?P<bucket>.+)\.s3(?:[.-][a-z0-9]+)*\.amazonaws\.com(?:\.cn)?$")
_S3 = re.compile(r"^s3(?:[.-][a-z0-9]+)*\.amazonaws\.com(?:\.cn)?$")


Answer = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True, slots=True)
class Route:
    """A destination of requests: `answer`, in this process. `netloc` is the host and port of the cloud's endpoint."""

    answer: Answer
    netloc: str


class _Ways:
    """The routes that are entered, the last one first; shared by the whole process."""

    lock = threading.RLock()
    routes: list[Route] = []  # noqa: RUF012 - shared by the whole process
    original: Any = None


def enter(route: Route) -> None:
    """From now on send botocore's requests for AWS and for the cloud's endpoint over a route."""
    with _Ways.lock:
        _Ways.routes.append(route)
        _install()


def leave(route: Route) -> None:
    """Undo `enter`."""
    with _Ways.lock:
        _Ways.routes.remove(route)
        _restore()


def _install() -> None:
    if _Ways.original is None:
        _Ways.original = URLLib3Session.send
        URLLib3Session.send = cast("Any", _send)


def _restore() -> None:
    if not _Ways.routes:
        URLLib3Session.send, _Ways.original = _Ways.original, None


def _send(session: Any, request: Any) -> AWSResponse:
    """Answer a request in process, refuse it, or send it as usual."""
    parts = urlsplit(request.url)
    host = (parts.hostname or "").lower()
    if is_metadata(host):
        raise EndpointConnectionError(endpoint_url=request.url)
    route = _Ways.routes[-1]
    if is_aws(host):
        return carry(route, request, host)
    is_own = (
        parts.netloc == route.netloc
        or (host in _LOOPBACK and parts.port in (None, _EMULATORS_PORT))
        or host.endswith((".localhost", ".localhost.localstack.cloud"))
    )
    return carry(route, request) if is_own else _Ways.original(session, request)


def bind(session: Any, route: Route) -> None:
    """Send all requests of a boto3 session's clients over a route, whichever cloud is entered."""

    def send(request: Any, **_: Any) -> AWSResponse:
        host = str(urlsplit(str(request.url)).hostname or "").lower()
        return carry(route, request, host if is_aws(host) else "")

    session.events.register_first("before-send.*", send)


def carry(route: Route, request: Any, aws_host: str = "") -> AWSResponse:
    """Return a route's answer to a botocore request. `aws_host` is the AWS host that the request names, if any."""
    ours = http_request_of(request)
    ours.headers["host"] = _host(aws_host, route) if aws_host else urlsplit(request.url).netloc
    return _build_answer(route, request.url, ours)


def carry_to_entered(url: str, request: HttpRequest) -> AWSResponse:
    """Return the answer, from the cloud entered last, to a request for the cloud's own address."""
    return _build_answer(_Ways.routes[-1], url, request)


def _build_answer(route: Route, url: str, request: HttpRequest) -> AWSResponse:
    response = route.answer(request)
    if response.status == DROPPED:
        raise ConnectionClosedError(endpoint_url=url)
    return aws_response(url, response)


def _host(aws_host: str, route: Route) -> str:
    """Return the Host header that makes headrace understand an AWS host; for S3 it names the bucket."""
    virtual = _VIRTUAL_S3.match(aws_host)
    if virtual is not None:
        return f"{virtual['bucket']}.s3.localhost"
    return "s3.localhost" if _S3.match(aws_host) else route.netloc


def whole(answer: HttpResponse | Future[HttpResponse], request: HttpRequest) -> HttpResponse:
    """Return an answer with its complete body as bytes, as a socket would deliver it."""
    response = answer.result(_LONGEST_ANSWER_S) if isinstance(answer, Future) else answer
    if response.waits:
        response = when_done(response).result(_LONGEST_ANSWER_S)
    body = response.body
    if isinstance(body, FileSlice):
        data = _read_slice(body)
    elif isinstance(body, bytes):
        data = body
    elif hasattr(body, "__aiter__"):
        raise NotImplementedError(
            "Event streams need a socket: use the fixture headrace_cloud, not headrace.testing.cloud()."
        )
    else:
        data = b"".join(body)  # pyright: ignore[reportArgumentType]
    response.body = data
    if request.method == "HEAD":
        if all(name.lower() != "content-length" for name, _ in response.headers):
            response.headers.append(("Content-Length", str(len(data))))
        response.body = b""
    return response


def _read_slice(part: FileSlice) -> bytes:
    file = part.file or part.path.open("rb")
    with file:
        file.seek(part.offset_bytes)
        return file.read(part.length_bytes)


def http_request_of(request: Any) -> HttpRequest:
    """Convert botocore's prepared request to headrace's."""
    path, _, query = request.url.split("://", 1)[1].partition("/")[2].partition("?")
    written = [
        (str(key), value.decode("latin-1") if isinstance(value, bytes) else str(value))
        for key, value in request.headers.items()
    ]
    headers = {name.lower(): value for name, value in written}
    body = request.body
    if body is None:
        body = b""
    elif isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes | bytearray):
        body = body.read()
    return HttpRequest(request.method, f"/{path}", query, headers, bytes(body), head=written)


class _Raw:
    """A response body with the interface that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._file = io.BytesIO(body)

    def stream(self, amt: int = 65536, **_: Any) -> Any:
        while chunk := self._file.read(amt):
            yield chunk

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        return self._file.read(-1 if amt is None else amt)

    def close(self) -> None:
        self._file.close()


def aws_response(url: str, response: HttpResponse) -> AWSResponse:
    """Convert headrace's response to botocore's; the body must be bytes."""
    raw = cast("Any", _Raw(cast("bytes", response.body)))
    # A client reads the first of two headers with one name.
    return AWSResponse(url, response.status, cast("Any", dict(reversed(response.headers))), raw)
