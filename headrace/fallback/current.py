"""Holds the cloud that moto works for now: a process has one moto and may have several clouds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.aws.sessions import RoleSessions
from headrace.core.clock import Clock, SystemClock
from headrace.core.ports import ControlPlane, Guard, NoGuard
from headrace.core.warehouse import Warehouses


class RunningExecutions(Protocol):
    """The executions of state machines: `headrace.fallback.executions.Executions`, whose module imports this one."""

    def start(self, started: Any) -> None:
        """Run a `headrace.fallback.asl.Started`. Raises AwsError."""
        ...

    def run_of(self, arn: str) -> Any:
        """Return the `headrace.fallback.asl.Run` if the execution runs, else None."""
        ...

    def take_task(self, activity_arn: str, worker: str | None) -> tuple[str, str] | None:
        """Return the token and the input of an activity's next task."""
        ...

    def tell(self, token: str, answer: str, **details: Any) -> None:
        """Pass on the answer to a task token. Raises AwsError."""
        ...


class FunctionTarget(Protocol):
    """Invokes a function asynchronously for a service that acts for one of its resources; never raises."""

    def __call__(self, function_arn: str, payload: bytes, *, service: str, source_arn: str) -> None:
        """Queue an invocation, if the function is there and its policy lets the service."""
        ...


class SearchHome(Protocol):
    """Where the indexes of OpenSearch domains are."""

    def endpoint_of(self, account: str, region: str, name: str) -> str:
        """Return the endpoint that a domain shows, without a scheme."""
        ...

    def forget(self, account: str, region: str, name: str) -> None:
        """Drop the indexes of a domain that is deleted."""
        ...


class Apis(Protocol):
    """The APIs of API Gateway as their clients see them."""

    def __call__(
        self, api_id: str, *, method: str, url: str, headers: dict[str, str], body: bytes, by: str
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer; `url` is from the stage on, `by` the account that calls."""
        ...


@dataclass(slots=True)
class Current:
    """The parts of the cloud that moto's services reach.

    Attributes:
        clock: the cloud's.
        functions: who invokes functions; None while nothing may leave moto, as when it is loaded.
        control: the control plane, for targets that headrace owns; None as above.
        guard: notes what services do in the name of others.
        sessions: gives out the credentials of roles' sessions; None in a cloud without any.
        search: where OpenSearch domains keep what is put into them; None as above.
        warehouses: where Redshift clusters keep their tables; None as above.
        executions: runs state machines; None as above.
        apis: answers requests to APIs; None as above.
        stream_changed: is told the ARN of a table's stream that has a record more; does not wait.
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

    def cut_off(self, clock: Clock, sessions: RoleSessions | None, guard: Guard) -> None:
        """Begin to work for a cloud with this clock: nothing leaves moto until the other parts are set."""
        self.clock, self.sessions, self.guard = clock, sessions, guard
        self.functions = self.control = self.search = self.warehouses = None
        self.executions = self.apis = self.stream_changed = None

    @contextlib.contextmanager
    def listening(self) -> Generator[threading.Event]:
        """Give an event that is set whenever a queue has a message more."""
        event = threading.Event()
        self._listeners.append(event)
        try:
            yield event
        finally:
            self._listeners.remove(event)

    def message_arrived(self) -> None:
        """Wake whoever waits for a message."""
        for event in list(self._listeners):
            event.set()


CURRENT = Current()
