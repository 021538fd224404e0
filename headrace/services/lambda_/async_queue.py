"""The queue of asynchronous invocations: stores events in the state database, runs and retries them on threads.

An event is durable before the response 202 is sent. It is deleted when the function has succeeded or the last retry
has failed. A restart continues with the events that are left, so an event runs at least once, as on AWS.

The asynchronous events that wait for their invocation, stored in the state database.
"""

from __future__ import annotations

import base64
import heapq
import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.core.values import section
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.lambda_.async_events import (
    AsyncEvent,
    Destinations,
    Owed,
    build_dead_letter,
    build_delivery,
    record,
)
from headrace.services.lambda_.errors import (
    ASYNC_MAXIMUM_AGE_SECONDS,
    ASYNC_RETRIES,
    ASYNC_RETRY_DELAYS_SECONDS,
)
from headrace.services.lambda_.invocations.dispatcher import Dispatcher
from headrace.services.lambda_.names import LATEST, FunctionRef, parse_function
from headrace.services.lambda_.permits import EVERYTHING, Permits
from headrace.services.lambda_.state import AsyncSettings, FunctionStore
from headrace.store.database import Database

log = logging.getLogger(__name__)

_THREADS = 64
_THROTTLE_FIRST_S = 1.0
_THROTTLE_LONGEST_S = 300.0


class AsyncQueue:
    """The queue and the worker that runs it. Thread-safe."""

    name = "lambda-async"

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        waiting: WaitingEvents,
        functions: FunctionStore,
        dispatcher: Dispatcher,
        destinations: Destinations,
        permits: Permits = EVERYTHING,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self.waiting = waiting
        self._functions = functions
        self._dispatcher = dispatcher
        self.destinations = destinations
        self._permits = permits
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._behind: dict[str, deque[str]] = {}
        self._handle: WorkerHandle | None = None
        self._threads: Executor | None = None
        self._stopping = False

    def start(self, supervisor: Supervisor) -> None:
        """Queue the events that an earlier run of the cloud left, and start the worker."""
        self.waiting.load()
        self._threads = supervisor.executor(_THREADS, "lambda-async")
        self._handle = supervisor.start(self)
        self.waiting.listen(self._handle.wake)

    def stop(self) -> None:
        """Start no more events. Events that are interrupted stay queued for the next run."""
        self._stopping = True
        if self._handle is not None:
            self._handle.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the events that were running when `stop` was called."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)

    def step(self) -> float:
        """Start the events that are due."""
        threads = self._threads
        assert threads is not None
        while not self._stopping:
            taken = self.waiting.take()
            if taken is None:
                return math.inf
            wait_ms, request_id, key = taken
            if wait_ms:
                return wait_ms / 1000
            with self._lock:
                # More events would only wait for processes and hold threads that other functions need.
                if self._running[key] >= self._find_concurrency(key):
                    self._behind.setdefault(key, deque()).append(request_id)
                    continue
                self._running[key] += 1
            threads.submit(self._run, request_id, key)
        return math.inf

    def _find_concurrency(self, key: str) -> int:
        function = self._functions.of_key(key)
        return _THREADS if function is None else min(function.most_processes(), _THREADS // 2)

    def _run(self, request_id: str, key: str) -> None:
        """Run an event, then the events of the same function that waited for a thread."""
        while True:
            try:
                event = self.waiting.read(request_id)
                if event is not None:
                    self._attempt(event)
            except Exception:
                # This is a defect of headrace, not a failure of the function: the event stays queued for the next run.
                log.exception("asynchronous invocation %s of %s", request_id, key)
            with self._lock:
                behind = self._behind.get(key)
                if not behind or self._stopping:
                    self._behind.pop(key, None)
                    self._running[key] -= 1
                    if not self._running[key]:
                        # Keep no zero counts, since their functions may have been deleted.
                        del self._running[key]
                    return
                request_id = behind.popleft()

    def _attempt(self, event: AsyncEvent) -> None:
        if event.owed:
            self._send_owed(event)
            return
        age_ms = self._clock.now_ms() - event.created_ms
        if age_ms > self._age_limit_ms(event):
            self._finish(event, "EventAgeExceeded", None)
            return
        function = self._functions.find(event.ref)
        if function is not None and function.reserved_concurrency == 0:
            # With no concurrency the function can never run: AWS gives the event up at once.
            self._finish(event, "ZeroReservedConcurrency", None)
            return
        self._count(event, {"AsyncEventAge": float(age_ms)})
        try:
            result = self._dispatcher.invoke(
                event.ref,
                event.body,
                client_context=event.client_context,
                request_id=event.request_id,
            )
        except FunctionNotFound:
            self.waiting.delete(event.request_id)
            return
        except FunctionThrottled:
            event.throttles += 1
            self._retry(event, _find_throttle_delay(event.throttles), None)
            return
        if result.function_error is None:
            self._finish(event, "Success", result)
            return
        if self._stopping:
            return  # the stop killed the process; the function did not fail
        event.failures += 1
        delays = ASYNC_RETRY_DELAYS_SECONDS
        self._retry(event, delays[min(event.failures, len(delays)) - 1], result)

    def _age_limit_ms(self, event: AsyncEvent) -> int:
        seconds = self._find_config(event).get(
            "MaximumEventAgeInSeconds", ASYNC_MAXIMUM_AGE_SECONDS
        )
        return int(seconds) * 1000

    def _count(self, event: AsyncEvent, values: dict[str, float]) -> None:
        self._dispatcher.count(event.ref, values)

    def _retry(self, event: AsyncEvent, delay_s: float, result: InvokeResult | None) -> None:
        config = self._find_config(event)
        if event.failures > config.get("MaximumRetryAttempts", ASYNC_RETRIES):
            self._finish(event, "RetriesExhausted", result)
            return
        due_ms = self._clock.now_ms() + int(delay_s * 1000)
        if due_ms - event.created_ms > self._age_limit_ms(event):
            self._finish(event, "EventAgeExceeded", result)
            return
        self.waiting.put_back(due_ms, event)

    def _find_config(self, event: AsyncEvent) -> AsyncSettings:
        function = self._functions.find(event.ref)
        if function is None:
            return {}
        return function.event_invoke.get(event.qualifier or LATEST, {})  # pyrefly: ignore[bad-return]

    def _finish(self, event: AsyncEvent, condition: str, result: InvokeResult | None) -> None:
        """Send the event's record to its destination, if there is one, and delete the event."""
        succeeded = condition == "Success"
        side = "OnSuccess" if succeeded else "OnFailure"
        destination = section(self._find_config(event), "DestinationConfig", side).get(
            "Destination"
        )
        now_ms = self._clock.now_ms()
        until_ms = now_ms + ASYNC_MAXIMUM_AGE_SECONDS * 1000
        owed: list[Owed] = []
        if destination:
            document = record(event, condition=condition, result=result, now_ms=now_ms)
            packed = build_delivery(
                event, document, bus_arn=destination, now_ms=now_ms, unique=self._ids.uuid()
            )
            owed.append(Owed(destination, packed, "DestinationDeliveryFailures", until_ms))
        if not succeeded:
            self._count(event, {"AsyncEventsDropped": 1.0})
            dead_letters = self._find_dead_letters(event)
            if dead_letters:
                packed = build_dead_letter(event, result)
                owed.append(Owed(dead_letters, packed, "DeadLetterErrors", until_ms))
        event.owed = owed
        self._send_owed(event)

    def _find_dead_letters(self, event: AsyncEvent) -> str | None:
        """Return the ARN of the dead-letter queue or topic of the event's version, or None."""
        try:
            version = self._functions.get(event.ref).resolve(event.qualifier)
        except FunctionNotFound:
            return None
        return section(version.config, "DeadLetterConfig").get("TargetArn")

    def _send_owed(self, event: AsyncEvent) -> None:
        """Send what the event owes, and delete it; keep what a destination may take later.

        Assumed: that Lambda tries as often and for as long as it does a throttled event.
        """
        left: list[Owed] = []
        for one in event.owed:
            try:
                self._send(event, one)
            except (LookupError, AwsError, OSError) as error:
                one.attempts += 1
                may_pass = (
                    error.may_pass if isinstance(error, AwsError) else isinstance(error, OSError)
                )
                if may_pass and self._clock.now_ms() < one.until_ms:
                    left.append(one)
                    continue
                log.warning("event %s did not reach %s: %s", event.request_id, one.arn, error)
                self._count(event, {one.metric: 1.0})
        if not left:
            self.waiting.delete(event.request_id)
            return
        event.owed = left
        delay_s = _find_throttle_delay(max(one.attempts for one in left))
        self.waiting.put_back(self._clock.now_ms() + int(delay_s * 1000), event)

    def _send(self, event: AsyncEvent, owed: Owed) -> None:
        """Send one delivery. Raises LookupError, AwsError, OSError."""
        role = self._functions.role_of(event.ref.arn)
        problem = self._permits.problem_with_sending(role, owed.arn, owed.delivery.object_key)
        if problem:
            raise AwsError("AccessDenied", problem, 403)
        self.destinations.deliver(owed.arn, owed.delivery)


def _find_throttle_delay(attempts: int) -> float:
    """Return how many seconds follow the last of these attempts that found somebody too busy."""
    return min(_THROTTLE_FIRST_S * 2 ** min(attempts - 1, 20), _THROTTLE_LONGEST_S)


class WaitingEvents:
    """Events by the time at which each is due. Thread-safe.

    Memory holds only the ids and function keys of waiting events, because a payload may be a megabyte.

    Args:
        account, region: the defaults for function names that have none.
        count: counts an event's metrics.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        database: Database,
        functions: FunctionStore,
        count: Callable[[FunctionRef, dict[str, float]], None],
        account: str,
        region: str,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._database = database
        self._documents = database.documents("lambda_async")
        self._functions = functions
        self._count = count
        self._account = account
        self._region = region
        self._lock = threading.Lock()
        self._due: list[tuple[int, str, str]] = []
        self._listeners: list[Callable[[], None]] = []

    def listen(self, arrived: Callable[[], None]) -> None:
        """Call `arrived` from now on whenever an event is added."""
        self._listeners.append(arrived)

    def load(self) -> None:
        """Read the events that an earlier run of the cloud left; all are due now."""
        now_ms = self._clock.now_ms()
        for request_id, *where in self._database.query(
            "SELECT key, json_extract(value, '$.account'), json_extract(value, '$.region'),"
            " json_extract(value, '$.name') FROM doc_lambda_async"
        ):
            heapq.heappush(self._due, (now_ms, request_id, FunctionRef(*where).key))

    def invoke_later(self, function_arn: str, payload: bytes) -> str:
        """Add an invocation; return its request id. Raises LookupError when the function does not exist."""
        ref = parse_function(function_arn, account=self._account, region=self._region)
        request_id = self._ids.uuid()
        try:
            self.add(ref, payload, client_context="", request_id=request_id)
        except FunctionNotFound as missing:
            raise LookupError(function_arn) from missing
        return request_id

    def add(
        self, ref: FunctionRef, payload: bytes, *, client_context: str, request_id: str
    ) -> None:
        """Add an event; it is durable when this returns. Raises FunctionNotFound."""
        self._functions.get(ref).resolve(ref.qualifier)
        now_ms = self._clock.now_ms()
        event = AsyncEvent(
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
        self._count(event.ref, {"AsyncEventsReceived": 1.0})
        self._push(now_ms, event)

    def put_back(self, due_ms: int, event: AsyncEvent) -> None:
        """Store an event again, due at `due_ms`."""
        self._documents.put(event.request_id, asdict(event))
        self._push(due_ms, event)

    def _push(self, due_ms: int, event: AsyncEvent) -> None:
        with self._lock:
            heapq.heappush(self._due, (due_ms, event.request_id, event.ref.key))
        for arrived in self._listeners:
            arrived()

    def take(self) -> tuple[int, str, str] | None:
        """Return when the earliest event is due in milliseconds (0: now), its id and its function's key, or None.

        An event that is due now leaves the queue, and stays stored until `delete`.
        """
        with self._lock:
            if not self._due:
                return None
            due_ms, request_id, key = self._due[0]
            wait_ms = max(0, due_ms - self._clock.now_ms())
            if not wait_ms:
                heapq.heappop(self._due)
            return wait_ms, request_id, key

    def read(self, request_id: str) -> AsyncEvent | None:
        """Return a stored event, or None."""
        document = self._documents.get(request_id)
        return None if document is None else msgspec.convert(document, AsyncEvent)

    def delete(self, request_id: str) -> None:
        """Delete a stored event."""
        self._documents.delete(request_id)
