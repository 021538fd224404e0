"""Holds the cloud that moto currently works for: a process has one moto, and may have several clouds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.aws.signatures.sessions import RoleSessions
from headrace.core.clock import Clock, SystemClock
from headrace.core.ports import ControlPlane, Guard, NoGuard
from headrace.core.ports.warehouses import Warehouses


class RunningExecutions(Protocol):
    """Runs the executions of state machines: `Executions` of `headrace.services.stepfunctions`."""

    def start(self, started: Any) -> None:
        """Run a `headrace.services.stepfunctions.interpreter.run.ExecutionInput`. Raises AwsError."""
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
    """Invokes a function asynchronously on behalf of a service's resource; never raises."""

    def __call__(self, function_arn: str, payload: bytes, *, service: str, source_arn: str) -> None:
        """Queue an invocation if the function exists and its policy allows the service."""
        ...


class SearchHome(Protocol):
    """The store of OpenSearch domains' indexes."""

    def endpoint_of(self, account: str, region: str, name: str) -> str:
        """Return a domain's endpoint, without a scheme."""
        ...

    def forget(self, account: str, region: str, name: str) -> None:
        """Drop the indexes of a deleted domain."""
        ...


class Apis(Protocol):
    """API Gateway's APIs, as their clients call them."""

    def __call__(
        self, api_id: str, *, method: str, url: str, headers: dict[str, str], body: bytes, by: str
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer; `url` begins with the stage, `by` is the caller's account."""
        ...


@dataclass(slots=True)
class CurrentCloud:
    """The parts of the cloud that moto's services use.

    Attributes:
        clock: the cloud's.
        functions: invokes functions; None while moto must not call out, such as while its state is loaded.
        control: the control plane, for targets that headrace owns; None as above.
        guard: records what services do on behalf of others.
        sessions: issues credentials of role sessions; None in a cloud without any.
        search: stores the indexes of OpenSearch domains; None as above.
        warehouses: stores the tables of Redshift clusters; None as above.
        executions: runs state machines; None as above.
        apis: answers requests to APIs; None as above.
        stream_changed: called with the ARN of a table's stream that has a new record; does not wait.
    """

    clock: Clock = field(default_factory=SystemClock)
    functions: FunctionTarget | None = None
    control: ControlPlane | None = None
    sessions: RoleSessions | None = None
    guard: Guard = field(default_factory=NoGuard)
    search: SearchHome | None = None
    warehouses: Warehouses | None = None
    executions: RunningExecutions | None = None
    apis: Apis | None = None
    stream_changed: Callable[[str], None] | None = None
    _listeners: list[threading.Event] = field(default_factory=list[threading.Event])

    def disconnect(self, clock: Clock, sessions: RoleSessions | None, guard: Guard) -> None:
        """Switch to a cloud with this clock: moto calls nothing outside until the other parts are set."""
        self.clock, self.sessions, self.guard = clock, sessions, guard
        self.functions = self.control = self.search = self.warehouses = None
        self.executions = self.apis = self.stream_changed = None

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
