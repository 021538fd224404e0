"""Builds Lambda from its parts, describes it to the gateway and the cloud, and says what of its API has no effect.

A "stored" parameter is stored and returned, but has no effect. An "ignored" parameter is accepted and dropped.

More differences from AWS: a version has at most 64 warm processes, however many are provisioned; concurrency is limited
as on AWS. Signatures are verified only with `--auth`: without it, a function URL with the auth type AWS_IAM requires a
signature but does not verify it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.aws.calls.errors import FaultErrors
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.ports import (
    EventBusSender,
    FidelityLevel,
    Guard,
    LogSink,
    MessageQueues,
    MetricSink,
    NoGuard,
    ObjectStore,
    PrincipalCheck,
    StreamReader,
    TopicPublisher,
    accept_principal,
)
from headrace.core.workers import Supervisor
from headrace.services.lambda_.actions import ACTIONS
from headrace.services.lambda_.actions.policy import policy_of
from headrace.services.lambda_.async_events import Destinations
from headrace.services.lambda_.async_queue import AsyncQueue, WaitingEvents
from headrace.services.lambda_.backend import Lambda, Parts
from headrace.services.lambda_.errors import WORDING, translate
from headrace.services.lambda_.fast_path import (
    answer_raw,
    backlog_page,
    may_be_quick,
    trace_page,
)
from headrace.services.lambda_.invocations.dispatcher import Dispatcher, Invoker
from headrace.services.lambda_.invocations.pools import MakeEnvironment, Pools
from headrace.services.lambda_.layers import LayerStore, PublicLayers
from headrace.services.lambda_.mappings.mappings import Mappings, Transitions
from headrace.services.lambda_.mappings.store import MappingStore, Ports, Trace
from headrace.services.lambda_.packages import CodeStore
from headrace.services.lambda_.permits import CodeSigning, Permits
from headrace.services.lambda_.runtime.environment import trust_the_machine
from headrace.services.lambda_.state import FunctionStore
from headrace.services.lambda_.url_calls import FunctionUrls
from headrace.store.database import Database

PROFILE = Profile(
    paths=("/2015-03-31/", "/2018-10-31/", "/2017-03-31/", "/2026-07-09/"),
    exposed_headers=(
        "x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date,x-amz-log-result,x-amz-function-error"
    ),
    fault_errors=FaultErrors(
        throttle=("TooManyRequestsException", "Rate Exceeded.", 429),
        error=(
            "ServiceException",
            "An error occurred and the request cannot be processed.",
            500,
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaPorts:
    """What Lambda uses of its cloud.

    Attributes:
        sessions: issues functions' credentials; without it, as in tests, no other service can verify them.
        environments: makes the environments in which functions run; tests pass one without processes.
    """

    data_dir: Path
    clock: Clock
    ids: Ids
    database: Database
    supervisor: Supervisor
    config: Config
    objects: ObjectStore
    streams: StreamReader
    queues: MessageQueues
    topics: TopicPublisher
    buses: EventBusSender
    logs: LogSink
    metrics: MetricSink
    endpoint_url: Callable[[], str]
    trust_file: Callable[[], Path | None] = trust_the_machine
    sessions: RoleSessions | None = None
    environments: MakeEnvironment | None = None
    guard: Guard = field(default_factory=NoGuard)
    has_principal: PrincipalCheck = accept_principal


def build_lambda(ports: LambdaPorts) -> Lambda:
    """Return Lambda with its parts. `Lambda.start` loads the state and starts the workers."""
    clock, ids, database, config = ports.clock, ports.ids, ports.database, ports.config
    functions = FunctionStore(database)
    code = CodeStore(ports.data_dir, ports.objects, ids, clock)
    permits = Permits(ports.guard)
    pools = _build_pools(ports, functions, code)
    dispatcher = Dispatcher(
        clock=clock,
        ids=ids,
        functions=functions,
        pools=pools,
        logs=ports.logs,
        metrics=ports.metrics,
        permits=permits,
    )
    invoker = Invoker(dispatcher, account=config.account_id, region=config.region)
    events = _build_async_queue(ports, functions, dispatcher, permits)
    parts = Parts(
        functions=functions,
        layers=LayerStore(database, PublicLayers(config.layers, code)),
        signing=CodeSigning(database),
        code=code,
        pools=pools,
        dispatcher=dispatcher,
        events=events,
        permits=permits,
        invoker=invoker,
        mappings=_build_mappings(ports, functions, invoker, events.destinations, permits),
        urls=FunctionUrls(functions=functions, dispatcher=dispatcher, ids=ids, clock=clock),
    )
    return Lambda(
        parts,
        clock=clock,
        ids=ids,
        supervisor=ports.supervisor,
        account=config.account_id,
        region=config.region,
        endpoint_url=ports.endpoint_url,
        temp_dir=ports.data_dir / "lambda" / "tmp",
        has_principal=ports.has_principal,
    )


def _build_pools(ports: LambdaPorts, functions: FunctionStore, code: CodeStore) -> Pools:
    return Pools(
        data_dir=ports.data_dir,
        clock=ports.clock,
        ids=ports.ids,
        functions=functions,
        code=code,
        endpoint_url=ports.endpoint_url,
        trust_file=ports.trust_file,
        folders=ports.config.function_folders,
        sessions=ports.sessions or RoleSessions(ports.ids.bytes(32)),
        environments=ports.environments,
    )


def _build_async_queue(
    ports: LambdaPorts, functions: FunctionStore, dispatcher: Dispatcher, permits: Permits
) -> AsyncQueue:
    """Return the queue of asynchronous events, with those that wait and the destinations of their results."""
    waiting = WaitingEvents(
        clock=ports.clock,
        ids=ports.ids,
        database=ports.database,
        functions=functions,
        count=dispatcher.count,
        account=ports.config.account_id,
        region=ports.config.region,
    )
    destinations = Destinations(
        ports.queues,
        ports.topics,
        invoke=waiting.invoke_later,
        buses=ports.buses,
        objects=ports.objects,
    )
    return AsyncQueue(
        clock=ports.clock,
        ids=ports.ids,
        waiting=waiting,
        functions=functions,
        dispatcher=dispatcher,
        destinations=destinations,
        permits=permits,
    )


def _build_mappings(
    ports: LambdaPorts,
    functions: FunctionStore,
    invoker: Invoker,
    destinations: Destinations,
    permits: Permits,
) -> Mappings:
    pollers = Ports(
        clock=ports.clock,
        ids=ports.ids,
        streams=ports.streams,
        queues=ports.queues,
        invoker=invoker,
        destinations=destinations,
        metrics=ports.metrics,
        store=MappingStore(ports.database),
        trace=Trace(ports.database),
        role_of=functions.role_of,
        permits=permits,
    )
    transitions = Transitions(ports.clock, ports.config.state_delay_ms)
    return Mappings(ports=pollers, supervisor=ports.supervisor, transitions=transitions)


def lambda_api(lambda_: Lambda, *, strict: bool = False) -> ServiceApi:
    """Return the service for the gateway."""
    raw = functools.partial(answer_raw, lambda_)
    return ServiceApi(
        name="lambda",
        backend=lambda_,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        fidelity_rows=lambda _: lambda_.fidelity_remarks(),
        wording=WORDING,
        pages=[trace_page(lambda_.mappings), backlog_page(lambda_.mappings)],
        policy_of=functools.partial(policy_of, lambda_),
        may_be_quick=may_be_quick,
        raw=Strictness.of("lambda", ACTIONS, FIDELITY).guard(raw) if strict else raw,
    )


_FUNCTION: dict[str, FidelityLevel] = {
    # Every python3.* runtime is the interpreter that runs headrace, with its packages (the fidelity report names
    # functions that declare another version); every nodejs* runtime is the node on PATH. Where Linux permits walls
    # (runtime/namespaces.py), code is /var/task and layers are /opt, both read-only; each function has its own /tmp of
    # the size in EphemeralStorage; and, as on AWS, there is no /dev/shm. Elsewhere functions have the rights of
    # headrace's user (headrace logs this at its start, and the fidelity report says it), layers are on PYTHONPATH,
    # NODE_PATH, PATH and LD_LIBRARY_PATH, and LAMBDA_TASK_ROOT is the real folder. Programs under
    # /opt/extensions are not started.
    "Runtime": "stored",
    "KMSKeyArn": "stored",
    # Whether the subnets and security groups exist is not checked.
    "VpcConfig": "stored",
    "FileSystemConfigs": "stored",
    "SnapStart": "stored",
    # Functions get Sampled=1 in the trace header, but no trace is stored.
    "TracingConfig.Mode": "stored",
}
# The package is always a copy of the object's current version.
_CODE: dict[str, FidelityLevel] = {
    "S3ObjectVersion": "ignored",
    "S3ObjectStorageMode": "ignored",
    "SourceKMSKeyArn": "ignored",
}
_MAPPING: dict[str, FidelityLevel] = {
    "KMSKeyArn": "stored",
    "LoggingConfig": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateFunction": {
        **_FUNCTION,
        **{f"Code.{name}": level for name, level in _CODE.items()},
        "Architectures": "stored",
        "TenancyConfig": "ignored",
    },
    "UpdateFunctionConfiguration": _FUNCTION,
    "UpdateFunctionCode": {**_CODE, "Architectures": "stored"},
    # MasterRegion belongs to Lambda@Edge.
    "ListFunctions": {"MasterRegion": "ignored"},
    "CreateEventSourceMapping": _MAPPING,
    "UpdateEventSourceMapping": _MAPPING,
    # headrace evaluates a resource policy for callers of a function URL, and for services that act for a resource.
    # For callers of Lambda's API from the function's own account the policy does not matter.
    "AddPermission": {"PrincipalOrgID": "stored", "EventSourceToken": "stored"},
    "AddLayerVersionPermission": {"OrganizationId": "stored"},
    # No code is signed: a configuration that enforces signatures refuses all code, whatever its publishers are.
    "CreateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "UpdateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "PutFunctionRecursionConfig": {"RecursiveLoop": "stored"},
    "PutRuntimeManagementConfig": {"UpdateRuntimeOn": "stored", "RuntimeVersionArn": "stored"},
    # Unlike AWS, headrace does not slow a response stream down after its first 6 MB.
    "Invoke": {"TenantId": "ignored", "DurableExecutionName": "ignored"},
    "PublishLayerVersion": {
        "CompatibleRuntimes": "stored",
        "CompatibleArchitectures": "stored",
        "LicenseInfo": "stored",
        "Content.S3ObjectVersion": "ignored",
        "Content.S3ObjectStorageMode": "ignored",
    },
}
