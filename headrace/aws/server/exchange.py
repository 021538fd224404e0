"""One request and its answer, and the resources that they hold: memory, files, a place in the queue."""

from __future__ import annotations

from headrace.aws.calls.http import Answer, Handler, HttpRequest
from headrace.aws.server.request_body import RequestBody
from headrace.aws.server.thread_pool import Job


class Exchange:
    """One request, its body and its answer. Used on the event loop's thread.

    Attributes:
        answer: the answer or its Future; or the handler that makes it on a thread; None before the request is handled.
        keep_alive: whether the connection stays open for further requests (HTTP/1.1).
        is_http10: whether the client speaks HTTP/1.0, which has no chunked bodies.
        lingers: whether the client sent bytes that were not read; see `headrace.aws.server.lingering`.
        is_left: the client is gone, so nothing waits for the answer.
        job: the queued or running call on a thread.
    """

    __slots__ = (
        "answer",
        "body",
        "is_http10",
        "is_left",
        "job",
        "keep_alive",
        "lingers",
        "request",
    )

    def __init__(
        self,
        request: HttpRequest,
        body: RequestBody | None = None,
        *,
        answer: Answer | Handler | None = None,
        keep_alive: bool = True,
    ) -> None:
        self.request = request
        self.body = body
        self.answer = answer
        self.keep_alive = keep_alive
        self.is_http10 = False
        self.lingers = False
        self.is_left = False
        self.job: Job | None = None

    def leave(self) -> None:
        """Note that the client is gone: cancel the request unless it already runs."""
        self.is_left = True
        if self.job is not None:
            self.job.cancel()

    def release(self) -> None:
        """Release the resources of an answered request. Idempotent."""
        if self.body is not None:
            self.body.release()
