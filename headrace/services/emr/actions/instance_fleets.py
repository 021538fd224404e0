"""ListInstanceFleets: the fleets that RunJobFlow asked for; there are no machines behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.aws.operation import Call, operation
from headrace.services.emr.actions.common import moment, present
from headrace.services.emr.errors import invalid_request
from headrace.services.emr.members import structures
from headrace.services.emr.model import ENDED_CLUSTER, Cluster

if TYPE_CHECKING:
    from headrace.services.emr.service import Emr


@operation("ListInstanceFleets")
def list_instance_fleets(emr: Emr, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster's fleets. Raises AwsError for a cluster of instance groups."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    fleets = structures(cluster.request["Instances"], "InstanceFleets")
    if not fleets:
        raise invalid_request(
            "Instance fleets and instance groups are mutually exclusive. The EMR cluster specified in the request "
            "uses instance groups. The ListInstanceFleets request does not support clusters that use instance groups. "
            "Use the ListInstanceGroups request instead."
        )
    return {"InstanceFleets": [_described(cluster, fleet) for fleet in fleets]}


def _described(cluster: Cluster, fleet: dict[str, Any]) -> dict[str, Any]:
    ended = cluster.state in ENDED_CLUSTER
    kind = fleet["InstanceFleetType"]
    on_demand = fleet.get("TargetOnDemandCapacity") or 0
    spot = fleet.get("TargetSpotCapacity") or 0
    return present(
        {
            # A cluster has one fleet of each kind at most, so its own id makes theirs.
            "Id": f"if-{kind[0]}{cluster.id[3:]}",
            "Name": fleet.get("Name"),
            "InstanceFleetType": kind,
            "TargetOnDemandCapacity": on_demand,
            "TargetSpotCapacity": spot,
            "ProvisionedOnDemandCapacity": 0 if ended else on_demand,
            "ProvisionedSpotCapacity": 0 if ended else spot,
            "InstanceTypeSpecifications": [
                present(
                    {
                        "InstanceType": config.get("InstanceType"),
                        "WeightedCapacity": config.get("WeightedCapacity") or 1,
                        "BidPrice": config.get("BidPrice"),
                        "Configurations": structures(config, "Configurations"),
                    }
                )
                for config in structures(fleet, "InstanceTypeConfigs")
            ],
            "LaunchSpecifications": fleet.get("LaunchSpecifications"),
            "Status": {
                "State": "TERMINATED" if ended else "RUNNING",
                "StateChangeReason": {"Message": ""},
                "Timeline": present(
                    {
                        "CreationDateTime": moment(cluster.created_ms),
                        "ReadyDateTime": moment(cluster.ready_ms),
                        "EndDateTime": moment(cluster.ended_ms),
                    }
                ),
            },
        }
    )
