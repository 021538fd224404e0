"""Builds Kinesis from its parts, and describes it to the gateway and the cloud."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.calls.operation import Action, Call, operation_name
from headrace.aws.gateway.faults import Faults
from headrace.aws.protocols.service import DataPage, Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.config import Durability, Limits
from headrace.core.ids import Ids
from headrace.core.ports import (
    FidelityLevel,
    Guard,
    KeyStates,
    LogSink,
    MetricSink,
    PrincipalCheck,
    accept_principal,
)
from headrace.core.workers import Supervisor, Worker
from headrace.services.kinesis.actions import ACTIONS
from headrace.services.kinesis.actions.resources import policy_of
from headrace.services.kinesis.backend import Kinesis, TokenCodec
from headrace.services.kinesis.channels import Channels
from headrace.services.kinesis.data_path.get import Iterators
from headrace.services.kinesis.data_path.reader import KinesisReader
from headrace.services.kinesis.errors import translate
from headrace.services.kinesis.fast_path import RawRequests, fault_target, shards_by_stream
from headrace.services.kinesis.metrics import MinuteMetrics, observe_event
from headrace.services.kinesis.permits import Throttle
from headrace.services.kinesis.pushes import Pushes
from headrace.services.kinesis.queues.queues import Queues
from headrace.services.kinesis.queues.store import QueueStore
from headrace.services.kinesis.resharding import Growth, Retention
from headrace.services.kinesis.store import (
    AccountSettings,
    StreamRegistry,
    StreamStore,
    iterator_key,
)
from headrace.services.kinesis.subscriptions import Consumers, Subscriptions
from headrace.services.kinesis.trace_page import queues_page, trace_page
from headrace.store.database import Database
from headrace.store.flusher import Flusher

# The parameters that Kinesis accepts without acting on them: operation -> parameter -> level; others are enforced.
_ENCRYPTION: dict[str, FidelityLevel] = {
    # Responses show the encryption, also for each record; records on disk are not encrypted.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
}


_THROTTLED = (
    "ProvisionedThroughputExceededException",
    "Rate exceeded for shard {shard} in stream {stream} under account {account}.",
    400,
)

# The operations on the records of queues. Their answers wait for the round that stores the deliveries; no thread waits.
QUEUE_DATA = (
    "ReceiveQueueRecords",
    "ReceiveDeadLetterQueueRecords",
    "AcknowledgeQueueRecords",
    "AcknowledgeDeadLetterQueueRecords",
    "UpdateQueueRecordsVisibility",
    "UpdateDeadLetterQueueRecordsVisibility",
    "RestoreDeadLetterQueueRecords",
)

PROFILE = Profile(
    target_prefix="Kinesis_20131202",
    exposed_headers="x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date",
    fault_errors=FaultErrors(
        throttle=("LimitExceededException", "Rate exceeded.", 400),
        throttled_actions={
            **dict.fromkeys(
                ("PutRecord", "PutRecords", "GetRecords", "GetShardIterator"), _THROTTLED
            ),
            **dict.fromkeys(QUEUE_DATA, ("ThrottlingException", "Rate exceeded.", 400)),
        },
        callers_errors_are_400=True,
    ),
)


def build_kinesis(
    *,
    data_dir: Path,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    durability: Durability = "os",
    metrics: MetricSink | None = None,
    state_delay_ms: int = 0,
    limits: Limits = "off",
    faults: Faults | None = None,
    keys: KeyStates | None = None,
    has_principal: PrincipalCheck = accept_principal,
    logs: LogSink | None = None,
    guard: Guard | None = None,
) -> Kinesis:
    """Return Kinesis with its parts. `Kinesis.start` opens the shard logs and starts the workers."""
    fsync = durability == "fsync"
    settings = database.documents("kinesis_settings")
    key = iterator_key(settings, ids)
    throttle = Throttle() if limits == "aws" else None
    registry = StreamRegistry(keys)
    consumers = Consumers(database.documents("kinesis_consumers"), state_delay_ms)
    subscriptions = Subscriptions(registry, consumers, throttle, observe_event)
    return Kinesis(
        clock=clock,
        ids=ids,
        registry=registry,
        store=StreamStore(database, data_dir, fsync=fsync),
        account_settings=AccountSettings(settings),
        iterators=Iterators(key, registry, clock, throttle),
        tokens=TokenCodec(key),
        consumers=consumers,
        subscriptions=subscriptions,
        pushes=Pushes(clock, registry),
        reader=KinesisReader(clock, registry, consumers),
        queues=Queues(QueueStore(database), registry, clock, ids, key=key, delay_ms=state_delay_ms),
        channels=Channels(
            database.documents("kinesis_channels"),
            registry,
            clock,
            ids,
            logs=logs,
            guard=guard,
            delay_ms=state_delay_ms,
        ),
        supervisor=supervisor,
        workers=_workers,
        flusher=Flusher() if fsync else None,
        throttle=throttle,
        metrics=metrics,
        faults=faults,
        state_delay_ms=state_delay_ms,
        has_principal=has_principal,
    )


def _workers(kinesis: Kinesis) -> list[Worker]:
    return [Retention(kinesis), MinuteMetrics(kinesis, Growth(kinesis))]


def kinesis_api(kinesis: Kinesis) -> ServiceApi:
    """Return the service for the gateway."""
    throttle = kinesis.throttle
    actions = ACTIONS if throttle is None else [_limit_rate(action, throttle) for action in ACTIONS]
    return ServiceApi(
        name="kinesis",
        backend=kinesis,
        actions=actions,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        raw=RawRequests(kinesis).answer_raw,
        # A put writes to the page cache only; with `durability=fsync` the response waits for the disk, not the thread.
        inline=frozenset({"GetRecords", "PutRecord", "PutRecords", *QUEUE_DATA}),
        subject=functools.partial(fault_target, kinesis),
        pages=[
            queues_page(kinesis.queues, kinesis.clock),
            DataPage(
                "kinesis/channels",
                "Kinesis: each channel's deliveries (JSON)",
                lambda _: kinesis.channels.statuses(),
            ),
            trace_page(kinesis),
        ],
        shards_by_stream=functools.partial(shards_by_stream, kinesis),
        policy_of=functools.partial(policy_of, kinesis),
        key_of=lambda _, arn: (kinesis.key_of(arn.partition("/consumer/")[0]), "", ""),
    )


def _limit_rate(action: Action, throttle: Throttle) -> Action:
    """Return `action` with a check of its call rate in front. SubscribeToShard checks its rate itself."""
    operation = operation_name(action)

    @functools.wraps(action)
    def run(kinesis: Kinesis, call: Call, request: Any) -> Any:
        if operation != "SubscribeToShard":
            throttle.check_call(operation, request, call)
        return action(kinesis, call, request)

    return run
