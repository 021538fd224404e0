"""The dependencies of deliveries on the rest of the cloud: clock, objects, tables, functions, logs, metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    ControlPlane,
    FunctionInvoker,
    Guard,
    LogSink,
    MetricSink,
    NoGuard,
    ObjectStore,
    SchemaCatalog,
)
from headrace.core.ports.messages import SearchDomainNotFound, SearchDomains, SearchServer
from headrace.core.ports.warehouses import NoWarehouses, Warehouses
from headrace.services.firehose.permits import StreamKeys
from headrace.services.firehose.queries import Queries

# Takes a secret's ARN, account and region; returns its text, or None when it does not exist.
SecretReader = Callable[[str, str, str], str | None]


def find_no_secret(arn: str, account: str, region: str) -> str | None:
    """Return None: the lookup for a cloud without Secrets Manager."""
    return None


class NoSearchDomains:
    """The `SearchDomains` of a cloud without OpenSearch: it finds no domain."""

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_domain`."""
        raise SearchDomainNotFound(f"There is no domain {name} in {region}.")

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """See `SearchDomains.of_endpoint`: every endpoint is a real server's."""
        return url


@dataclass(frozen=True, slots=True)
class Ports:
    """The dependencies of all deliveries. `guard` checks roles' permissions; `stopping` is set before the cloud stops.

    `control` calls the Glue catalogue of Iceberg tables; None without Glue.
    """

    clock: Clock
    ids: Ids
    objects: ObjectStore
    schemas: SchemaCatalog
    functions: FunctionInvoker
    logs: LogSink
    metrics: MetricSink
    guard: Guard = field(default_factory=NoGuard)
    queries: Queries = field(default_factory=Queries)
    search: SearchDomains = field(default_factory=NoSearchDomains)
    secrets: SecretReader = find_no_secret
    control: ControlPlane | None = None
    warehouses: Warehouses = field(default_factory=NoWarehouses)
    keys: StreamKeys = field(default_factory=StreamKeys)
    stopping: threading.Event = field(default_factory=threading.Event)
