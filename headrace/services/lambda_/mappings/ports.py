"""The ports that pollers of event source mappings use: clock, streams, queues, functions, destinations, stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionInvoker, MetricSink, QueueReceiver, StreamReader
from headrace.services.lambda_.destinations import Destinations
from headrace.services.lambda_.mappings.store import MappingStore
from headrace.services.lambda_.mappings.trace import Trace
from headrace.services.lambda_.permits import EVERYTHING, Permits


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports that every poller uses. `role_of` returns the role's ARN for a function's ARN."""

    clock: Clock
    ids: Ids
    streams: StreamReader
    queues: QueueReceiver
    invoker: FunctionInvoker
    destinations: Destinations
    metrics: MetricSink
    store: MappingStore
    trace: Trace
    role_of: Callable[[str], str]
    permits: Permits = EVERYTHING
