"""`Foundation`: the parts of a cloud that are built before its services, and on which these are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.adapters.telemetry import LogQueue, MetricQueue
from headrace.aws.access_keys import KeyRing
from headrace.aws.gateway import Gateway
from headrace.aws.sessions import RoleSessions
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.fallback import MotoServices
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """See the classes of the members.

    Attributes:
        keys: those that are accepted with `--auth`; None without.
        environments: runs functions in this process; None where each runs in processes of its own.
        endpoint_url: the cloud's own URL; right once the port is known.
    """

    config: Config
    clock: Clock
    ids: Ids
    database: Database
    supervisor: Supervisor
    moto: MotoServices
    gateway: Gateway
    sessions: RoleSessions
    keys: KeyRing | None
    metrics: MetricQueue
    logs: LogQueue
    environments: MakeEnvironment | None
    endpoint_url: Callable[[], str]
