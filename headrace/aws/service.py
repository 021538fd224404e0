"""What a service hands to the gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Action, Call, operation_name

RawAnswer = HttpResponse | Future[HttpResponse] | None


@dataclass(frozen=True, slots=True)
class ServiceApi:
    """A service that headrace owns whole.

    Attributes:
        name: botocore's name of it (`kinesis`, `lambda`, ...).
        backend: the first argument of every action.
        actions: functions declared with `@operation`, listed one by one.
        translate: gives the AwsError of a domain error, or None (an unknown one becomes a 500).
        raw: sees every request first; answers the hot path and raw bodies, or returns None.
        inline: operations that never block and run on the event loop's thread.
        subject: gives the stream and shard of a request to an operation (empty where it names none), for faults
            on demand; it may raise AwsError for a request of the wrong form.
    """

    name: str
    backend: Any
    actions: Sequence[Action]
    translate: Callable[[Exception], AwsError | None]
    raw: Callable[[HttpRequest], RawAnswer] | None = None
    inline: frozenset[str] = field(default_factory=frozenset[str])
    subject: Callable[[HttpRequest, str, Call], tuple[str, str]] | None = None

    def by_name(self) -> dict[str, Action]:
        """Return the actions by operation name."""
        return {operation_name(action): action for action in self.actions}
