"""The asynchronous events that wait for their invocation, stored in the state database."""

from __future__ import annotations

import base64
import heapq
import threading
from collections.abc import Callable
from dataclasses import asdict

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound
from headrace.services.lambda_.async_events.event import AsyncEvent
from headrace.services.lambda_.names import FunctionRef, parse_function
from headrace.services.lambda_.store import FunctionStore
from headrace.store.database import Database


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
        return None if document is None else AsyncEvent(**document)

    def delete(self, request_id: str) -> None:
        """Delete a stored event."""
        self._documents.delete(request_id)
