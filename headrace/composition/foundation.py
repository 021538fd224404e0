"""`Foundation`: the parts of a cloud that are built before its services, and that the services use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.adapters.telemetry import LogQueue, MetricQueue
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.server.tls import Tls
from headrace.aws.signatures.access_keys import KeyRing
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.sessions import RoleSessions
from headrace.composition.moto import Moto
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The parts of a cloud that its services use; the class of each member describes it.

    Attributes:
        keys: the access keys that are accepted with `--auth`; None without `--auth`, as is `authentication`.
        environments: runs functions in this process; None when each function runs in processes of its own.
        endpoint_url: the cloud's own URL; correct once the port is known.
        tls: the cloud's certificate, for the clients that begin with a TLS handshake.
    """

    config: Config
    clock: Clock
    ids: Ids
    database: Database
    supervisor: Supervisor
    moto: Moto
    gateway: Gateway
    sessions: RoleSessions
    keys: KeyRing | None
    authentication: Authentication | None
    metrics: MetricQueue
    logs: LogQueue
    environments: MakeEnvironment | None
    endpoint_url: Callable[[], str]
    tls: Tls
