"""The Lambda service: builds its parts, starts and stops them."""

from __future__ import annotations

import functools
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.service import ServiceApi
from headrace.aws.sessions import RoleSessions
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.ports import (
    EventBusSender,
    FunctionInvoker,
    FunctionNotFound,
    InvokeResult,
    LogSink,
    MessageQueues,
    MetricSink,
    ObjectStore,
    StreamReader,
    TopicPublisher,
)
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.lambda_.actions import ACTIONS
from headrace.services.lambda_.async_queue import AsyncQueue
from headrace.services.lambda_.code import CodeStore
from headrace.services.lambda_.destinations import Destinations
from headrace.services.lambda_.dispatcher import Dispatcher
from headrace.services.lambda_.errors import translate
from headrace.services.lambda_.event_source.mapping import MappingStore
from headrace.services.lambda_.event_source.mappings import Mappings
from headrace.services.lambda_.event_source.needs import PollerPorts
from headrace.services.lambda_.event_source.trace import Trace
from headrace.services.lambda_.fidelity import FIDELITY
from headrace.services.lambda_.functions import FunctionStore
from headrace.services.lambda_.invocation import answer_raw
from headrace.services.lambda_.layers import LayerStore
from headrace.services.lambda_.names import parse_function
from headrace.services.lambda_.policy import INVOKE, Caller, allows
from headrace.services.lambda_.pools import Pools
from headrace.services.lambda_.profile import PROFILE
from headrace.services.lambda_.runtime.walls import NO_WALLS
from headrace.services.lambda_.trace_page import trace_page
from headrace.services.lambda_.url import answer_url, cors_of, has_own_host, is_function_url
from headrace.services.lambda_.url_cors import FunctionUrlRules
from headrace.store.database import Database

log = logging.getLogger(__name__)

TIDY_SECONDS = 600.0


class Lambda:
    """Functions and event-source mappings of one cloud. Thread-safe once started.

    Functions, versions, layers, queued asynchronous events, mappings and their checkpoints last; processes,
    retry counts and LastProcessingResult do not.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        database: Database,
        supervisor: Supervisor,
        config: Config,
        objects: ObjectStore,
        streams: StreamReader,
        queues: MessageQueues,
        topics: TopicPublisher,
        logs: LogSink,
        metrics: MetricSink,
        buses: EventBusSender | None = None,
        endpoint_url: Callable[[], str] | None = None,
        sessions: RoleSessions | None = None,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.endpoint_url = endpoint_url or (lambda: config.endpoint_url)
        self._supervisor = supervisor
        self._temp_dir = data_dir / "lambda" / "tmp"
        self._config = config
        self.functions = FunctionStore(database)
        self.layers = LayerStore(database)
        self.code = CodeStore(data_dir, objects, ids, clock)
        self.pools = Pools(
            data_dir=data_dir,
            clock=clock,
            ids=ids,
            functions=self.functions,
            code=self.code,
            endpoint_url=self.endpoint_url,
            folders=config.function_folders,
            # Alone, as in tests, it is nobody who has to know them again.
            sessions=sessions or RoleSessions(ids.bytes(32)),
        )
        self._pools_worker: WorkerHandle | None = None
        self.dispatcher = Dispatcher(
            clock=clock,
            ids=ids,
            functions=self.functions,
            pools=self.pools,
            logs=logs,
            metrics=metrics,
        )
        self.destinations = Destinations(
            queues, topics, buses=buses, objects=objects, invoke=self._invoke_later
        )
        self.events = self._new_queue(database)
        self.invoker: FunctionInvoker = Invoker(self.dispatcher, config)
        self.mappings = self._new_mappings(database, streams, queues, metrics)

    def _new_queue(self, database: Database) -> AsyncQueue:
        return AsyncQueue(
            clock=self.clock,
            ids=self.ids,
            database=database,
            functions=self.functions,
            dispatcher=self.dispatcher,
            destinations=self.destinations,
        )

    def _new_mappings(
        self,
        database: Database,
        streams: StreamReader,
        queues: MessageQueues,
        metrics: MetricSink,
    ) -> Mappings:
        return Mappings(
            ports=PollerPorts(
                clock=self.clock,
                ids=self.ids,
                streams=streams,
                queues=queues,
                invoker=self.invoker,
                destinations=self.destinations,
                metrics=metrics,
                store=MappingStore(database),
                trace=Trace(database),
                role_of=self._role_of,
            ),
            supervisor=self._supervisor,
        )

    def _invoke_later(self, function_arn: str, payload: bytes) -> str:
        """Queue an invocation; return its request id. Raises LookupError when there is no function."""
        config = self._config
        ref = parse_function(function_arn, account=config.account_id, region=config.region)
        request_id = self.ids.uuid()
        try:
            self.events.add(ref, payload, client_context="", request_id=request_id)
        except FunctionNotFound as missing:
            raise LookupError(function_arn) from missing
        return request_id

    def _role_of(self, function_arn: str) -> str:
        config = self._config
        ref = parse_function(function_arn, account=config.account_id, region=config.region)
        function = self.functions.find(ref)
        return "" if function is None else str(function.latest.config.get("Role", ""))

    def start(self) -> None:
        """Recover state from disk and start the workers."""
        self.functions.load()
        self.code.prune(self.functions.digests() | self.layers.digests())
        # Left by processes of a cloud that was killed.
        shutil.rmtree(self._temp_dir, ignore_errors=True)
        self._pools_worker = self._supervisor.start(self.pools)
        self._supervisor.start(_Tidying(self))
        self.pools.bytecode.handle = self._supervisor.start(self.pools.bytecode)
        self.events.start(self._supervisor)
        self.mappings.start()

    def service_may_invoke(
        self, function_arn: str, service: str, *, source_arn: str, source_account: str
    ) -> bool:
        """Whether a function's policy lets a service invoke it for one of the service's resources.

        Args:
            function_arn: of the function, a version or an alias.
            service: such as `s3.amazonaws.com`.
            source_arn: the resource's ARN.
            source_account: the resource's account.
        """
        ref = parse_function(
            function_arn, account=self._config.account_id, region=self._config.region
        )
        function = self.functions.find(ref)
        caller = Caller.of_service(service, source_arn=source_arn, source_account=source_account)
        return function is not None and allows(function, ref.qualifier, INVOKE, caller)

    def invoke_for_service(
        self, function_arn: str, payload: bytes, *, service: str, source_arn: str
    ) -> None:
        """Queue an invocation for a service that acts for a resource, if the function's policy lets it.

        Never raises: what cannot be delivered is logged, as the service has nobody to tell.
        """
        account = source_arn.split(":")[4]
        may = self.service_may_invoke(
            function_arn, service, source_arn=source_arn, source_account=account
        )
        if not may:
            log.warning("%s may not invoke %s for %s", service, function_arn, source_arn)
            return
        try:
            self._invoke_later(function_arn, payload)
        except LookupError:
            log.warning("%s has no function %s to invoke", source_arn, function_arn)

    # Asked of every request.
    is_function_url = staticmethod(is_function_url)

    def answer_url(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to a function's own address."""
        return answer_url(self, request)

    def tidy(self, *, older_than_s: float) -> None:
        """Remove the packages that nobody has had for a while."""
        used = self.functions.digests() | self.layers.digests()
        self.code.prune(used, self.pools.folders_in_use(), older_than_s=older_than_s)

    def fidelity_remarks(self) -> list[dict[str, str]]:
        """Return rows of the fidelity report that hold for all functions on this machine."""
        if not self.pools.lack_walls:
            return []
        name = "AWS::Lambda::Function"
        return [
            {
                "stack": "",
                "resource": "*",
                "type": name,
                "property": "Code",
                "level": "remark",
                "remark": f"{NO_WALLS}.",
            }
        ]

    def url_rules(self) -> FunctionUrlRules:
        """Return the cross-origin rules of functions' own addresses."""
        return FunctionUrlRules(is_function_url, has_own_host, functools.partial(cors_of, self))

    def wake_pools(self) -> None:
        """Have provisioned concurrency and walls looked after now."""
        if self._pools_worker is not None:
            self._pools_worker.wake()

    def stop(self) -> None:
        """Stop polling, then kill every function process."""
        self.prepare_stop()
        self.pools.stop()
        self.events.join()
        self.mappings.join()

    def prepare_stop(self) -> None:
        """Begin no more background invocations, and take failures from now on for the stop's doing.

        To be called before the cloud stops listening: functions that can no longer reach it fail.
        """
        self.mappings.stop()
        self.events.stop()


class _Tidying:
    """A worker that removes packages which no function has any more, nor any process."""

    name = "lambda-tidying"

    def __init__(self, lambda_: Lambda) -> None:
        self._lambda = lambda_

    def step(self) -> float:
        """See `Worker.step`."""
        self._lambda.tidy(older_than_s=TIDY_SECONDS)
        return TIDY_SECONDS


class Invoker:
    """Implements `headrace.core.ports.FunctionInvoker`. Thread-safe."""

    def __init__(self, dispatcher: Dispatcher, config: Config) -> None:
        self._dispatcher = dispatcher
        self._config = config

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """See `FunctionInvoker.invoke`."""
        ref = parse_function(
            function_arn, account=self._config.account_id, region=self._config.region
        )
        return self._dispatcher.invoke(ref, payload)


def lambda_api(lambda_: Lambda) -> ServiceApi:
    """Return what the gateway serves."""
    return ServiceApi(
        name="lambda",
        backend=lambda_,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        fidelity_rows=lambda _: lambda_.fidelity_remarks(),
        pages=[trace_page(lambda_.mappings)],
        raw=functools.partial(answer_raw, lambda_),
    )
