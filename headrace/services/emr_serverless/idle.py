"""Stops applications that have had no job run for as long as their autoStopConfiguration says."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from headrace.core.clock import Clock
from headrace.services.emr_serverless.state import Application, ApplicationState
from headrace.services.emr_serverless.store import Store

log = logging.getLogger(__name__)


class IdleWatch:
    """The worker that stops idle applications. `step` is called by one thread at a time.

    `wake` does nothing at first; the code that starts the worker replaces it with the handle's `wake`.
    """

    name = "emr-serverless-idle"

    def __init__(self, clock: Clock, store: Store) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._clock = clock
        self._store = store

    def step(self) -> float:
        """Stop idle applications; return the seconds until one may be due. Every change wakes this worker."""
        with self._store.lock:
            waits = [self._look_at(application) for application in self._store.applications()]
        return min(waits, default=math.inf)

    def _look_at(self, application: Application) -> float:
        timeout_s = application.idle_timeout_s
        if application.state is not ApplicationState.STARTED or timeout_s is None:
            return math.inf
        runs = self._store.runs(application.id)
        if any(not run.ended for run in runs):
            return math.inf
        now_ms = self._clock.now_ms()
        since_ms = max([application.started_ms, *(run.ended_ms or 0 for run in runs)])
        left_s = timeout_s - (now_ms - since_ms) / 1000
        if left_s > 0:
            return left_s
        application.state, application.updated_ms = ApplicationState.STOPPED, now_ms
        application.details = (
            f"The application was stopped after {timeout_s / 60:g} minutes without a job."
        )
        self._store.save_application(application)
        log.info("application %s is STOPPED: it was idle", application.id)
        return math.inf
