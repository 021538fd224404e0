"""Runs invocations: finds the version, holds the concurrency limits, lends a process, logs and measures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionThrottled, InvokeResult, LogSink, Metric, MetricSink
from headrace.services.lambda_.code import CodeStore
from headrace.services.lambda_.functions import Function, FunctionStore, Version
from headrace.services.lambda_.limits import (
    ACCOUNT_CONCURRENCY,
    SANDBOX_IDLE_SECONDS,
    SANDBOXES_PER_FUNCTION,
)
from headrace.services.lambda_.names import FunctionRef
from headrace.services.lambda_.runtime.channel import Invocation
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.services.lambda_.runtime.guard import Guard
from headrace.services.lambda_.runtime.pool import SandboxPool
from headrace.services.lambda_.runtime.sandbox import Outcome, Sandbox

_EXPIRE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class _Entry:
    revision_id: str
    pool: SandboxPool


class Dispatcher:
    """Invokes functions synchronously on the caller's thread. Thread-safe."""

    name = "lambda-pools"

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        functions: FunctionStore,
        code: CodeStore,
        logs: LogSink,
        metrics: MetricSink,
        endpoint_url: Callable[[], str],
    ) -> None:
        self._root = data_dir / "lambda" / "tmp"
        self._clock = clock
        self._ids = ids
        self._functions = functions
        self._code = code
        self._logs = logs
        self._metrics = metrics
        self._endpoint_url = endpoint_url
        self._guard = Guard()
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._running: Counter[str] = Counter()
        self._stopped = False

    # --- invoking -----------------------------------------------------------------------------

    def invoke(
        self, ref: FunctionRef, payload: bytes, *, client_context: str = "", request_id: str = ""
    ) -> InvokeResult:
        """Run a function and wait for its answer.

        Raises FunctionNotFound, FunctionThrottled.
        """
        function = self._functions.get(ref)
        version = function.resolve(
            ref.qualifier, draw=self._ids.random() if function.aliases else 1
        )
        request_id = request_id or self._ids.uuid()

        def make(deadline_ms: int) -> Invocation:
            trace = self._ids.hex(32)
            return Invocation(
                request_id,
                ref.qualified_arn,
                deadline_ms,
                payload,
                f"Root=1-{trace[:8]}-{trace[8:]};Parent={trace[:16]};Sampled=0",
                client_context,
            )

        try:
            with self._slot(function):
                outcome = self._run(function, version, make, request_id)
        except FunctionThrottled:
            self._count(function, {"Throttles": 1.0})
            raise
        self._count(
            function,
            {
                "Invocations": 1.0,
                "Errors": 1.0 if outcome.function_error else 0.0,
                "Duration": outcome.duration_ms,
            },
        )
        return InvokeResult(
            payload=outcome.payload,
            function_error=outcome.function_error,
            executed_version=version.number,
            request_id=request_id,
            log_tail=outcome.tail,
        )

    def _run(
        self,
        function: Function,
        version: Version,
        make: Callable[[int], Invocation],
        request_id: str,
    ) -> Outcome:
        pool = self._pool(function, version)
        sandbox = pool.acquire()
        try:
            outcome = sandbox.invoke(make, request_id)
        finally:
            pool.release(sandbox)
        self._logs.put(
            sandbox.spec.log_group,
            sandbox.log_stream,
            outcome.lines,
            account=function.account,
            region=function.region,
        )
        return outcome

    @contextmanager
    def _slot(self, function: Function) -> Generator[None]:
        """Hold one of the function's concurrent invocations. Raises FunctionThrottled."""
        key = function.ref.key
        limit = function.reserved_concurrency
        with self._lock:
            if self._running[key] >= (ACCOUNT_CONCURRENCY if limit is None else limit):
                raise FunctionThrottled(function.ref.arn)
            self._running[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[key] -= 1

    def _count(self, function: Function, values: dict[str, float]) -> None:
        now_ms = self._clock.now_ms()
        dimensions = (("FunctionName", function.name),)
        self._metrics.put(
            [
                Metric(
                    "AWS/Lambda",
                    name,
                    value,
                    "Milliseconds" if name == "Duration" else "Count",
                    dimensions,
                    now_ms,
                )
                for name, value in values.items()
            ],
            account=function.account,
            region=function.region,
        )

    # --- pools --------------------------------------------------------------------------------

    def _pool(self, function: Function, version: Version) -> SandboxPool:
        """Return the version's pool; one that was made from an older configuration is drained."""
        key = (function.ref.key, version.number)
        revision_id = str(version.config["RevisionId"])
        entry = self._entries.get(key)
        if entry is not None and entry.revision_id == revision_id:
            return entry.pool
        with self._lock:
            if self._stopped:
                raise FunctionThrottled(function.ref.arn)
            entry = self._entries.get(key)
            if entry is None or entry.revision_id != revision_id:
                if entry is not None:
                    entry.pool.drain()
                entry = _Entry(revision_id, self._new_pool(function, version))
                self._entries[key] = entry
            return entry.pool

    def _new_pool(self, function: Function, version: Version) -> SandboxPool:
        spec = self._spec(function, version)

        def make() -> Sandbox:
            return Sandbox(
                spec, root=self._root, clock=self._clock, ids=self._ids, guard=self._guard
            )

        return SandboxPool(make, most=SANDBOXES_PER_FUNCTION, clock=self._clock)

    def _spec(self, function: Function, version: Version) -> SandboxSpec:
        config = version.config
        variables: dict[str, str] = config.get("Environment", {}).get("Variables", {})
        logging_config: dict[str, Any] = config["LoggingConfig"]
        return SandboxSpec(
            account=function.account,
            region=function.region,
            name=function.name,
            version=version.number,
            runtime=str(config["Runtime"]),
            handler=str(config.get("Handler", "")),
            code_dir=self._code.directory(version.digest),
            layer_dirs=tuple(self._code.directory(digest) for digest in version.layers),
            environment=tuple(variables.items()),
            timeout_s=float(config["Timeout"]),
            memory_mib=int(config["MemorySize"]),
            log_group=str(logging_config["LogGroup"]),
            log_format=str(logging_config["LogFormat"]),
            endpoint_url=self._endpoint_url(),
        )

    def drain(self, ref: FunctionRef, number: str | None = None) -> None:
        """Retire the processes of a version, or of all: each ends after what it is running."""
        with self._lock:
            keys = [key for key in self._entries if key[0] == ref.key and number in (None, key[1])]
            entries = [self._entries.pop(key) for key in keys]
        for entry in entries:
            entry.pool.drain()

    def step(self) -> float:
        """Close processes that have been idle for long."""
        with self._lock:
            entries = list(self._entries.values())
        for entry in entries:
            entry.pool.expire(SANDBOX_IDLE_SECONDS)
        return _EXPIRE_EVERY_S

    def stop(self) -> None:
        """Kill every process; running invocations fail."""
        with self._lock:
            self._stopped = True
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            entry.pool.kill()
        self._guard.close()
