"""Looks into one of moto's queues for a message, without a request.

A poller asks two or three times a second for as long as nothing comes. A ReceiveMessage costs half a millisecond of
parsing and serialising to say so; this costs microseconds.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, cast

from headrace.fallback.current import CURRENT


def queue_is_empty(account: str, region: str, name: str) -> bool:
    """Whether a queue has no message that could be received now. Raises LookupError when there is no queue."""
    from moto.sqs.models import sqs_backends

    # Through dictionaries only: asking moto's backends for a region that nobody has used would make it.
    of_account: Any = cast("Any", sqs_backends).get(account)
    backend: Any = None if of_account is None else of_account.get(region)
    queue: Any = None if backend is None else backend.queues.get(name)
    if queue is None:
        raise LookupError(name)
    # Another thread may put one in meanwhile: then the next look finds it.
    return bool(queue.store.is_empty(CURRENT.clock.now_ms()))
