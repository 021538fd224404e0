"""An invocation whose caller reads the answer while the function still makes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.invocations.dispatcher import Dispatcher
from headrace.services.lambda_.names import FunctionRef

# When so much of an answer waits for its reader, the function waits; a reader that takes nothing for so long is gone.
MOST_WAITING_BYTES = 4 * 1024 * 1024
STALLED_S = 30.0


class ReaderGone(Exception):
    """The caller has read nothing for too long: the end of the answer is lost."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the answer. `content_type` is the whole answer's, empty when the function gave none."""

    content_type: str
    data: bytes


class AnswerStream:
    """Invokes a function on a thread of its own and yields its answer.

    The function runs to its end, as on AWS, even when nobody reads the answer any more.
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
        """Begin, and return the number of the version that runs.

        Raises FunctionNotFound, FunctionThrottled.
        """
        threading.Thread(target=self._run, name="lambda-stream", daemon=True).start()
        result = self._results.get()
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, str)
        return result

    def items(self) -> Generator[Part | InvokeResult]:
        """Yield the answer's parts as they come, and then the result. Raises ReaderGone.

        The payload of an answer that was not streamed is one part.
        """
        try:
            yield from self._items()
        finally:
            self._abandon()

    def _items(self) -> Generator[Part | InvokeResult]:
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
        except Exception as error:  # noqa: BLE001 - raised on the thread that reads
            self._results.put(error)
        else:
            self._results.put(result)

    def _take(self, content_type: str, data: bytes) -> None:
        """Queue a part for the reader, when there is room for it; drop it when nobody reads."""
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
