"""EMR Serverless' errors with AWS's sentences; its quotas and defaults with their sources."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.calls.errors import AwsError
from headrace.core.system_tags import is_refused

# Documented: API_ListApplications, API_ListJobRuns, API_ListJobRunAttempts, maxResults.
LONGEST_PAGE = 50
# Documented: EMR Serverless User Guide, "Job resiliency".
MOST_BATCH_ATTEMPTS = 10
MOST_FAILED_ATTEMPTS_PER_HOUR = 10
DEFAULT_FAILED_ATTEMPTS_PER_HOUR = 5
# Documented: API_StartJobRun, executionTimeoutMinutes; batch jobs "12 hours by default", streaming jobs never.
DEFAULT_TIMEOUT_MINUTES = 720
# Documented: API_AutoStopConfig, "Defaults to 15 minutes".
DEFAULT_IDLE_MINUTES = 15
# Documented: API_SchedulerConfiguration, the default of an application that has a scheduler, and the valid ranges.
DEFAULT_CONCURRENT_RUNS = 15
CONCURRENT_RUNS = (1, 1000)
QUEUE_TIMEOUT_MINUTES = (15, 720)
# Documented: State details have at most 256 characters (String256).
LONGEST_DETAILS = 256
# From AWS's answer to a shorter timeout: "RunTimeout must be at least 5 minutes."
SHORTEST_TIMEOUT_MINUTES = 5


def validation(message: str) -> AwsError:
    """An invalid request."""
    return AwsError("ValidationException", message, 400, {"message": message})


def not_found(what: str) -> AwsError:
    """No such application, job run or resource; `what` names it."""
    message = f"{what} does not exist"
    return AwsError("ResourceNotFoundException", message, 404, {"message": message})


def conflict(message: str) -> AwsError:
    """The request conflicts with an earlier one or with the resource's state."""
    return AwsError("ConflictException", message, 409, {"message": message})


def wrong_state(what: str, allowed: Iterable[str], state: str) -> AwsError:
    """The operation is not allowed in the resource's state."""
    states = ", ".join(allowed)
    return validation(
        f"{what} must be in one of the following statuses [{states}]. Current status: {state}"
    )


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags with AWS's prefix; the sentence is assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise validation("aws: prefixed tag key names are not allowed for external use.")


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
