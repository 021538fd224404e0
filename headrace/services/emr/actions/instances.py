"""ListInstances: the instances that groups and fleets would have on AWS."""

from __future__ import annotations

import math
from collections.abc import Iterator

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import present
from headrace.services.emr.actions.common import VolumesMember, ebs_devices, instance_status, page
from headrace.services.emr.backend import Emr
from headrace.services.emr.clusters.instance_ids import fleet_id, instance_ids
from headrace.services.emr.errors import invalid_request
from headrace.services.emr.limits import INSTANCES_PER_PAGE
from headrace.services.emr.state import Cluster, InstanceFleet, InstanceGroup

_OF_GROUPS = ("InstanceGroupId", "InstanceGroupTypes")
_OF_FLEETS = ("InstanceFleetId", "InstanceFleetType")


@operation("ListInstances")
def list_instances(
    emr: Emr, call: Call, request: shapes.ListInstancesInput
) -> shapes.ListInstancesOutput:
    """Return the instances that the cluster was requested with; their ids are invented but stable."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        of_fleets = bool(cluster.fleets)
        wrong = _OF_GROUPS if of_fleets else _OF_FLEETS
        if any(request.get(name) for name in wrong):
            raise invalid_request(
                "Instance fleets and instance groups are mutually exclusive. The EMR cluster specified in the request "
                f"uses instance {'fleets' if of_fleets else 'groups'}."
            )
        instances = _of_fleets(cluster, request) if of_fleets else _of_groups(cluster, request)
        state, states = instance_status(cluster)["State"], request.get("InstanceStates")
        listed = list(instances)
    if states and state not in states:
        listed = []
    shown, marker = page(listed, request.get("Marker"), INSTANCES_PER_PAGE)
    return present({"Instances": shown, "Marker": marker})


def _of_groups(cluster: Cluster, request: shapes.ListInstancesInput) -> Iterator[shapes.Instance]:
    wanted_id, roles = request.get("InstanceGroupId"), request.get("InstanceGroupTypes") or []
    if wanted_id and wanted_id not in [group["Id"] for group in cluster.groups]:
        raise invalid_request(f"Instance group id '{wanted_id}' is not valid.")
    for group in cluster.groups:
        if wanted_id not in (None, group["Id"]) or (roles and group["InstanceRole"] not in roles):
            continue
        for number in range(group["InstanceCount"]):
            yield {
                **_instance(cluster, group, group, group["Id"], number),
                "InstanceGroupId": group["Id"],
                "Market": group.get("Market", "ON_DEMAND"),
                "InstanceType": group["InstanceType"],
            }


def _of_fleets(cluster: Cluster, request: shapes.ListInstancesInput) -> Iterator[shapes.Instance]:
    fleets = cluster.fleets
    wanted_id, kind = request.get("InstanceFleetId"), request.get("InstanceFleetType")
    if wanted_id and wanted_id not in [
        fleet_id(cluster, fleet["InstanceFleetType"]) for fleet in fleets
    ]:
        raise invalid_request(f"Instance fleet id '{wanted_id}' is not valid.")
    for fleet in fleets:
        found_id = fleet_id(cluster, fleet["InstanceFleetType"])
        if wanted_id not in (None, found_id) or kind not in (None, fleet["InstanceFleetType"]):
            continue
        # All instances are of the fleet's first instance type.
        configs = fleet.get("InstanceTypeConfigs")
        config = configs[0] if configs else None
        for market, target in (
            ("ON_DEMAND", "TargetOnDemandCapacity"),
            ("SPOT", "TargetSpotCapacity"),
        ):
            weight = (config or {}).get("WeightedCapacity") or 1
            for number in range(math.ceil((fleet.get(target) or 0) / weight)):
                yield present(
                    {
                        **_instance(cluster, fleet, config or {}, f"{found_id}/{market}", number),
                        "InstanceFleetId": found_id,
                        "Market": market,
                        "InstanceType": config and config["InstanceType"],
                    }
                )


def _instance(
    cluster: Cluster,
    holder: InstanceGroup | InstanceFleet,
    volumes: VolumesMember,
    holder_id: str,
    number: int,
) -> shapes.Instance:
    emr_id, ec2_id = instance_ids(holder_id, number)
    return {
        "Id": emr_id,
        "Ec2InstanceId": ec2_id,
        "PublicDnsName": "localhost",
        "PublicIpAddress": "127.0.0.1",
        "PrivateDnsName": "localhost",
        "PrivateIpAddress": "127.0.0.1",
        "Status": instance_status(cluster, holder.get("created_ms")),
        "EbsVolumes": [
            {"Device": device["Device"], "VolumeId": f"vol-{ec2_id[2:]}{number:02d}"[:21]}
            for number, device in enumerate(ebs_devices(volumes))
        ],
    }
