"""Checks whether one of moto's queues has a message, without a request.

A poller checks two or three times a second while the queue is empty. A ReceiveMessage would take half a millisecond of
parsing and serialising; this takes microseconds.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, cast

from headrace.moto.current_cloud import CURRENT


def queue_is_empty(account: str, region: str, name: str) -> bool:
    """Whether a queue has no message that could be received now. Raises LookupError for a missing queue."""
    from moto.sqs.models import sqs_backends

    # Plain dictionary access: moto's own lookup would create a backend for an unused region.
    of_account: Any = cast("Any", sqs_backends).get(account)
    backend: Any = None if of_account is None else of_account.get(region)
    queue: Any = None if backend is None else backend.queues.get(name)
    if queue is None:
        raise LookupError(name)
    # Another thread may add one meanwhile: then the next check finds it.
    return bool(queue.store.is_empty(CURRENT.clock.now_ms()))
