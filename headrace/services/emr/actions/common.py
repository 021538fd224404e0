"""Helpers of EMR's actions: descriptions of clusters and steps in AWS's form, and pages."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict, TypeVar

from headrace.aws.calls.operation import Call
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import make_arn
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    DEFAULT_IDLE_S,
    LONGEST_IDLE_S,
    SHORTEST_IDLE_S,
    invalid_request,
)
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, Step

_T = TypeVar("_T")
# /dev/sda is the root volume; the model lets an instance have at most 25 others.
_DEVICE_LETTERS = string.ascii_lowercase[1:]


def _timeline(begun: str, created_ms: int, begun_ms: int | None, ended_ms: int | None) -> Any:
    """Return a Timeline; `begun` is its middle member: `ReadyDateTime` or `StartDateTime`."""
    times = {"CreationDateTime": created_ms, begun: begun_ms, "EndDateTime": ended_ms}
    return {name: moment(time_ms) for name, time_ms in times.items() if time_ms is not None}


def cluster_arn(cluster: Cluster) -> str:
    """Return a cluster's ARN."""
    return make_arn("elasticmapreduce", cluster.region, cluster.account, f"cluster/{cluster.id}")


def tag_list(tags: dict[str, str]) -> list[shapes.Tag]:
    """Return tags as a list of Key and Value."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def instance_status(cluster: Cluster, created_ms: int | None = None) -> Any:
    """Return the status of a group, fleet or instance, created with its cluster or at `created_ms`."""
    ready_ms = cluster.ready_ms
    if created_ms is not None:
        ready_ms = max(created_ms, cluster.ready_ms or created_ms)
    else:
        created_ms = cluster.created_ms
    return {
        "State": "TERMINATED" if cluster.state in ENDED_CLUSTER else "RUNNING",
        "StateChangeReason": {"Message": ""},
        "Timeline": _timeline("ReadyDateTime", created_ms, ready_ms, cluster.ended_ms),
    }


class EbsVolume(TypedDict):
    """An EbsBlockDevice whose members are all there."""

    VolumeSpecification: shapes.VolumeSpecification
    Device: str


class VolumesMember(TypedDict):
    """The member of a group and of a fleet's type that names the volumes of each instance."""

    EbsConfiguration: NotRequired[shapes.EbsConfiguration]


def ebs_devices(holder: VolumesMember) -> list[EbsVolume]:
    """Return the EBS volumes of each instance, as ListInstanceGroups shows them."""
    volumes = [
        config["VolumeSpecification"]
        for config in (holder.get("EbsConfiguration") or {}).get("EbsBlockDeviceConfigs") or ()
        for _ in range(config.get("VolumesPerInstance") or 1)
    ]
    return [
        {"VolumeSpecification": volume, "Device": f"/dev/sd{letter}"}
        for volume, letter in zip(volumes, _DEVICE_LETTERS, strict=False)
    ]


def cluster_status(cluster: Cluster) -> shapes.ClusterStatus:
    """Return a cluster's ClusterStatus."""
    return {
        "State": str(cluster.state),
        "StateChangeReason": present(
            {"Code": cluster.reason_code or None, "Message": cluster.reason_message or None}
        ),
        "Timeline": _timeline(
            "ReadyDateTime", cluster.created_ms, cluster.ready_ms, cluster.ended_ms
        ),
    }


def step_summary(step: Step) -> shapes.StepSummary:
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
                "Timeline": _timeline(
                    "StartDateTime", step.created_ms, step.started_ms, step.ended_ms
                ),
            }
        ),
    }


def idle_timeout_s(policy: shapes.AutoTerminationPolicy) -> int:
    """Return an AutoTerminationPolicy's timeout. Raises AwsError unless EMR allows it."""
    idle_s = policy.get("IdleTimeout", DEFAULT_IDLE_S)
    if not SHORTEST_IDLE_S <= idle_s <= LONGEST_IDLE_S:
        raise invalid_request(
            f"IdleTimeout must be between {SHORTEST_IDLE_S} and {LONGEST_IDLE_S} seconds."
        )
    return idle_s


def job_flows(emr: Emr, call: Call, job_flow_ids: list[str]) -> list[Cluster]:
    """Return the clusters with these ids. Raises AwsError unless all exist."""
    return [emr.job_flow(name, account=call.account, region=call.region) for name in job_flow_ids]


def page(items: Iterable[_T], marker: str | None, most: int) -> tuple[list[_T], str | None]:
    """Return one page of `items` and the next page's marker. Raises AwsError for an invalid marker."""
    try:
        return page_of(items, marker, most)
    except BadMarker:
        raise invalid_request("Marker is not valid.") from None
