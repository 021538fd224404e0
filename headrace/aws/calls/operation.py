"""`@operation`: declares a function as the implementation of an AWS action.

@operation("PutRecord")
def put_record(kinesis: Kinesis, call: Call, request: PutRecordInput) -> PutRecordOutput: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from headrace.aws.calls.permits import Permit
from headrace.core.ports import CallerIdentity


class SharedWrite(Protocol):
    """A write that several requests of one turn of the event loop share."""

    def write(self) -> bool:
        """Write unless that was tried; return whether it succeeded. Without success, nothing was written."""
        ...


Action = Callable[[Any, "Call", Any], Any]
_F = TypeVar("_F", bound=Callable[..., Any])

_NAME_ATTRIBUTE = "__headrace_operation__"


# Not frozen, which would double the cost of creating one for every request. Do not change it.
@dataclass(slots=True)
class Call:
    """The context of one request: account, region, caller, time. `now_ms` is read once, when the request arrives.

    Attributes:
        waits: Futures, such as of an fsync, that must be done before the answer is sent. An action adds them instead of
            waiting, so that it may run on the event loop.
        permit: checks the caller's permissions; None for callers who may do everything.
        acting: the identity of a service that calls in process; None for a client's request.
        may_share: the action may put its write off, to the end of the event loop's turn, into `shared`.
        shared: the answer may only go out once this write has succeeded; otherwise the request is answered again.
    """

    account: str
    region: str
    request_id: str
    now_ms: int
    service: str = ""
    operation: str = ""
    access_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    waits: list[Future[None]] = field(default_factory=list[Future[None]])
    permit: Permit | None = None
    acting: CallerIdentity | None = None
    may_share: bool = False
    shared: SharedWrite | None = None


def operation(name: str) -> Callable[[_F], _F]:
    """Mark a function `(backend, call, request) -> output | None` as AWS's operation `name`."""

    def mark(function: _F) -> _F:
        setattr(function, _NAME_ATTRIBUTE, name)
        return function

    return mark


def operation_name(action: Callable[..., Any]) -> str:
    """Return the operation that `action` implements. Raises TypeError when it is not decorated."""
    name = getattr(action, _NAME_ATTRIBUTE, None)
    if name is None:
        raise TypeError(f"{action} is not decorated with @operation")
    return str(name)
