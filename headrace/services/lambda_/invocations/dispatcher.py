"""Runs an invocation: finds the version, lets its pool run it, writes the log and metrics.

Response streaming: an invocation whose caller reads the response while the function still writes it.

Checks what an invocation sends: its payload and its client context.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import queue
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.aws.protocols.jackson import explain
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    CallerIdentity,
    FunctionThrottled,
    InvokeResult,
    LogSink,
    Metric,
    MetricSink,
)
from headrace.services.lambda_.errors import (
    ASYNC_PAYLOAD_BYTES,
    SYNC_PAYLOAD_BYTES,
    invalid_request_content,
    too_large,
)
from headrace.services.lambda_.invocations.pools import Pools, Run, Slot
from headrace.services.lambda_.names import FunctionRef, parse_function
from headrace.services.lambda_.permits import EVERYTHING, Permits
from headrace.services.lambda_.runtime.messages import Invocation
from headrace.services.lambda_.runtime.platform_log import AnswerSink, Outcome
from headrace.services.lambda_.runtime.steps import Steps
from headrace.services.lambda_.state import Function, FunctionStore, Target, Version

# While this many bytes wait for the reader, the function waits. A reader that takes nothing for this long is gone.
MOST_WAITING_BYTES = 4 * 1024 * 1024
STALLED_S = 30.0


class ReaderGone(Exception):
    """The caller has read nothing for too long; the end of the response is lost."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the response. `content_type` is that of the whole response, or "" when the function set none."""

    content_type: str
    data: bytes


class AnswerStream:
    """Invokes a function on a thread of its own and yields its response.

    As on AWS, the function runs to its end even when nobody reads the response any more.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        ref: FunctionRef,
        payload: bytes,
        *,
        client_context: str = "",
        request_id: str = "",
        trace_id: str = "",
    ) -> None:
        self._dispatcher = dispatcher
        self._ref = ref
        self._payload = payload
        self._client_context = client_context
        self._request_id = request_id
        self._trace_id = trace_id
        self._results: queue.SimpleQueue[str | Part | InvokeResult | Exception] = (
            queue.SimpleQueue()
        )
        self._streamed = False
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._is_abandoned = False

    def start(self) -> str:
        """Start the invocation, and return the number of the version that runs.

        Raises FunctionNotFound, FunctionThrottled.
        """
        threading.Thread(target=self._run, name="lambda-stream", daemon=True).start()
        result = self._results.get()
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, str)
        return result

    def items(self) -> Generator[Part | InvokeResult]:
        """Yield the parts of the response as they come, then the result. Raises ReaderGone.

        A response that is not streamed is one part.
        """
        try:
            yield from self._iterate_items()
        finally:
            self._abandon()

    def _iterate_items(self) -> Generator[Part | InvokeResult]:
        while True:
            result = self._results.get()
            if isinstance(result, Exception):
                raise result
            if isinstance(result, InvokeResult):
                if result.function_error is None and not self._streamed:
                    yield Part("", result.payload)
                yield result
                return
            assert isinstance(result, Part)
            with self._room:
                self._waiting_bytes -= len(result.data)
                self._room.notify()
            yield result

    def _run(self) -> None:
        try:
            result = self._dispatcher.invoke(
                self._ref,
                self._payload,
                client_context=self._client_context,
                request_id=self._request_id,
                trace_id=self._trace_id,
                on_start=self._results.put,
                sink=self._take,
            )
        except Exception as error:  # noqa: BLE001 - `start` or `items` raises it
            self._results.put(error)
        else:
            self._results.put(result)

    def _take(self, content_type: str, data: bytes) -> None:
        """Queue a part for the reader once few enough bytes wait. Drop the part if nobody reads any more."""
        self._streamed = True
        with self._room:
            there_is_room = self._room.wait_for(
                lambda: self._is_abandoned or self._waiting_bytes < MOST_WAITING_BYTES, STALLED_S
            )
            if self._is_abandoned:
                return
            self._waiting_bytes += len(data)
        if there_is_room:
            self._results.put(Part(content_type, data))
        else:
            self._abandon()
            self._results.put(ReaderGone())

    def _abandon(self) -> None:
        with self._room:
            self._is_abandoned = True
            self._room.notify()


# Sends CloudWatch metrics of invocations: their number, duration, errors, throttles and concurrency.


class FunctionMetrics:
    """Sends functions' metrics. Thread-safe, as its sink is."""

    def __init__(self, clock: Clock, sink: MetricSink) -> None:
        self._clock = clock
        self.sink = sink

    def send(self, function: Function, qualifier: str | None, values: Mapping[str, float]) -> None:
        """Send metrics by function and, when one was named, by version or alias."""
        metrics = self.build(function, qualifier, values)
        self.sink.put(metrics, account=function.account, region=function.region)

    def build(
        self, function: Function, qualifier: str | None, values: Mapping[str, float]
    ) -> list[Metric]:
        """Return what `send` sends."""
        now_ms = self._clock.now_ms()
        by_name = (("FunctionName", function.name),)
        dimensions: list[tuple[tuple[str, str], ...]] = [by_name]
        if qualifier is not None:
            dimensions.append((*by_name, ("Resource", f"{function.name}:{qualifier}")))
        return [
            Metric("AWS/Lambda", name, value, _UNITS.get(name, "Count"), dimension_set, now_ms)
            for dimension_set in dimensions
            for name, value in values.items()
        ]


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


# Of the metrics that are no counts.
_UNITS = {"Duration": "Milliseconds", "AsyncEventAge": "Milliseconds"}


@functools.lru_cache(maxsize=1000)
def _identity_of(role: str, function_name: str) -> CallerIdentity:
    """Return the identity of a function's process; for the same names the same object, which is quickly compared."""
    return CallerIdentity(role, function_name)


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
        start = ids.hex(24)
        self._trace_root, self._trace_parent = f"Root=1-{start[:8]}-{start[8:16]}", start[16:]
        self._traces = itertools.count(1)

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
        invocation = self._build(target, payload, client_context, request_id, trace_id)
        try:
            run = self._pools.invoke(target, invocation, sink=sink, on_start=on_start)
        except FunctionThrottled:
            self._count_throttle(target)
            raise
        return self._end(target, invocation.request_id, run)

    def steps(
        self,
        target: Target,
        payload: bytes,
        *,
        client_context: str = "",
        request_id: str = "",
        trace_id: str = "",
    ) -> Steps[InvokeResult]:
        """Invoke a function as `invoke` does, in steps; the first raises NeedsThread when no process is idle."""
        invocation = self._build(target, payload, client_context, request_id, trace_id)
        return self._steps(target, invocation)

    def _steps(self, target: Target, invocation: Invocation) -> Steps[InvokeResult]:
        try:
            run = yield from self._pools.steps(target, invocation)
        except FunctionThrottled:
            self._count_throttle(target)
            raise
        return self._end(target, invocation.request_id, run)

    def _build(
        self, target: Target, payload: bytes, client_context: str, request_id: str, trace_id: str
    ) -> Invocation:
        trace = trace_id or self.build_trace_header(target.version)
        request_id = request_id or self._ids.uuid()
        return Invocation(request_id, target.arn, payload, trace, client_context)

    def _count_throttle(self, target: Target) -> None:
        self._metrics.send(target.function, target.qualifier, {"Throttles": 1.0})

    def _end(self, target: Target, request_id: str, run: Run) -> InvokeResult:
        """Send the log lines and the metrics of an invocation, and return its result."""
        function, outcome, spec = target.function, run.outcome, run.environment.spec
        values = invocation_metrics(outcome, run.slot)
        metrics = self._metrics.build(function, target.qualifier, values)
        acting, log_stream = _identity_of(spec.role, spec.name), run.environment.log_stream
        if self._permits.may_log(function, acting, spec.log_group, log_stream):
            self._logs.put(
                spec.log_group,
                log_stream,
                outcome.lines,
                account=function.account,
                region=function.region,
                acting=acting if spec.role else None,
            )
        self._metrics.sink.put(metrics, account=function.account, region=function.region)
        return InvokeResult(
            payload=outcome.payload,
            function_error=outcome.function_error,
            executed_version=target.number,
            request_id=request_id,
            log_tail=outcome.tail,
        )

    def build_trace_header(self, version: Version) -> str:
        """Return a new X-Ray header, which is sampled if the version's tracing is active."""
        # Unique, not unguessable: a random start and a counter, as of request ids. To read random bytes lets another
        # thread take the interpreter.
        count = next(self._traces)
        parent = f"{self._trace_parent}{count:08x}"[-16:]
        sampled = int(version.config["TracingConfig"].get("Mode") == "Active")
        return f"{self._trace_root}{count:016x};Parent={parent};Sampled={sampled}"

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


def check_payload(payload: bytes, invocation_type: str, client_context: str) -> tuple[bytes, str]:
    """Return the event and the client context in the Runtime API's form. Raises AwsError."""
    if len(payload) > most_bytes(invocation_type):
        raise too_large(len(payload), most_bytes(invocation_type), invocation_type)
    payload = payload or b"{}"
    _check_json(payload)
    return payload, _decode_client_context(client_context)


def most_bytes(invocation_type: str) -> int:
    """Return how large the payload of an invocation may be."""
    return ASYNC_PAYLOAD_BYTES if invocation_type == "Event" else SYNC_PAYLOAD_BYTES


def _check_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"Could not parse payload into json: {explain(payload, str(error))}"
        raise invalid_request_content(f"Could not parse request body into json: {why}") from error


def _decode_client_context(encoded: str) -> str:
    """Return the client context as the Runtime API's header wants it: JSON on one line."""
    if not encoded:
        return ""
    try:
        decoded = msgspec.json.decode(base64.b64decode(encoded, validate=True))
    except ValueError as error:
        raise invalid_request_content(
            "Client context must be a valid Base64-encoded JSON object."
        ) from error
    # ASCII only, as header values are.
    return json.dumps(decoded, separators=(",", ":"))
