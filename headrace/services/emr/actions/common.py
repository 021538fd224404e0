"""What EMR's actions share: descriptions, pages, checks of instances and scaling policies, release labels.

Source of the sentences: the answers of AWS that Yelp/mrjob's mock of EMR repeats (observed by its authors, 2017-2019),
except where a comment says otherwise.
"""

from __future__ import annotations

import copy
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.arn import make_arn
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import (
    DEFAULT_IDLE_S,
    LONGEST_IDLE_S,
    MASTERS_OF_HIGH_AVAILABILITY,
    MOST_DECIMALS_OF_A_BID,
    RELEASE_LABELS_PER_PAGE,
    SHORTEST_IDLE_S,
    invalid_request,
    unknown_release,
    validation,
)
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, Step
from headrace.spark_submit.emr_releases import EMR, Release, UnknownRelease, release_of, releases


def _applications(release: Release) -> list[tuple[str, str]]:
    """Return the applications in the table, with "the concise version" (API_DescribeReleaseLabel)."""
    versions = [("Hadoop", release.hadoop), ("Spark", release.spark)]
    return [(name, version.partition("-")[0]) for name, version in versions if version]


def _has(release: Release, application: str) -> bool:
    """Return whether a release has an application, given with its version (`Spark@3.5.6`) or without."""
    name, _, version = application.partition("@")
    return any(
        name.lower() == has.lower() and version in ("", number)
        for has, number in _applications(release)
    )


@operation("ListReleaseLabels")
def list_release_labels(
    emr: Emr, call: Call, request: shapes.ListReleaseLabelsInput
) -> shapes.ListReleaseLabelsOutput:
    """Return the labels of EMR on EC2, newest first, filtered by prefix and application."""
    filters = request.get("Filters") or {}
    prefix, application = filters.get("Prefix", ""), filters.get("Application", "")
    labels = [
        release.label
        for release in releases(EMR)
        if release.label.startswith(prefix) and (not application or _has(release, application))
    ]
    most = request.get("MaxResults", RELEASE_LABELS_PER_PAGE)
    shown, token = page(labels, request.get("NextToken"), most)
    return present({"ReleaseLabels": shown, "NextToken": token})


@operation("DescribeReleaseLabel")
def describe_release_label(
    emr: Emr, call: Call, request: shapes.DescribeReleaseLabelInput
) -> shapes.DescribeReleaseLabelOutput:
    """Return a release's applications; the table has no builds of Amazon Linux."""
    label = request.get("ReleaseLabel", "")
    try:
        release = release_of(label, EMR)
    except UnknownRelease as error:
        raise invalid_request(unknown_release(error)) from None
    applications: list[shapes.SimplifiedApplication] = [
        {"Name": name, "Version": version} for name, version in _applications(release)
    ]
    return {"ReleaseLabel": label, "Applications": applications, "AvailableOSReleases": []}


_REVISE = "Revise the configuration and resubmit."
# A cluster has at most one group of these roles; it may have several task groups.
_ONLY_ONE = ("MASTER", "CORE")
_PROVISIONED = "io1"
_WITHOUT_IOPS = ("gp2", "standard", "st1", "sc1")


def check_instances(instances: shapes.JobFlowInstancesConfig) -> None:
    """Raise AwsError for instances that AWS refuses as a whole: how they are given, and their subnets."""
    # The order of mrjob's mock: subnets, then the kind of configuration.
    subnets = instances.get("Ec2SubnetIds") or []
    if instances.get("Ec2SubnetId") and subnets:
        # Assumed: no report of AWS's sentence was found.
        raise validation("Only one of Ec2SubnetId and Ec2SubnetIds may be specified.")
    if len(subnets) > 1 and not instances.get("InstanceFleets"):
        raise validation(
            "Only one subnet may be specified for clusters configured with instance groups or instance count, master "
            f"and slave instance type. {_REVISE}"
        )
    by_count = any(
        instances.get(name) for name in ("InstanceCount", "MasterInstanceType", "SlaveInstanceType")
    )
    kinds = (by_count, bool(instances.get("InstanceGroups")), bool(instances.get("InstanceFleets")))
    if sum(kinds) > 1:
        raise validation(
            "Please configure instances using one and only one of the following: instance groups; instance fleets; "
            "instance count, master and slave instance type."
        )


def check_groups(groups: Sequence[shapes.InstanceGroupConfig]) -> None:
    """Raise AwsError for instance groups of which AWS makes no cluster."""
    roles = [group["InstanceRole"] for group in groups]
    _check_roles(roles, _ONLY_ONE)
    for group in groups:
        check_group(group)
    if "TASK" in roles and "CORE" not in roles:
        raise validation("Clusters with task nodes must also define core nodes.")
    if "MASTER" not in roles:
        raise validation(
            "Zero master instance groups supplied, you must specify exactly one master instance group"
        )
    masters = next(g["InstanceCount"] for g in groups if g["InstanceRole"] == "MASTER")
    if masters not in (1, MASTERS_OF_HIGH_AVAILABILITY):
        raise validation("Master instance group must have exactly 3 instances for HA clusters.")


def check_group(group: shapes.InstanceGroupConfig) -> None:
    """Raise AwsError for a group that AWS refuses, in a new cluster or a running one."""
    if group["InstanceCount"] < 1:
        raise validation("An instance group must have at least one instance")
    price = group.get("BidPrice")
    if price is not None:
        if group.get("Market", "ON_DEMAND") != "SPOT":
            raise validation("Attempted to set bid price for on demand instance group.")
        _check_bid(price, "group", validation)
    _check_volumes(group, validation)


def check_fleets(fleets: Sequence[shapes.InstanceFleetConfig]) -> None:
    """Raise AwsError for instance fleets of which AWS makes no cluster."""
    kinds = [fleet["InstanceFleetType"] for fleet in fleets]
    _check_roles(kinds, ("MASTER", "CORE", "TASK"))
    for fleet in fleets:
        check_fleet(fleet, validation)
    if "TASK" in kinds and "CORE" not in kinds:
        raise validation(
            "Clusters with task instance fleets must also define core instance fleets."
        )
    if "MASTER" not in kinds:
        raise validation(
            "No master instance fleets were supplied; you must specify exactly one master instance fleet. "
            + _REVISE
        )


def check_fleet(fleet: shapes.InstanceFleetConfig, error: Callable[[str], AwsError]) -> None:
    """Raise `error` for a fleet that AWS refuses, in a new cluster or a running one."""
    check_types(fleet, error)
    name, kind = fleet.get("Name", "null"), fleet["InstanceFleetType"]
    capacity = (fleet.get("TargetOnDemandCapacity") or 0) + (fleet.get("TargetSpotCapacity") or 0)
    if kind == "MASTER" and capacity != 1:
        raise error(f"A master instance fleet can only have a target capacity of 1. {_REVISE}")
    if capacity < 1:
        raise error(
            f"The instance fleet ({name}) should have a value of one or greater for either targetOnDemandCapacity or "
            "targetSpotCapacity."
        )


def check_types(fleet: shapes.InstanceFleetConfig, error: Callable[[str], AwsError]) -> None:
    """Raise `error` for instance types that AWS refuses in a fleet."""
    name, kind = fleet.get("Name", "null"), fleet["InstanceFleetType"]
    configs = fleet.get("InstanceTypeConfigs") or []
    counts = Counter(config["InstanceType"] for config in configs)
    duplicates = ", ".join(kind for kind, count in counts.items() if count > 1)
    if duplicates:
        raise error(
            f"The instance fleet: {name} contains duplicate instance types [{duplicates}]. {_REVISE}"
        )
    for config in configs:
        _check_type(config, name, kind, error)


def _check_type(
    config: shapes.InstanceTypeConfig, name: str, kind: str, error: Callable[[str], AwsError]
) -> None:
    weight = config.get("WeightedCapacity", 1)
    if kind == "MASTER" and weight != 1:
        raise error(
            f"All instance types in the master instance fleet must have weighted capacity as 1. {_REVISE}"
        )
    if weight < 1:
        raise error(f"Weighted capacity cannot be zero. {_REVISE}")
    price = config.get("BidPrice")
    if price is not None and "BidPriceAsPercentageOfOnDemandPrice" in config:
        raise error(
            "Specify at most one of bidPrice or bidPriceAsPercentageOfOnDemandPrice value for the Spot Instance fleet "
            f": {name} request."
        )
    if price is not None:
        _check_bid(price, "fleet", error)
    _check_volumes(config, error)


def _check_roles(roles: Sequence[str], only_once: Sequence[str]) -> None:
    for role in only_once:
        if roles.count(role) > 1:
            name = role.lower()
            raise validation(
                f"Multiple {name} instance groups supplied, you must specify exactly one {name} instance group"
            )


def _check_bid(
    price: str, holder: Literal["group", "fleet"], error: Callable[[str], AwsError]
) -> None:
    try:
        is_positive = Decimal(price) > 0
    except InvalidOperation:
        raise error(f"The bid price supplied for an instance {holder} is invalid") from None
    if not is_positive:
        raise error("The bid price is negative or zero.")
    if len(price.partition(".")[2]) > MOST_DECIMALS_OF_A_BID:
        raise error("No more than 3 digits are allowed after decimal place in bid price")


def _check_volumes(holder: VolumesMember, error: Callable[[str], AwsError]) -> None:
    for volume in ebs_devices(holder):
        specification = volume["VolumeSpecification"]
        kind, iops = specification["VolumeType"], specification.get("Iops")
        if kind == _PROVISIONED and iops is None:
            raise error("IOPS setting is required for volume type.")
        if kind in _WITHOUT_IOPS and iops is not None:
            raise error("IOPS setting is not supported for volume type")


# A dimension's placeholder for the cluster id (documented: emr-automatic-scaling).
_CLUSTER_ID = "${emr.clusterId}"


def check_constraints(policy: shapes.AutoScalingPolicy) -> None:
    """Raise AwsError when an automatic scaling policy's minimum exceeds its maximum; the sentence is assumed."""
    bounds = policy["Constraints"]
    if not 0 <= bounds["MinCapacity"] <= bounds["MaxCapacity"]:
        raise validation("MinCapacity must be at least 0 and not greater than MaxCapacity.")


def describe_policy(
    cluster: Cluster, policy: shapes.AutoScalingPolicy
) -> shapes.AutoScalingPolicyDescription:
    """Return a group's AutoScalingPolicyDescription for this cluster."""
    shown = copy.deepcopy(policy)
    for rule in shown["Rules"]:
        alarm = rule["Trigger"]["CloudWatchAlarmDefinition"]
        for dimension in alarm.get("Dimensions") or []:
            if dimension.get("Value") == _CLUSTER_ID:
                dimension["Value"] = cluster.id
    state = "DETACHED" if cluster.ending else "ATTACHED"
    return {
        "Status": {
            "State": state,
            "StateChangeReason": {"Code": "USER_REQUEST", "Message": ""},
        },
        **shown,
    }


def check_managed(policy: shapes.ManagedScalingPolicy, *, fleets: bool) -> None:
    """Raise AwsError when a managed scaling policy has contradictory limits or the wrong units for the cluster.

    Documented: API_ComputeLimits (fleets take InstanceFleetUnits, groups Instances or VCPU); the sentences are assumed.
    """
    limits = policy.get("ComputeLimits")
    if limits is None:
        return
    least, most = limits["MinimumCapacityUnits"], limits["MaximumCapacityUnits"]
    if least < 1 or most < least:
        raise invalid_request(
            "MinimumCapacityUnits must be at least 1 and not greater than MaximumCapacityUnits."
        )
    for name in ("MaximumOnDemandCapacityUnits", "MaximumCoreCapacityUnits"):
        if (limits.get(name) or 0) > most:  # pyrefly: ignore[unsupported-operation]
            raise invalid_request(f"{name} must not be greater than MaximumCapacityUnits.")
    if (limits["UnitType"] == "InstanceFleetUnits") is not fleets:
        kind = "fleets" if fleets else "groups"
        raise invalid_request(
            f"UnitType {limits['UnitType']} is not valid for a cluster that uses instance {kind}."
        )


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
