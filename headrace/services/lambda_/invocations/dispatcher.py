"""Runs an invocation: finds the version, checks the concurrency limits, uses a process, writes the log and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionThrottled, InvokeResult, LogSink, Metric, MetricSink
from headrace.services.lambda_.invocations.concurrency import Concurrency, Slot
from headrace.services.lambda_.invocations.pools import Pools
from headrace.services.lambda_.names import FunctionRef, parse_function
from headrace.services.lambda_.permits import EVERYTHING, Permits
from headrace.services.lambda_.runtime.channel import Invocation
from headrace.services.lambda_.runtime.outcome import AnswerSink, Outcome
from headrace.services.lambda_.state import Function, Version
from headrace.services.lambda_.store import FunctionStore

# Sends CloudWatch metrics of invocations: their number, duration, errors, throttles and concurrency.


class FunctionMetrics:
    """Sends functions' metrics. Thread-safe, as its sink is."""

    def __init__(self, clock: Clock, metrics: MetricSink) -> None:
        self._clock = clock
        self._metrics = metrics

    def send(self, function: Function, qualifier: str | None, values: Mapping[str, float]) -> None:
        """Send metrics by function and, when one was named, by version or alias."""
        now_ms = self._clock.now_ms()
        by_name = (("FunctionName", function.name),)
        dimensions: list[tuple[tuple[str, str], ...]] = [by_name]
        if qualifier is not None:
            dimensions.append((*by_name, ("Resource", f"{function.name}:{qualifier}")))
        self._metrics.put(
            [
                Metric("AWS/Lambda", name, value, _find_unit(name), dimension_set, now_ms)
                for dimension_set in dimensions
                for name, value in values.items()
            ],
            account=function.account,
            region=function.region,
        )


def invocation_metrics(outcome: Outcome, slot: Slot) -> dict[str, float]:
    """Return the metrics of an invocation that has ended."""
    values = {
        "Invocations": 1.0,
        "Errors": 1.0 if outcome.function_error else 0.0,
        "Duration": outcome.duration_ms,
        "ConcurrentExecutions": float(slot.running),
    }
    if slot.provisioned is not None:
        name = "ProvisionedConcurrency" + ("" if slot.provisioned else "Spillover")
        values[f"{name}Invocations"] = 1.0
    return values


def _find_unit(name: str) -> str:
    return "Milliseconds" if name in ("Duration", "AsyncEventAge") else "Count"


@dataclass(frozen=True, slots=True)
class Target:
    """The function and the version that an invocation runs.

    Attributes:
        arn: the ARN that the caller named, with the qualifier if it has one.
        number: the number of the version.
    """

    function: Function
    version: Version
    qualifier: str | None
    arn: str
    number: str


class Dispatcher:
    """Invokes functions synchronously on the caller's thread. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        functions: FunctionStore,
        pools: Pools,
        logs: LogSink,
        permits: Permits = EVERYTHING,
        metrics: MetricSink,
    ) -> None:
        self._ids = ids
        self._functions = functions
        self._pools = pools
        self._logs = logs
        self._permits = permits
        self._metrics = FunctionMetrics(clock, metrics)
        self.concurrency = Concurrency(functions)

    def find(self, ref: FunctionRef) -> Target:
        """Return the version that an invocation of `ref` runs; an alias draws by weight. Raises FunctionNotFound."""
        function = self._functions.get(ref)
        draw = self._ids.random() if function.aliases else 1
        version = function.resolve(ref.qualifier, draw=draw)
        number = version.number
        return Target(function, version, ref.qualifier, ref.qualified_arn, number)

    def invoke(
        self,
        ref: FunctionRef | Target,
        payload: bytes,
        *,
        client_context: str = "",
        request_id: str = "",
        trace_id: str = "",
        on_start: Callable[[str], None] | None = None,
        sink: AnswerSink | None = None,
    ) -> InvokeResult:
        """Invoke a function and wait for its result.

        Args:
            ref: the function, with a version or alias if any, or the result of `find`.
            payload: the event, as JSON.
            client_context: the client context, as JSON on one line.
            request_id: the request id; "" makes a new one.
            trace_id: the caller's X-Ray header.
            on_start: called with the version's number when all checks have passed and the function runs.
            sink: called with each part of a streamed response.

        Raises FunctionNotFound, FunctionThrottled.
        """
        target = ref if isinstance(ref, Target) else self.find(ref)
        function, version = target.function, target.version
        request_id = request_id or self._ids.uuid()
        trace = trace_id or self._build_trace_header(version)
        invocation = Invocation(request_id, target.arn, payload, trace, client_context)
        try:
            with self.concurrency.hold(function, target.qualifier, version) as slot:
                if on_start is not None:
                    on_start(target.number)
                outcome, lent = self._pools.invoke(function, version, invocation, sink)
                if self._permits.may_log(function, lent.spec, lent.log_stream):
                    self._logs.put(
                        lent.spec.log_group,
                        lent.log_stream,
                        outcome.lines,
                        account=function.account,
                        region=function.region,
                    )
        except FunctionThrottled:
            self._metrics.send(function, target.qualifier, {"Throttles": 1.0})
            raise
        self._metrics.send(function, target.qualifier, invocation_metrics(outcome, slot))
        return InvokeResult(
            payload=outcome.payload,
            function_error=outcome.function_error,
            executed_version=target.number,
            request_id=request_id,
            log_tail=outcome.tail,
        )

    def _build_trace_header(self, version: Version) -> str:
        """Return a new X-Ray header, which is sampled if the version's tracing is active."""
        trace = self._ids.hex(40)
        sampled = int(version.config["TracingConfig"].get("Mode") == "Active")
        return f"Root=1-{trace[:8]}-{trace[8:32]};Parent={trace[24:]};Sampled={sampled}"

    def count(self, ref: FunctionRef, values: dict[str, Any]) -> None:
        """Send metrics of a function; `values` is by metric name."""
        function = self._functions.find(ref)
        if function is not None:
            self._metrics.send(function, None, values)


class Invoker:
    """Invokes functions by ARN; implements `headrace.core.ports.FunctionInvoker`. Thread-safe."""

    def __init__(self, dispatcher: Dispatcher, *, account: str, region: str) -> None:
        """Take the default account and region for function names that have none."""
        self._dispatcher = dispatcher
        self._account = account
        self._region = region

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """See `FunctionInvoker.invoke`."""
        ref = parse_function(function_arn, account=self._account, region=self._region)
        return self._dispatcher.invoke(ref, payload)
