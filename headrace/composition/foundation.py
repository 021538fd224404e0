"""`Foundation`: the parts of a cloud that are built before its services, and that the services use.

`Moto` is moto's engine with the parts that live on its state: deliveries, executions, streams, retention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.adapters.telemetry import LogQueue, MetricQueue
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.server.tls import Tls
from headrace.aws.signatures.access_keys import KeyRing, RoleSessions
from headrace.aws.signatures.authentication import Authentication
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.late_imports import imports_later
from headrace.core.workers import Supervisor
from headrace.dashboard.cloud_account import FunctionTotals
from headrace.deliveries.outbox import OUTBOX, OutboxWorker
from headrace.deliveries.outside_http import post
from headrace.moto.engine import MotoEngine
from headrace.moto.patching import Patches
from headrace.moto.requests.quick import QuickCall
from headrace.services.dynamodb.patches import ItemExpiry
from headrace.services.dynamodb.stream_consumers import TableStreams
from headrace.services.iam.answers import StrictChecks, answer_without_moto
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.services.logs.patches import LogRetention
from headrace.services.stepfunctions.executions import Executions
from headrace.store.database import Database


@dataclass(frozen=True, slots=True)
class Moto:
    """moto's engine and what lives on its state.

    Attributes:
        table_streams: the streams of DynamoDB's tables, for event source mappings.
        executions: the running state machines; stopped with the cloud.
        outbox: the worker that makes deliveries.
        retention: the worker that drops old log events.
        item_expiry: the worker that deletes the items of tables whose time to live is over.
    """

    engine: MotoEngine
    table_streams: TableStreams
    executions: Executions
    outbox: OutboxWorker
    retention: LogRetention
    item_expiry: ItemExpiry


# A patch is imported when the module of moto that it changes has been: most clouds use a few of moto's services. No
# module of patches imports moto, so that no two threads wait for each other.
_WITH_THEIR_MODULES = {
    "headrace.composition.moto_patches": ("headrace.services", "headrace.moto.patches")
}


# Imported with moto, after the cloud answers: the rooms on moto take a twelfth of the imports' time.
def load_patches() -> Patches:
    """Return what headrace changes in moto."""
    with imports_later(_WITH_THEIR_MODULES, late={}):
        from headrace.composition.moto_patches import PATCHES

    return PATCHES


def _quick_calls() -> Sequence[QuickCall]:
    from headrace.composition.moto_patches import QUICK_CALLS

    return QUICK_CALLS


def build_moto(
    *,
    database: Database,
    clock: Clock,
    ids: Ids,
    endpoint_host: Callable[[], str] = lambda: "127.0.0.1:4566",
    sessions: RoleSessions | None = None,
    strict: bool = False,
) -> Moto:
    """Return moto's parts; moto calls nothing outside before `MotoEngine.connect`."""
    engine = MotoEngine(
        database=database,
        clock=clock,
        ids=ids,
        patches=load_patches,
        outbox=OUTBOX,
        endpoint_host=endpoint_host,
        answer_without_moto=answer_without_moto,
        sessions=sessions,
        check_strictly=StrictChecks().check if strict else None,
        quick=_quick_calls,
    )
    return Moto(
        engine=engine,
        table_streams=TableStreams(engine.warm_up, clock.now_ms),
        executions=Executions(lambda change: engine.change_unwatched(change, "stepfunctions")),
        outbox=OutboxWorker(is_ready=engine.is_loaded, save=engine.save_deliveries, post=post),
        retention=LogRetention(engine.is_loaded),
        item_expiry=ItemExpiry(engine, clock),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The parts of a cloud that its services use; the class of each member describes it.

    Attributes:
        keys: the access keys that are accepted with `--auth`; None without `--auth`, as is `authentication`.
        environments: runs functions in this process; None when each function runs in processes of its own.
        endpoint_url: the cloud's own URL; correct once the port is known.
        functions: counts what functions did, for the dashboard.
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
    functions: FunctionTotals
    logs: LogQueue
    environments: MakeEnvironment | None
    endpoint_url: Callable[[], str]
    tls: Tls
