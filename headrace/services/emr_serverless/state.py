"""The records of applications, job runs and their attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.core.arn import make_arn
from headrace.core.values import get_mapping
from headrace.services.emr_serverless.limits import (
    DEFAULT_FAILED_ATTEMPTS_PER_HOUR,
    DEFAULT_IDLE_MINUTES,
    DEFAULT_TIMEOUT_MINUTES,
)


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
        return get_mapping(self.request, "schedulerConfiguration").get("maxConcurrentRuns")


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
