"""Receives custom resources' answers: `PUT /_headrace/cfn-response/<token>` to this cloud."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.cloudformation import limits

PATH = "/_headrace/cfn-response/"
CHECK_EVERY_S = 0.25
# Replaces an answer that is larger than AWS accepts.
TOO_LONG: dict[str, Any] = {"Status": "TOO_LONG"}


class CloudStopped(BaseException):
    """The cloud is being stopped: the operation stops where it is, and the next start resumes it."""


class Responses:
    """Tokens of the expected answers, and the answers that have arrived. Thread-safe; a restart loses them."""

    def __init__(self, clock: Clock, ids: Ids, answers_url: Callable[[], str]) -> None:
        self._clock = clock
        self._ids = ids
        self._answers_url = answers_url
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Event] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._stopping = False

    def stop(self) -> None:
        """End all waits, because the cloud is being stopped."""
        with self._lock:
            self._stopping = True
            for event in self._waiting.values():
                event.set()

    def expect(self) -> tuple[str, str]:
        """See `CustomResponses.expect`."""
        token = self._ids.hex(32)
        with self._lock:
            self._waiting[token] = threading.Event()
        return token, f"{self._answers_url()}{PATH}{token}"

    def receive(self, token: str, body: bytes) -> bool:
        """Take an answer; return False when no resource waits for it, or when it is not a JSON object."""
        answer: Any = TOO_LONG
        if len(body) <= limits.CUSTOM_RESPONSE_BYTES:
            try:
                answer = json.loads(body)
            except (ValueError, RecursionError):
                return False
        with self._lock:
            event = self._waiting.get(token)
            if event is None or not isinstance(answer, dict):
                return False
            if not event.is_set():  # the first answer counts
                self._answers[token] = cast("dict[str, Any]", answer)
            event.set()
        return True

    def wait(self, token: str, timeout_s: float) -> dict[str, Any] | None:
        """See `CustomResponses.wait`."""
        return self.wait_or(token, timeout_s, lambda: None)

    def wait_or(
        self, token: str, timeout_s: float, check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """See `CustomResponses.wait_or`."""
        with self._lock:
            event = self._waiting[token]
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            while not event.is_set():
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    return None
                if self._clock.wait(event, min(left_s, CHECK_EVERY_S)):
                    break
                if not event.is_set():
                    check()
            with self._lock:
                if self._stopping and token not in self._answers:
                    raise CloudStopped
                return self._answers.get(token)
        finally:
            with self._lock:
                self._waiting.pop(token, None)
                self._answers.pop(token, None)
