"""Asynchronous invocations: queued in the state database, run on threads, retried, given up.

An event is durable before its invocation is answered with 202, and is forgotten when the function has
succeeded or the last retry has failed; a restart goes on with what is left (at least once, as on AWS).
"""

from __future__ import annotations

import base64
import heapq
import json
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.lambda_.destinations import Destinations
from headrace.services.lambda_.dispatcher import Dispatcher
from headrace.services.lambda_.functions import FunctionStore
from headrace.services.lambda_.limits import (
    ASYNC_MAXIMUM_AGE_SECONDS,
    ASYNC_RETRIES,
    ASYNC_RETRY_DELAYS_SECONDS,
)
from headrace.services.lambda_.members import section
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.store.database import Database

log = logging.getLogger(__name__)

_THREADS = 16
_THROTTLE_FIRST_S = 1.0
_THROTTLE_LONGEST_S = 300.0


@dataclass(slots=True)
class _Event:
    """One queued event. `payload` is base64; times are milliseconds since 1970."""

    request_id: str
    account: str
    region: str
    name: str
    qualifier: str | None
    payload: str
    client_context: str
    created_ms: int
    failures: int = 0
    throttles: int = 0

    @property
    def ref(self) -> FunctionRef:
        return FunctionRef(self.account, self.region, self.name, self.qualifier)


class AsyncQueue:
    """The queue and the worker that runs it. Thread-safe."""

    name = "lambda-async"

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        database: Database,
        functions: FunctionStore,
        dispatcher: Dispatcher,
        destinations: Destinations,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._documents = database.documents("lambda_async")
        self._functions = functions
        self._dispatcher = dispatcher
        self._destinations = destinations
        self._lock = threading.Lock()
        self._due: list[tuple[int, str, _Event]] = []
        self._handle: WorkerHandle | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lambda-async")
        self._stopping = False

    def start(self, supervisor: Supervisor) -> None:
        """Take up what a former run left, and start the worker."""
        for _key, value in self._documents.items():  # noqa: PERF102 - not a dict
            event = _Event(**value)
            heapq.heappush(self._due, (self._clock.now_ms(), event.request_id, event))
        self._handle = supervisor.start(self)

    def stop(self) -> None:
        """Start no more events. Those that are cut off stay queued for the next run."""
        self._stopping = True
        if self._handle is not None:
            self._handle.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the events that were running when `stop` was called."""
        self._threads.shutdown(wait=True)

    def add(
        self, ref: FunctionRef, payload: bytes, *, client_context: str, request_id: str
    ) -> None:
        """Queue an event; it is durable when this returns. Raises FunctionNotFound."""
        self._functions.get(ref).resolve(ref.qualifier)
        now_ms = self._clock.now_ms()
        event = _Event(
            request_id=request_id,
            account=ref.account,
            region=ref.region,
            name=ref.name,
            qualifier=ref.qualifier,
            payload=base64.b64encode(payload).decode(),
            client_context=client_context,
            created_ms=now_ms,
        )
        self._documents.put(request_id, asdict(event))
        self._push(now_ms, event)

    def _push(self, due_ms: int, event: _Event) -> None:
        with self._lock:
            heapq.heappush(self._due, (due_ms, event.request_id, event))
        if self._handle is not None:
            self._handle.wake()

    def step(self) -> float:
        """Start the events that are due."""
        while not self._stopping:
            with self._lock:
                if not self._due:
                    return math.inf
                wait_ms = self._due[0][0] - self._clock.now_ms()
                if wait_ms > 0:
                    return wait_ms / 1000
                _, _, event = heapq.heappop(self._due)
            self._threads.submit(self._run, event)
        return math.inf

    def _run(self, event: _Event) -> None:
        try:
            self._attempt(event)
        except Exception:
            # A defect, not the function's failure: the event stays queued for the next start.
            log.exception("asynchronous invocation %s of %s", event.request_id, event.ref.arn)

    def _attempt(self, event: _Event) -> None:
        try:
            result = self._dispatcher.invoke(
                event.ref,
                base64.b64decode(event.payload),
                client_context=event.client_context,
                request_id=event.request_id,
            )
        except FunctionNotFound:
            self._documents.delete(event.request_id)
            return
        except FunctionThrottled:
            event.throttles += 1
            delay_s = min(_THROTTLE_FIRST_S * 2 ** (event.throttles - 1), _THROTTLE_LONGEST_S)
            self._retry(event, delay_s, None)
            return
        if result.function_error is None:
            self._finish(event, "Success", result)
            return
        if self._stopping:
            return  # killed by us, not failed by itself
        event.failures += 1
        delays = ASYNC_RETRY_DELAYS_SECONDS
        self._retry(event, delays[min(event.failures, len(delays)) - 1], result)

    def _retry(self, event: _Event, delay_s: float, result: InvokeResult | None) -> None:
        config = self._config(event)
        if event.failures > config.get("MaximumRetryAttempts", ASYNC_RETRIES):
            self._finish(event, "RetriesExhausted", result)
            return
        due_ms = self._clock.now_ms() + int(delay_s * 1000)
        age_limit_ms = config.get("MaximumEventAgeInSeconds", ASYNC_MAXIMUM_AGE_SECONDS) * 1000
        if due_ms - event.created_ms > age_limit_ms:
            self._finish(event, "EventAgeExceeded", result)
            return
        self._documents.put(event.request_id, asdict(event))
        self._push(due_ms, event)

    def _config(self, event: _Event) -> dict[str, Any]:
        function = self._functions.find(event.ref)
        if function is None:
            return {}
        return function.event_invoke.get(event.qualifier or LATEST, {})

    def _finish(self, event: _Event, condition: str, result: InvokeResult | None) -> None:
        """Tell the destination, if there is one, and forget the event."""
        succeeded = condition == "Success"
        side = "OnSuccess" if succeeded else "OnFailure"
        config = self._config(event)
        destination = section(config, "DestinationConfig", side).get("Destination")
        document = json.dumps(self._document(event, condition, result))
        function = self._functions.find(event.ref)
        if function is not None and not succeeded:
            dead_letters = section(function.latest.config, "DeadLetterConfig").get("TargetArn")
            self._send(dead_letters, base64.b64decode(event.payload).decode("utf-8", "replace"))
        self._send(destination, document)
        self._documents.delete(event.request_id)

    def _send(self, arn: str | None, document: str) -> None:
        if not arn:
            return
        try:
            self._destinations.send(arn, document)
        except LookupError:
            log.warning("an asynchronous event is lost: there is no destination %s", arn)

    def _document(
        self, event: _Event, condition: str, result: InvokeResult | None
    ) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        document: dict[str, Any] = {
            "version": "1.0",
            "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "requestContext": {
                "requestId": event.request_id,
                "functionArn": f"{event.ref.arn}:{event.qualifier or LATEST}",
                "condition": condition,
                "approximateInvokeCount": event.failures + (1 if condition == "Success" else 0),
            },
            "requestPayload": _json_or_text(base64.b64decode(event.payload)),
        }
        if result is not None:
            context: dict[str, Any] = {
                "statusCode": 200,
                "executedVersion": result.executed_version,
            }
            if result.function_error:
                context["functionError"] = result.function_error
            document["responseContext"] = context
            document["responsePayload"] = _json_or_text(result.payload)
        return document


def _json_or_text(payload: bytes) -> Any:
    try:
        return json.loads(payload or b"null")
    except ValueError:
        return payload.decode("utf-8", "replace")
