"""One request and its answer, and the server's resources that they hold: memory, files, a place in the queue."""

from __future__ import annotations

from headrace.aws.http import Answer, Handler, HttpRequest
from headrace.aws.request_body import RequestBody
from headrace.aws.thread_pool import Job


class Exchange:
    """One request, its body and its answer. Used on the event loop's thread.

    Attributes:
        answer: when it is known already, or under way; else what gives it on a thread; None while nobody was asked.
        keep_alive: whether its connection is used again (HTTP/1.1).
        is_http10: whether the client knows no chunks.
        lingers: whether something that the client sent was not read; see `headrace.aws.lingering`.
        is_left: nobody waits for the answer any more.
        job: runs the request on a thread, or will in its turn.
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
        """The client is gone: the request need not be run, unless it is running."""
        self.is_left = True
        if self.job is not None:
            self.job.cancel()

    def release(self) -> None:
        """Give back what the request held: it is answered. Idempotent."""
        if self.body is not None:
            self.body.release()
