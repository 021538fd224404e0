"""EMR's errors with AWS's sentences; EMR's quotas and headrace's own limits with their sources."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.calls.errors import AwsError
from headrace.core.system_tags import is_refused
from headrace.spark_submit.emr_releases import UnknownRelease

# Documented: "a maximum of 256 PENDING and ACTIVE steps" (EMR Management Guide, work with steps).
MOST_ACTIVE_STEPS = 256
# Documented: API_RunJobFlow, StepConcurrencyLevel; CLI help "maximum 256".
MOST_CONCURRENT_STEPS = 256
# Documented: API_ListSteps and API_ListClusters, "up to 50 (per page)".
STEPS_PER_PAGE = 50
CLUSTERS_PER_PAGE = 50
# Documented: API_ListSteps, at most 10 StepIds.
MOST_STEP_IDS = 10
# Documented: API_CancelSteps, "A maximum of 256 steps are allowed in each CancelSteps request".
MOST_CANCELLED_STEPS = 256
# Documented: API_AutoTerminationPolicy, IdleTimeout 60 to 604800.
SHORTEST_IDLE_S = 60
LONGEST_IDLE_S = 604_800
DEFAULT_IDLE_S = 3600
# Documented: API_ListReleaseLabels, "The default is 100"; the model's maximum too.
RELEASE_LABELS_PER_PAGE = 100
# Documented: emr-plan-bootstrap, "up to 16 bootstrap actions per cluster".
MOST_BOOTSTRAP_ACTIONS = 16
# Documented: a cluster has one master or three (emr-plan-ha).
MASTERS_OF_HIGH_AVAILABILITY = 3
# Documented: API_DescribeJobFlows, job flows created within the last two weeks.
JOB_FLOWS_SHOWN_MS = 14 * 24 * 3600 * 1000
# Documented: EMR Management Guide, "up to 48 task instance groups".
MOST_TASK_GROUPS = 48
# Assumed: AWS documents that ListInstances has pages, but not their size.
INSTANCES_PER_PAGE = 2000
# Documented: "metrics are updated every five minutes" (Monitoring Amazon EMR metrics with CloudWatch).
METRICS_EVERY_S = 300.0
# Observed (mrjob): "No more than 3 digits are allowed after decimal place in bid price".
MOST_DECIMALS_OF_A_BID = 3


def invalid_request(message: str) -> AwsError:
    """An invalid request to a newer operation (Describe*, List*, ...)."""
    return AwsError("InvalidRequestException", message, 400, {"ErrorCode": "InvalidRequest"})


def unknown_cluster(cluster_id: str) -> AwsError:
    """No cluster with that id: the error of newer operations."""
    return invalid_request(f"Cluster id '{cluster_id}' is not valid.")


def unknown_step(step_id: str) -> AwsError:
    """No step with that id in the cluster."""
    return invalid_request(f"Step id '{step_id}' is not valid.")


def validation(message: str) -> AwsError:
    """An invalid request to an older operation (RunJobFlow, AddJobFlowSteps, ...)."""
    return AwsError("ValidationException", message, 400)


def unknown_release(error: UnknownRelease) -> str:
    """No such release label. Observed (public reports of RunJobFlow): the sentence up to the full stop."""
    hint = f" ({error.hint})" if error.hint else ""
    return f"The supplied release label is invalid: {error.label}.{hint}"


def unknown_job_flow() -> AwsError:
    """No cluster with that id: the error of older operations."""
    return validation("Specified job flow ID does not exist.")


def unknown_security_configuration(name: str) -> str:
    """No security configuration of that name; the sentence is assumed."""
    return f"Security configuration with name '{name}' does not exist."


_ENDED = "A job flow that is shutting down, terminated, or finished may not be modified."


def ended_job_flow() -> AwsError:
    """The cluster is ending or has ended: the error of older operations."""
    return validation(_ENDED)


def ended_cluster() -> AwsError:
    """The same of newer operations; that settings refuse it too is assumed."""
    return invalid_request(_ENDED)


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags with AWS's prefix; the sentence is assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise validation("aws: prefixed tag key names are not allowed for external use.")


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
