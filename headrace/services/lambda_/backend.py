"""Lambda: starts and stops its parts, and invokes functions for other services."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.aws.gateway.browser_rules import Endpoints
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionInvoker, InvokeResult, PrincipalCheck, accept_principal
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.lambda_.async_queue import AsyncQueue
from headrace.services.lambda_.errors import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.invocations.dispatcher import Dispatcher
from headrace.services.lambda_.invocations.pools import Pools
from headrace.services.lambda_.layers import LayerStore
from headrace.services.lambda_.mappings.mappings import Mappings
from headrace.services.lambda_.names import parse_function
from headrace.services.lambda_.packages import CodeStore
from headrace.services.lambda_.permits import (
    EVERYTHING,
    INVOKE,
    Caller,
    CodeSigning,
    Permits,
    allows,
)
from headrace.services.lambda_.runtime.namespaces import NO_WALLS
from headrace.services.lambda_.state import FunctionStore
from headrace.services.lambda_.url_calls import (
    FunctionUrlRules,
    FunctionUrls,
    has_own_host,
    is_function_url,
)

log = logging.getLogger(__name__)

TIDY_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of Lambda, which `build_lambda` makes."""

    functions: FunctionStore
    layers: LayerStore
    signing: CodeSigning
    code: CodeStore
    pools: Pools
    dispatcher: Dispatcher
    events: AsyncQueue
    invoker: FunctionInvoker
    mappings: Mappings
    urls: FunctionUrls
    permits: Permits = EVERYTHING


class Lambda:
    """Functions and event source mappings of one cloud. Thread-safe once started.

    Functions, versions, layers, queued asynchronous events, mappings and their checkpoints survive a restart;
    processes, retry counts and LastProcessingResult do not.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        clock: Clock,
        ids: Ids,
        supervisor: Supervisor,
        account: str,
        region: str,
        endpoint_url: Callable[[], str],
        temp_dir: Path,
        has_principal: PrincipalCheck = accept_principal,
    ) -> None:
        """Take the parts; `account` and `region` are the defaults for function names that have none."""
        self.clock = clock
        self.ids = ids
        self.endpoint_url = endpoint_url
        self.has_principal = has_principal
        self._supervisor = supervisor
        self._account = account
        self._region = region
        self._temp_dir = temp_dir
        self.functions = parts.functions
        self.layers = parts.layers
        self.signing = parts.signing
        self.code = parts.code
        self.pools = parts.pools
        self.dispatcher = parts.dispatcher
        self.events = parts.events
        self.destinations = parts.events.destinations
        self.waiting = parts.events.waiting
        self.invoker = parts.invoker
        self.mappings = parts.mappings
        self._urls = parts.urls
        self.permits = parts.permits
        self._pools_worker: WorkerHandle | None = None

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> None:
        """Load the state from disk and start the workers."""
        self.functions.load()
        self.code.prune(self.functions.digests() | self.layers.digests())
        # Remove files that processes of a killed cloud have left.
        shutil.rmtree(self._temp_dir, ignore_errors=True)
        self._pools_worker = self._supervisor.start(self.pools)
        self._supervisor.start(_PackageSweeper(self))
        self.pools.bytecode.handle = self._supervisor.start(self.pools.bytecode)
        self.events.start(self._supervisor)
        self.mappings.start()

    def tidy(self, *, older_than_s: float) -> None:
        """Remove the packages that no function, layer or process has used for `older_than_s`."""
        used = self.functions.digests() | self.layers.digests()
        self.code.prune(used, self.pools.folders_in_use(), older_than_s=older_than_s)

    def wake_pools(self) -> None:
        """Let the pools' worker run now: it starts provisioned processes and finds out whether walls are possible."""
        if self._pools_worker is not None:
            self._pools_worker.wake()

    def stop(self) -> None:
        """Stop polling, then kill every function process."""
        self.prepare_stop()
        self.pools.stop()
        self.events.join()
        self.mappings.join()

    def prepare_stop(self) -> None:
        """Start no more background invocations, and treat failures from now on as caused by the stop.

        Call this before the cloud stops listening: functions that can no longer reach it fail.
        """
        self.mappings.stop()
        self.events.stop()

    # --- invocations for other services -------------------------------------------------------

    def service_may_invoke(
        self, function_arn: str, service: str, *, source_arn: str, source_account: str
    ) -> bool:
        """Whether a function's policy lets a service invoke it for one of the service's resources.

        Args:
            function_arn: the ARN of the function, a version or an alias.
            service: the service, such as `s3.amazonaws.com`.
            source_arn: the resource's ARN.
            source_account: the resource's account.
        """
        ref = parse_function(function_arn, account=self._account, region=self._region)
        function = self.functions.find(ref)
        caller = Caller.of_service(service, source_arn=source_arn, source_account=source_account)
        return function is not None and allows(function, ref.qualifier, INVOKE, caller)

    def invoke_for_service(
        self, function_arn: str, payload: bytes, *, service: str, source_arn: str
    ) -> bool:
        """Queue an invocation for a service's resource, if the function's policy allows it; return whether it did.

        It logs failures, because most services have no caller to report them to.
        """
        account = source_arn.split(":")[4]
        may = self.service_may_invoke(
            function_arn, service, source_arn=source_arn, source_account=account
        )
        if not may:
            log.warning("%s may not invoke %s for %s", service, function_arn, source_arn)
            return False
        try:
            self.invoke_later(function_arn, payload)
        except LookupError:
            log.warning(
                "%s cannot invoke %s: the function does not exist", source_arn, function_arn
            )
            return False
        return True

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """Invoke a function and wait for its result. Raises FunctionNotFound, FunctionThrottled."""
        return self.invoker.invoke(function_arn, payload)

    def invoke_later(self, function_arn: str, payload: bytes) -> str:
        """Queue an invocation; return its request id. Raises LookupError when the function does not exist."""
        return self.waiting.invoke_later(function_arn, payload)

    # --- function URLs ------------------------------------------------------------------------

    def url_endpoints(self) -> Endpoints:
        """Return the functions' URLs with their CORS rules, for the entrance and the front door."""
        rules = FunctionUrlRules(is_function_url, has_own_host, self._urls.cors_of)
        return Endpoints(is_function_url, self._urls.answer, rules, "lambda", SYNC_PAYLOAD_BYTES)

    # --- fidelity -----------------------------------------------------------------------------

    def fidelity_remarks(self) -> list[dict[str, str]]:
        """Return the rows of the fidelity report that apply to all functions on this machine."""
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


class _PackageSweeper:
    """A worker that removes packages that no function and no process uses any more."""

    name = "lambda-tidying"

    def __init__(self, lambda_: Lambda) -> None:
        self._lambda = lambda_

    def step(self) -> float:
        """See `Worker.step`."""
        self._lambda.tidy(older_than_s=TIDY_SECONDS)
        return TIDY_SECONDS
