"""EMR's errors, with AWS's sentences."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.calls.errors import AwsError
from headrace.core.system_tags import is_refused
from headrace.spark_submit.emr_releases import UnknownRelease


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


def ended_job_flow() -> AwsError:
    """The cluster is ending or has ended."""
    return validation(
        "A job flow that is shutting down, terminated, or finished may not be modified."
    )


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags with AWS's prefix; the sentence is assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise validation("aws: prefixed tag key names are not allowed for external use.")


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
