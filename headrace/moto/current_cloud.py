"""Holds the cloud that moto currently works for: a process has one moto, and may have several clouds.

Replaces the machine's clock by the cloud's in modules of moto, so that their times agree with the cloud's.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Protocol

from headrace.aws.calls.http import HttpResponse
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.clock import Clock, SystemClock
from headrace.core.ports import (
    CallerIdentity,
    ControlPlane,
    Guard,
    InvokeResult,
    LogSink,
    MetricSink,
    NoGuard,
)
from headrace.core.ports.warehouses import Warehouses


def utcnow() -> datetime:
    """Return the time in moto's form: UTC, without a time zone."""
    return datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC).replace(tzinfo=None)


def unix_time(dt: datetime | None = None) -> float:
    """Return a time, or now, in seconds."""
    at = utcnow() if dt is None else dt
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def unix_time_millis(dt: datetime | None = None) -> float:
    """Return a time, or now, in milliseconds."""
    return unix_time(dt) * 1000.0


def use_clock(*modules: ModuleType) -> None:
    """Make modules of moto read the cloud's clock."""
    for module in modules:
        names: dict[str, Any] = vars(module)
        for own in (utcnow, unix_time, unix_time_millis):
            if own.__name__ in names:
                names[own.__name__] = own


class _Answered(threading.local):
    """moto's answer to this thread's request, before it is stored."""

    response: HttpResponse | None = None


ANSWERED = _Answered()


class RunningExecutions(Protocol):
    """Runs the executions of state machines: `Executions` of `headrace.services.stepfunctions`."""

    def start(self, machine: Any, version: Any, execution: Any) -> None:
        """Run moto's new execution of a machine's version once it is stored. Raises AwsError."""
        ...

    def run_of(self, arn: str) -> Any:
        """Return the execution's `headrace.services.stepfunctions.interpreter.run.Run` while it runs, else None."""
        ...

    def take_task(self, activity_arn: str, worker: str | None) -> tuple[str, str] | None:
        """Return the token and the input of an activity's next task."""
        ...

    def tell(self, token: str, answer: str, **details: Any) -> None:
        """Pass on the answer to a task token. Raises AwsError."""
        ...


class FunctionTarget(Protocol):
    """Invokes a function asynchronously on behalf of a service's resource."""

    def __call__(self, function_arn: str, payload: bytes, *, service: str, source_arn: str) -> bool:
        """Queue an invocation if the function exists and its policy allows the service; return whether it did."""
        ...


class FunctionCalls(Protocol):
    """Invokes functions and waits, on behalf of a service's resource. Callers hold no lock."""

    def service_may_invoke(
        self, function_arn: str, service: str, *, source_arn: str, source_account: str
    ) -> bool:
        """Whether a function's policy allows a service to invoke it on behalf of a resource."""
        ...

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """Run the function and wait. Raises FunctionNotFound, FunctionThrottled."""
        ...


class Devices(Protocol):
    """The MQTT clients of IoT, and the messages that topics retain. Callers hold moto's lock."""

    def deliver(
        self,
        account: str,
        region: str,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Mapping[int, Any] | None = None,
        publisher: str = "",
    ) -> None:
        """Give a message to its subscribers, and retain it. Raises OSError when it cannot be stored."""
        ...

    def retained(self, account: str, region: str) -> list[dict[str, Any]]:
        """Return a place's retained messages in the order of their topics: topic, payload, qos, modified_ms."""
        ...

    @property
    def host(self) -> str:
        """The host to which devices connect; empty when MQTT is not served."""
        ...


class QueryRunner(Protocol):
    """Runs Athena's queries: `Queries` of `headrace.services.athena`."""

    def submit(self, query: Any) -> None:
        """Run a `headrace.services.athena.queries.Query`. Raises AwsError."""
        ...

    def state_of(self, query_id: str) -> str:
        """Return QUEUED or RUNNING; empty when a query neither waits nor runs."""
        ...

    def cancel(self, query_id: str) -> None:
        """End a query."""
        ...

    def page(
        self,
        location: str,
        offset: int,
        count: int,
        *,
        is_text: bool,
        acting: CallerIdentity | None,
        region: str,
    ) -> tuple[list[list[str | None]], int]:
        """Return rows of a result from a byte's offset on, and where the next begin.

        `acting` is who reads them. Raises AwsError without s3:GetObject, BucketNotFound, ObjectNotFound.
        """
        ...


class SearchHome(Protocol):
    """The store of OpenSearch domains' indexes."""

    def endpoint_of(self, account: str, region: str, name: str) -> str:
        """Return a domain's endpoint, without a scheme."""
        ...

    def forget(self, account: str, region: str, name: str) -> None:
        """Drop the indexes of a deleted domain."""
        ...


class TableStorage(Protocol):
    """The buckets that hold the files of S3 Tables' tables."""

    def create(self, name: str, *, account: str, region: str) -> None:
        """Create a bucket for one table."""
        ...

    def remove(self, name: str) -> None:
        """Remove a bucket with all its files, if it is there."""
        ...


class Apis(Protocol):
    """API Gateway's APIs, as their clients call them."""

    def __call__(
        self, api_id: str, *, method: str, url: str, headers: dict[str, str], body: bytes, by: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return the status, the headers and the body of an answer; `url` begins with the stage.

        `by` is the caller's account; empty for a caller without a signature.
        """
        ...


class TestMethod(Protocol):
    """Tests methods of REST APIs, which no stage needs to serve."""

    def __call__(
        self, api_id: str, resource_id: str, method: str, asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return TestInvokeMethod's answer to its parameters. Callers hold no lock."""
        ...


class Handled:
    """What each rule, topic, queue and table has handled since the start, by ARN: matches, messages, items written.

    Callers of `add` and `fail` hold moto's lock; `totals` may be called by any thread.
    """

    # Of more resources the oldest are forgotten: those that were deleted.
    MOST = 10_000

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._events: defaultdict[tuple[str, str], float] = defaultdict(float)

    def note(self, arn: str, event: str, count: float = 1) -> None:
        """Count an event of another kind, by the name of AWS's metric for it."""
        self._events[arn, event] += count
        if len(self._events) > self.MOST:
            del self._events[next(iter(self._events))]

    def events(self) -> dict[tuple[str, str], float]:
        """Return how many events there were, by ARN and name."""
        return dict(self._events.copy())

    def add(self, arn: str) -> None:
        """Count one more."""
        self._count(arn, 1)

    def fail(self, arn: str) -> None:
        """Count one that could not be passed on, beside `add`, which may have been before the start."""
        self._count(arn, 0)
        self._failures[arn] += 1

    def _count(self, arn: str, records: int) -> None:
        self._records[arn] += records
        if len(self._records) > self.MOST:
            oldest = next(iter(self._records))
            del self._records[oldest], self._failures[oldest]

    def totals(self) -> dict[str, tuple[int, int]]:
        """Return how many each has handled, and how many of these failed."""
        failures = self._failures.copy()
        return {arn: (count, failures[arn]) for arn, count in self._records.copy().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The parts of a cloud that moto's services call. The default is a cloud in which they call nothing.

    Attributes:
        functions: invokes functions.
        function_calls: invokes functions and waits.
        control: the control plane, for targets that headrace owns.
        guard: records what services do on behalf of others.
        search: stores the indexes of OpenSearch domains.
        storage: stores the files of S3 Tables' tables.
        warehouses: stores the tables of Redshift clusters.
        executions: runs state machines.
        queries: runs queries.
        devices: IoT's MQTT clients.
        apis: answers requests to APIs.
        test_method: tests methods of REST APIs.
        metrics: takes what metric filters of log groups count.
        logs: takes what services log of what they do.
        handled: counts what rules, topics, queues and tables handle.
        stream_changed: called with the ARN of a table's stream that has a new record; does not wait.
        endpoint_url: returns the cloud's address, for links in what it sends.
        before_policies_change: called before a policy changes, so that earlier actions are decided by the old policy.
    """

    functions: FunctionTarget | None = None
    function_calls: FunctionCalls | None = None
    control: ControlPlane | None = None
    guard: Guard = field(default_factory=NoGuard)
    search: SearchHome | None = None
    storage: TableStorage | None = None
    warehouses: Warehouses | None = None
    executions: RunningExecutions | None = None
    queries: QueryRunner | None = None
    devices: Devices | None = None
    apis: Apis | None = None
    test_method: TestMethod | None = None
    metrics: MetricSink | None = None
    logs: LogSink | None = None
    handled: Handled = field(default_factory=Handled)
    stream_changed: Callable[[str], None] | None = None
    before_policies_change: Callable[[], None] = lambda: None
    endpoint_url: Callable[[], str] = lambda: "http://localhost:4566"


NOTHING = Connections()
# Whether this thread answers a client: its request, or a service's call with its role; not a call of the cloud's own.
ANSWERS_CLIENT: ContextVar[bool] = ContextVar("answers_client", default=False)


class CurrentCloud:
    """The cloud that moto works for. Its parts are those of `Connections`; none while its state is loaded.

    Attributes:
        clock: the cloud's.
        sessions: issues credentials of role sessions; None in a cloud without any.
    """

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.sessions: RoleSessions | None = None
        self.connect(NOTHING)
        self._listeners: list[threading.Event] = []

    def enter(self, clock: Clock, sessions: RoleSessions | None, guard: Guard) -> None:
        """Switch to a cloud with this clock: moto calls nothing outside until `connect`."""
        self.clock, self.sessions = clock, sessions
        self.connect(Connections(guard=guard))

    def connect(self, connections: Connections) -> None:
        """Let moto's services call these parts."""
        self.functions, self.control = connections.functions, connections.control
        self.function_calls = connections.function_calls
        self.guard = connections.guard
        self.search, self.warehouses = connections.search, connections.warehouses
        self.storage = connections.storage
        self.executions, self.apis = connections.executions, connections.apis
        self.queries, self.test_method = connections.queries, connections.test_method
        self.devices = connections.devices
        self.endpoint_url = connections.endpoint_url
        self.metrics, self.logs = connections.metrics, connections.logs
        self.handled, self.stream_changed = connections.handled, connections.stream_changed

    @contextlib.contextmanager
    def listening(self) -> Generator[threading.Event]:
        """Return a context manager whose event is set whenever a queue gets a message."""
        event = threading.Event()
        self._listeners.append(event)
        try:
            yield event
        finally:
            self._listeners.remove(event)

    def message_arrived(self) -> None:
        """Wake the threads that wait for a message."""
        for event in list(self._listeners):
            event.set()


CURRENT = CurrentCloud()
