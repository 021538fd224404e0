"""Builds Firehose from its parts, and describes it to the gateway."""

from __future__ import annotations

from pathlib import Path

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.service import DataPage, Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.config import Durability, Limits
from headrace.core.ids import Ids
from headrace.core.ports import (
    ControlPlane,
    FunctionInvoker,
    Guard,
    KeyStates,
    LogSink,
    MetricSink,
    NoGuard,
    ObjectStore,
    SchemaCatalog,
    StreamReader,
)
from headrace.core.ports.messages import SearchDomains
from headrace.core.ports.warehouses import Warehouses
from headrace.core.workers import Supervisor
from headrace.services.firehose.actions import ACTIONS
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.errors import Throttle, limit_rate, translate
from headrace.services.firehose.fast_path import RawRequests
from headrace.services.firehose.fidelity import FIDELITY, WORDING
from headrace.services.firehose.permits import StreamKeys
from headrace.services.firehose.records import Ports, SecretReader
from headrace.services.firehose.state import DeliveryStreams
from headrace.store.check import JOURNALS_FOLDER, Marks
from headrace.store.database import Database

PROFILE = Profile(
    target_prefix="Firehose_20150804",
    fault_errors=FaultErrors(
        throttle=("LimitExceededException", "Rate exceeded.", 400),
        throttled_actions=dict.fromkeys(
            ("PutRecord", "PutRecordBatch"), ("ServiceUnavailableException", "Slow down.", 503)
        ),
        callers_errors_are_400=True,
    ),
)


_PUTS = frozenset({"PutRecord", "PutRecordBatch"})


def build_firehose(
    *,
    data_dir: Path,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    durability: Durability = "os",
    objects: ObjectStore,
    streams: StreamReader,
    schemas: SchemaCatalog,
    functions: FunctionInvoker,
    logs: LogSink,
    metrics: MetricSink,
    search: SearchDomains,
    secrets: SecretReader,
    control: ControlPlane,
    warehouses: Warehouses,
    guard: Guard | None = None,
    keys: KeyStates | None = None,
    state_delay_ms: int = 0,
    limits: Limits = "off",
) -> Firehose:
    """Build Firehose; nothing runs before `Firehose.start`."""
    fsync = durability == "fsync"
    return Firehose(
        folder=data_dir / JOURNALS_FOLDER,
        store=DeliveryStreams(database),
        marks=Marks(database, data_dir, fsync=fsync),
        ports=Ports(
            clock,
            ids,
            objects,
            schemas,
            functions,
            logs,
            metrics,
            guard or NoGuard(),
            search=search,
            secrets=secrets,
            control=control,
            warehouses=warehouses,
            keys=StreamKeys(keys),
        ),
        streams=streams,
        supervisor=supervisor,
        fsync=fsync,
        state_delay_ms=state_delay_ms,
        throttle=Throttle() if limits == "aws" else None,
    )


def firehose_api(firehose: Firehose) -> ServiceApi:
    """Return the service for the gateway."""
    throttle = firehose.throttle
    actions = ACTIONS if throttle is None else [limit_rate(action, throttle) for action in ACTIONS]
    return ServiceApi(
        name="firehose",
        backend=firehose,
        actions=actions,
        translate=translate,
        profile=PROFILE,
        raw=RawRequests(firehose).answer_raw,
        # A put writes to the page cache. With fsync it waits for the disk, so it leaves the event loop's thread.
        inline=frozenset() if firehose.fsync else _PUTS,
        fidelity=FIDELITY,
        wording=WORDING,
        key_of=lambda _, arn: (firehose.key_of(arn), "", ""),
        pages=[
            DataPage(
                "firehose",
                "Firehose: each delivery stream's buffers and deliveries (JSON)",
                lambda _: firehose.statuses(),
            )
        ],
    )
