"""SQS long polling, outside moto: moto would sleep through it inside the lock that orders the journal."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any, cast

from headrace.aws.http import HttpResponse
from headrace.core.clock import Clock
from headrace.fallback.journal import Entry

# A message may become visible (its delay or visibility timeout over) with no send to wake us.
LOOK_AGAIN_S = 0.25
LONGEST_WAIT_S = 20.0


def is_long_poll(entry: Entry, operation: str) -> bool:
    """Whether the request is a ReceiveMessage of the JSON protocol that is ready to wait."""
    return (
        operation == "ReceiveMessage"
        and b"WaitTimeSeconds" in entry.body
        and entry.headers.get("content-type", "").startswith("application/x-amz-json")
    )


def wait_for_messages(
    entry: Entry,
    arrived: threading.Condition,
    clock: Clock,
    run: Callable[[Entry], HttpResponse],
) -> HttpResponse:
    """Receive without waiting, again and again until there is a message or the time is up."""
    try:
        params: Any = json.loads(entry.body)
    except ValueError:
        return run(entry)
    if not isinstance(params, dict):
        return run(entry)
    wanted = cast("dict[str, Any]", params)
    wait_s = wanted.get("WaitTimeSeconds")
    if not isinstance(wait_s, int) or not 0 < wait_s <= LONGEST_WAIT_S:
        return run(entry)
    at_once = dataclasses.replace(
        entry,
        body=json.dumps({**wanted, "WaitTimeSeconds": 0}).encode(),
    )
    deadline_s = clock.monotonic_s() + wait_s
    while True:
        response = run(at_once)
        left_s = deadline_s - clock.monotonic_s()
        body = cast("bytes", response.body)
        if response.status >= 400 or b"ReceiptHandle" in body or left_s <= 0:
            return response
        with arrived:
            arrived.wait(min(left_s, LOOK_AGAIN_S))
