"""The page of queues: how many records of each are visible, in flight, or dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.protocols.service import DataPage
from headrace.core.clock import Clock
from headrace.services.kinesis.queues.open_queue import OpenQueue
from headrace.services.kinesis.queues.queues import Queues


def queues_page(queues: Queues, clock: Clock) -> DataPage:
    """Return the page."""

    def data(_: Mapping[str, str]) -> list[dict[str, Any]]:
        now_ms = clock.now_ms()
        return [queue_row(opened, now_ms) for opened in queues.all()]

    return DataPage("kinesis/queues", "Kinesis: each queue's records by their state (JSON)", data)


def queue_row(opened: OpenQueue, now_ms: int) -> dict[str, Any]:
    """Return a queue's row of the page."""
    queue, counts = opened.queue, opened.deliveries.counts(now_ms)
    return {
        "queue": queue.name,
        "arn": queue.arn,
        "account": queue.account,
        "region": queue.region,
        "stream": opened.stream.name,
        "status": queue.status(now_ms),
        # A consumer is a program of the user's: headrace knows of one when it receives.
        "hasConsumer": bool(opened.waiting) or opened.counters.active_ms > 0,
        "waitingReceives": len(opened.waiting),
        "visible": counts.visible,
        "inFlight": counts.in_flight,
        "deadLetters": counts.dead_visible + counts.dead_in_flight,
    }
