"""Lambda alone behind the gateway, with small fakes of its ports, and boto3 clients to it."""

from __future__ import annotations

import io
import json
import threading
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from headrace.aws.calls.errors import AwsError, unknown_operation
from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.protocols.service import Profile
from headrace.core.clock import Clock, SystemClock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.ports import (
    BucketNotFound,
    BusEvent,
    KeyRefused,
    LogLine,
    Metric,
    ObjectNotFound,
    QueueMessage,
)
from headrace.core.workers import Supervisor
from headrace.services.lambda_.api import LambdaPorts, build_lambda, lambda_api
from headrace.store.database import Database
from tests.support.clients import client_of
from tests.support.server import wait_until
from tests.support.streams import MemoryStreams

ROLE = "arn:aws:iam::000000000000:role/functions"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:failures"


def json_lines(path: Path) -> list[Any]:
    """Return the values that functions have appended to a file, one a line, without the line that is being written."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """Return a zip archive of `files`; the same files give the same bytes at any time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return buffer.getvalue()


class Box:
    """Fakes of the ports that Lambda sends to; keeps everything it was given. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self.messages: dict[str, list[str]] = defaultdict(list)
        self.attributes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.bus_events: dict[str, list[BusEvent]] = defaultdict(list)
        self.lines: list[str] = []
        self.streams: set[tuple[str, str]] = set()
        self.metrics: list[Metric] = []
        self.missing: set[str] = set()
        # Buckets whose key is disabled; and what a queue answers instead of taking a message, once each.
        self.locked: set[str] = set()
        self.refusals: dict[str, list[AwsError]] = defaultdict(list)
        self.deleted: list[str] = []
        self._received: dict[str, int] = defaultdict(int)

    def put_object(self, bucket: str, key: str, body: bytes) -> None:
        path = self._root / bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        written = self._root / f".{uuid.uuid4().hex}"
        written.write_bytes(body)
        written.rename(path)  # whoever waits for the object sees it whole

    def file(self, bucket: str, key: str) -> Path:
        path = self._root / bucket / key
        if not (self._root / bucket).is_dir():
            raise BucketNotFound(bucket)
        if not path.is_file():
            raise ObjectNotFound(key)
        return path

    def send(self, queue_arn: str, body: str, attributes: Mapping[str, Any] | None = None) -> str:
        if queue_arn in self.missing:
            raise LookupError(queue_arn)
        with self._lock:
            if self.refusals[queue_arn]:
                raise self.refusals[queue_arn].pop()
            self.messages[queue_arn].append(body)
            self.attributes[queue_arn].append(dict(attributes or {}))
        return "message"

    def visibility_timeout_s(self, queue_arn: str) -> int:
        if queue_arn in self.missing:
            raise LookupError(queue_arn)
        return 30

    def is_empty(self, queue_arn: str) -> bool:
        if queue_arn in self.missing:
            raise LookupError(queue_arn)
        return self._received[queue_arn] >= len(self.messages[queue_arn])

    def message_count(self, queue_arn: str) -> int:
        return len(self.messages[queue_arn]) - len(self.deleted)

    def receive(self, queue_arn: str, *, most: int) -> list[QueueMessage]:
        """Hand out what `send` took, each message once; `deleted` says what came back."""
        with self._lock:
            first = self._received[queue_arn]
            bodies = self.messages[queue_arn][first : first + min(most, 10)]
            self._received[queue_arn] += len(bodies)
        return [
            QueueMessage(f"m{first + n}", f"h{first + n}", body, "md5", {}, {})
            for n, body in enumerate(bodies)
        ]

    def delete(self, queue_arn: str, receipt_handles: Sequence[str]) -> None:
        with self._lock:
            self.deleted.extend(receipt_handles)

    def put_event(self, bus_arn: str, event: BusEvent) -> str:
        with self._lock:
            self.bus_events[bus_arn].append(event)
        return "event"

    def buckets(self) -> dict[str, Path]:
        return {path.name: path for path in self._root.iterdir()} if self._root.exists() else {}

    def put(self, bucket: str, key: str, body: bytes | Path, **_: Any) -> str:
        if bucket in self.locked:
            raise KeyRefused("KMS.DisabledException", "the key is disabled")
        assert isinstance(body, bytes)
        self.put_object(bucket, key, body)
        return "etag"

    publish = send


class Buses:
    """An `EventBusSender` that keeps what it gets."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def put(self, bus_arn: str, event: BusEvent) -> str:
        return self._box.put_event(bus_arn, event)


class Logs:
    """A `LogSink` that keeps what it gets."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []

    def put(self, group: str, stream: str, lines: Sequence[LogLine], **_: Any) -> None:
        self.lines.extend((group, stream, line.message) for line in lines)

    def messages(self) -> list[str]:
        return [message for _, _, message in self.lines]


class Metrics:
    """A `MetricSink` that keeps what it gets."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        self.metrics.extend(metrics)


class NoMoto:
    """A fallback that has no services."""

    profiles: Mapping[str, Profile] = {}

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        raise unknown_operation(request.path, service)

    def call(self, service: str, operation: str, params: Any, **_: Any) -> dict[str, Any]:
        raise unknown_operation(operation, service)

    def may_be_quick(self, request: HttpRequest) -> bool:
        return False

    def account_of(self, access_key: str) -> str | None:
        return None


class LambdaLab:
    """A started Lambda. A context manager; `restart` is a stop and a start on the same directory.

    Its functions may write in `folders`, so that tests see what they do: where the data directory lies, if not told.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        endpoint_url: str = "http://127.0.0.1:4566",
        folders: Sequence[Path] | None = None,
        clock: Clock | None = None,
        **config: Any,
    ) -> None:
        self.clock = clock or SystemClock()
        self.config = config
        self.data_dir = data_dir
        # Where functions may leave things.
        self.place = data_dir.parent
        self.folders = (data_dir.parent,) if folders is None else tuple(folders)
        self.endpoint_url = endpoint_url
        self.box = Box(data_dir / "objects")
        self.logs = Logs()
        self.metrics = Metrics()
        self.streams = MemoryStreams()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        clock, ids = self.clock, Ids()
        self.database = Database(self.data_dir / "state.sqlite")
        self.supervisor = Supervisor(clock)
        config = Config(data_dir=self.data_dir, function_folders=self.folders, **self.config)
        ports = LambdaPorts(
            data_dir=self.data_dir,
            clock=clock,
            ids=ids,
            database=self.database,
            supervisor=self.supervisor,
            config=config,
            objects=self.box,  # type: ignore[arg-type] - only what Lambda calls
            streams=self.streams,
            queues=self.box,
            topics=self.box,
            logs=self.logs,
            metrics=self.metrics,
            buses=Buses(self.box),
            endpoint_url=lambda: self.endpoint_url,
        )
        self.lambda_ = build_lambda(ports)
        self.gateway = Gateway(
            clock=clock,
            ids=ids,
            account=config.account_id,
            region=config.region,
            moto=NoMoto(),
        )
        self.gateway.register(lambda_api(self.lambda_))
        self.lambda_.start()

    def stop(self) -> None:
        self.lambda_.stop()
        self.supervisor.stop_all()
        self.database.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def client(self, *, account: str = "000000000000", region: str = "us-east-1") -> Any:
        """Return a boto3 client that validates nothing itself and never retries."""
        return client_of("lambda", self.handle, account=account, region=region)

    def handle(self, request: HttpRequest) -> HttpResponse:
        urls = self.lambda_.url_endpoints()
        if urls.has(request):
            response = self.gateway.admit(request, urls.signing_name) or urls.answer(request)
        else:
            response = self.gateway.handle(request)
        assert isinstance(response, HttpResponse)
        if isinstance(response.body, FileSlice):
            response.body = response.body.path.read_bytes()
        elif isinstance(response.body, Iterator):
            response.body = b"".join(response.body)
        return response

    def create(
        self, name: str, source: str, *, handler: str = "app.handler", **members: Any
    ) -> dict[str, Any]:
        """Create a Python function from its source text."""
        return self.client().create_function(
            **{
                "FunctionName": name,
                "Runtime": "python3.11",
                "Handler": handler,
                "Role": ROLE,
                "Timeout": 10,
                "Code": {"ZipFile": zipped({"app.py": source})},
                **members,
            }
        )

    def settled(self, name: str) -> None:
        """Wait until a function's update is no longer in progress."""
        wait_for_update(self.client(), name)


def wait_for_update(client: Any, name: str) -> None:
    """Wait until a function's update is no longer in progress."""
    wait_until(
        lambda: (
            client.get_function_configuration(FunctionName=name)["LastUpdateStatus"] == "Successful"
        ),
        what="the end of the update",
    )
