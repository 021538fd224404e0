"""What EMR's actions share: clusters and steps in AWS's spelling, and pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from headrace.aws.operation import Call
from headrace.core.arn import make_arn
from headrace.core.values import BadMarker, page_of, present
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import invalid_request
from headrace.services.emr.limits import (
    DEFAULT_IDLE_S,
    LONGEST_IDLE_S,
    SHORTEST_IDLE_S,
)
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, Step

_T = TypeVar("_T")


def moment(time_ms: int | None) -> datetime | None:
    """Return epoch milliseconds as an aware datetime."""
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)


def cluster_arn(cluster: Cluster) -> str:
    """Return a cluster's ARN."""
    return make_arn("elasticmapreduce", cluster.region, cluster.account, f"cluster/{cluster.id}")


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return tags as AWS lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def instance_status(cluster: Cluster, created_ms: int | None = None) -> dict[str, Any]:
    """Return the status of a cluster's group, fleet or instance, made with the cluster or at `created_ms`."""
    ready_ms = cluster.ready_ms
    if created_ms is not None:
        ready_ms = max(created_ms, cluster.ready_ms or created_ms)
    else:
        created_ms = cluster.created_ms
    return {
        "State": "TERMINATED" if cluster.state in ENDED_CLUSTER else "RUNNING",
        "StateChangeReason": {"Message": ""},
        "Timeline": present(
            {
                "CreationDateTime": moment(created_ms),
                "ReadyDateTime": moment(ready_ms),
                "EndDateTime": moment(cluster.ended_ms),
            }
        ),
    }


def cluster_status(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster's ClusterStatus."""
    return {
        "State": str(cluster.state),
        "StateChangeReason": present(
            {"Code": cluster.reason_code or None, "Message": cluster.reason_message or None}
        ),
        "Timeline": present(
            {
                "CreationDateTime": moment(cluster.created_ms),
                "ReadyDateTime": moment(cluster.ready_ms),
                "EndDateTime": moment(cluster.ended_ms),
            }
        ),
    }


def step_summary(step: Step) -> dict[str, Any]:
    """Return a step's StepSummary."""
    reason = {"Message": step.reason_message} if step.reason_message else {}
    return {
        "Id": step.id,
        "Name": step.name,
        "Config": present(
            {
                "Jar": step.jar,
                "Properties": step.properties,
                "MainClass": step.main_class or None,
                "Args": step.args,
            }
        ),
        "ActionOnFailure": step.action_on_failure,
        "Status": present(
            {
                "State": str(step.state),
                "StateChangeReason": reason,
                "FailureDetails": step.failure or None,
                "Timeline": present(
                    {
                        "CreationDateTime": moment(step.created_ms),
                        "StartDateTime": moment(step.started_ms),
                        "EndDateTime": moment(step.ended_ms),
                    }
                ),
            }
        ),
    }


def idle_timeout_s(policy: dict[str, Any]) -> int:
    """Return an AutoTerminationPolicy's timeout. Raises AwsError unless it is within EMR's bounds."""
    idle_s = int(policy.get("IdleTimeout", DEFAULT_IDLE_S))
    if not SHORTEST_IDLE_S <= idle_s <= LONGEST_IDLE_S:
        raise invalid_request(
            f"IdleTimeout must be between {SHORTEST_IDLE_S} and {LONGEST_IDLE_S} seconds."
        )
    return idle_s


def job_flows(emr: Emr, call: Call, request: dict[str, Any]) -> list[Cluster]:
    """Return the clusters that JobFlowIds names, all of which must exist."""
    return [
        emr.job_flow(name, account=call.account, region=call.region)
        for name in request["JobFlowIds"]
    ]


def page(items: Iterable[_T], marker: str | None, most: int) -> tuple[list[_T], str | None]:
    """Return one page of `items` and the marker of the next. Raises AwsError for a marker that is not ours."""
    try:
        return page_of(items, marker, most)
    except BadMarker:
        raise invalid_request("Marker is not valid.") from None
