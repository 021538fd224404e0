"""What deliveries are given of the rest of the cloud: clock, objects, tables, functions, logs, metrics."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionInvoker, LogSink, MetricSink, ObjectStore, SchemaCatalog
from headrace.services.firehose.queries import Queries


@dataclass(frozen=True, slots=True)
class Ports:
    """What all deliveries share. `stopping` is set before the cloud stops."""

    clock: Clock
    ids: Ids
    objects: ObjectStore
    schemas: SchemaCatalog
    functions: FunctionInvoker
    logs: LogSink
    metrics: MetricSink
    queries: Queries = field(default_factory=Queries)
    stopping: threading.Event = field(default_factory=threading.Event)
