"""Response streaming: an invocation whose caller reads the response while the function still writes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.invocations.dispatcher import Dispatcher
from headrace.services.lambda_.names import FunctionRef

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
