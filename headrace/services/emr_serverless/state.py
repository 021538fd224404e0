"""The records of applications, job runs and their attempts.

Stores applications and job runs: reads come from memory, and every write is in the database before it is visible.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from headrace.core.arn import make_arn
from headrace.core.values import get_mapping
from headrace.services.emr_serverless.errors import (
    DEFAULT_CONCURRENT_RUNS,
    DEFAULT_FAILED_ATTEMPTS_PER_HOUR,
    DEFAULT_IDLE_MINUTES,
    DEFAULT_TIMEOUT_MINUTES,
)
from headrace.store.database import Database


class Store:
    """All applications and job runs of all accounts and regions.

    Thread-safe. Hold `lock` for every change and for reads that must be consistent with each other. A change is
    durable when `save_*` returns.
    """

    def __init__(self, database: Database) -> None:
        self.lock = threading.RLock()
        self._application_documents = database.documents("emr_serverless_applications")
        self._run_documents = database.documents("emr_serverless_job_runs")
        self._applications: dict[str, Application] = {}
        self._runs: dict[str, JobRun] = {}

    def load(self) -> None:
        """Read everything from the database."""
        with self.lock:
            self._applications = {
                key: msgspec.convert(value, Application)
                for key, value in self._application_documents.items()
            }
            self._runs = {
                key: msgspec.convert(value, JobRun) for key, value in self._run_documents.items()
            }

    def applications(self) -> list[Application]:
        """Return all applications, oldest first."""
        with self.lock:
            return sorted(self._applications.values(), key=lambda found: found.created_ms)

    def application(self, application_id: str) -> Application | None:
        """Return an application, or None."""
        with self.lock:
            return self._applications.get(application_id)

    def save_application(self, application: Application) -> None:
        """Store a new or changed application."""
        with self.lock:
            self._application_documents.put(application.id, msgspec.to_builtins(application))
            self._applications[application.id] = application

    def runs(self, application_id: str | None = None) -> list[JobRun]:
        """Return the job runs of an application, or all, oldest first."""
        with self.lock:
            runs = [r for r in self._runs.values() if application_id in (None, r.application_id)]
            return sorted(runs, key=lambda run: run.number)

    def run(self, run_id: str) -> JobRun | None:
        """Return a job run, or None."""
        with self.lock:
            return self._runs.get(run_id)

    def next_number(self) -> int:
        """Return the number of the next job run. The caller holds the lock."""
        return max((run.number for run in self._runs.values()), default=0) + 1

    def save_run(self, run: JobRun) -> None:
        """Store a new or changed job run."""
        with self.lock:
            self._run_documents.put(run.id, msgspec.to_builtins(run))
            self._runs[run.id] = run


class ApplicationState(StrEnum):
    """AWS's states of an application except CREATING, STARTING and STOPPING, which take no time here."""

    CREATED = "CREATED"
    STARTED = "STARTED"
    STOPPED = "STOPPED"
    TERMINATED = "TERMINATED"


class JobState(StrEnum):
    """AWS's states of a job run except PENDING, which takes no time here."""

    SUBMITTED = "SUBMITTED"
    QUEUED = "QUEUED"
    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"


ENDED = frozenset({JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED})


@dataclass(slots=True, kw_only=True)
class Application:
    """An application. `request` is CreateApplication's, with later updates; times are epoch milliseconds."""

    id: str
    account: str
    region: str
    request: dict[str, Any]
    client_token: str
    created_ms: int
    updated_ms: int
    # CreateApplication's request, to recognize a repeated call; updates do not change it.
    fingerprint: str
    state: ApplicationState = ApplicationState.CREATED
    details: str = ""
    started_ms: int = 0
    tags: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def arn(self) -> str:
        """The application's ARN."""
        return make_arn("emr-serverless", self.region, self.account, f"/applications/{self.id}")

    @property
    def starts_itself(self) -> bool:
        """Whether StartJobRun starts it; on by default, as on AWS."""
        return bool(get_mapping(self.request, "autoStartConfiguration").get("enabled", True))

    @property
    def idle_timeout_s(self) -> float | None:
        """After how many seconds without a job it stops itself; None for never."""
        stop = get_mapping(self.request, "autoStopConfiguration")
        if not stop.get("enabled", True):
            return None
        return 60.0 * int(stop.get("idleTimeoutMinutes") or DEFAULT_IDLE_MINUTES)

    @property
    def most_runs(self) -> int | None:
        """How many job runs may run at a time; None for no limit."""
        scheduler = get_mapping(self.request, "schedulerConfiguration")
        return scheduler.get("maxConcurrentRuns", DEFAULT_CONCURRENT_RUNS) if scheduler else None


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One attempt of a job run; times are epoch milliseconds."""

    number: int
    created_ms: int
    updated_ms: int
    state: JobState = JobState.SUBMITTED
    details: str = ""
    ended_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class JobRun:
    """A job run. `request` is StartJobRun's; times are epoch milliseconds.

    `number` counts the runs of all applications from 1; `attempts` holds at least one.
    """

    id: str
    application_id: str
    account: str
    region: str
    number: int
    request: dict[str, Any]
    fingerprint: str
    release_label: str
    created_ms: int
    updated_ms: int
    attempts: list[Attempt]
    state: JobState = JobState.SUBMITTED
    details: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    # Set when CancelJobRun or the timeout has asked it to end.
    cancelled: bool = False
    cancel_details: str = ""
    cancel_grace_s: float | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    # Empty in older data.
    created_by: str = ""

    @property
    def arn(self) -> str:
        """The job run's ARN."""
        resource = f"/applications/{self.application_id}/jobruns/{self.id}"
        return make_arn("emr-serverless", self.region, self.account, resource)

    @property
    def attempt(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def ended(self) -> bool:
        """Whether it has reached a final state."""
        return self.state in ENDED

    @property
    def streaming(self) -> bool:
        """Whether its mode is STREAMING."""
        return self.request.get("mode") == "STREAMING"

    @property
    def timeout_minutes(self) -> int:
        """After how many minutes it is cancelled; 0 for no timeout."""
        default = 0 if self.streaming else DEFAULT_TIMEOUT_MINUTES
        execution_timeout_minutes = self.request.get("executionTimeoutMinutes")
        return default if execution_timeout_minutes is None else int(execution_timeout_minutes)

    @property
    def most_attempts(self) -> int | None:
        """How many attempts it gets; None for no limit."""
        default = None if self.streaming else 1
        return get_mapping(self.request, "retryPolicy").get("maxAttempts", default)

    @property
    def most_failures_per_hour(self) -> int | None:
        """How many attempts may fail within an hour; None for no limit."""
        if not self.streaming:
            return None
        policy = get_mapping(self.request, "retryPolicy")
        return int(policy.get("maxFailedAttemptsPerHour", DEFAULT_FAILED_ATTEMPTS_PER_HOUR))
