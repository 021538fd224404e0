"""A number in a request does not make moto make a million objects under the lock that its services share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

MANY = 10_000_000
ROLE = "arn:aws:iam::000000000000:role/r"
SPEC = {"ImageId": "ami-12c6146b", "InstanceType": "t2.micro"}
Client = Callable[[str], Any]


def replicate(client: Client, **count: int) -> None:
    client("elasticache").create_replication_group(
        ReplicationGroupId="r", ReplicationGroupDescription="d", Engine="redis", **count
    )


ASKED: dict[str, tuple[Callable[[Client], Any], str]] = {
    "spot instances": (
        lambda client: client("ec2").request_spot_instances(
            InstanceCount=MANY, LaunchSpecification=SPEC
        ),
        "MaxSpotInstanceCountExceeded",
    ),
    "hosts": (
        lambda client: client("ec2").allocate_hosts(
            AvailabilityZone="us-east-1a", InstanceType="m5.large", Quantity=MANY
        ),
        "HostLimitExceeded",
    ),
    "nodes of DAX": (
        lambda client: client("dax").create_cluster(
            ClusterName="nodes", NodeType="dax.t3.small", ReplicationFactor=MANY, IamRoleArn=ROLE
        ),
        "NodeQuotaForClusterExceededFault",
    ),
    "groups of caches": (
        lambda client: replicate(client, NumNodeGroups=MANY),
        "NodeQuotaForClusterExceeded",
    ),
    "caches": (
        lambda client: replicate(client, ReplicasPerNodeGroup=MANY),
        "NodeQuotaForClusterExceeded",
    ),
    "shards of MemoryDB": (
        lambda client: client("memorydb").create_cluster(
            ClusterName="c", NodeType="db.t4g.small", ACLName="open-access", NumShards=MANY
        ),
        "NodeQuotaForClusterExceededFault",
    ),
    "connections": (
        lambda client: client("directconnect").create_lag(
            numberOfConnections=MANY, location="l", connectionsBandwidth="1Gbps", lagName="n"
        ),
        "DirectConnectClientException",
    ),
    "instances of a cluster": (
        lambda client: client("sagemaker").create_cluster(
            ClusterName="c",
            InstanceGroups=[
                {
                    "InstanceCount": MANY,
                    "InstanceGroupName": "g",
                    "InstanceType": "ml.c5.large",
                    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x", "OnCreate": "x"},
                    "ExecutionRole": ROLE,
                }
            ],
        ),
        "ResourceLimitExceeded",
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_too_many_at_once_are_refused(lab: MotoLab, what: str) -> None:
    ask, code = ASKED[what]
    with pytest.raises(ClientError) as refused:
        ask(lab.client)
    error = refused.value.response["Error"]  # type: ignore[typeddict-item]
    assert error["Code"] == code  # type: ignore[typeddict-item]
    assert "at once" in error["Message"]  # type: ignore[typeddict-item]


def test_a_few_are_made(lab: MotoLab) -> None:
    made = lab.client("ec2").request_spot_instances(InstanceCount=3, LaunchSpecification=SPEC)
    assert len(made["SpotInstanceRequests"]) == 3
