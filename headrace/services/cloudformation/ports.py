"""What stack operations use of the rest of the cloud: clock, ids, API calls, functions, answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, FunctionInvoker
from headrace.services.cloudformation.resources.base import CustomResponses
from headrace.services.cloudformation.signals import Signals


@dataclass(frozen=True, slots=True)
class Ports:
    """What all stack operations share.

    Attributes:
        endpoint_url: returns the cloud's address once its port is known.
        executor: returns the thread pool that works on the resources of one operation.
    """

    clock: Clock
    ids: Ids
    control: ControlPlane
    functions: FunctionInvoker
    responses: CustomResponses
    endpoint_url: Callable[[], str]
    executor: Callable[[], Executor]
    signals: Signals
