"""OpenID Connect providers and service-linked roles: the calls that moto lacks, and AWS's refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

URL = "https://token.actions.githubusercontent.com"


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


def test_a_provider_s_clients_are_added_and_removed_again_without_an_error(
    cloud: InProcessCloud,
) -> None:
    iam = cloud.client("iam")
    arn = iam.create_open_id_connect_provider(Url=URL, ClientIDList=["a"])[
        "OpenIDConnectProviderArn"
    ]
    named = {"OpenIDConnectProviderArn": arn}
    for client in ("b", "b"):
        iam.add_client_id_to_open_id_connect_provider(**named, ClientID=client)
    for client in ("a", "a"):
        iam.remove_client_id_from_open_id_connect_provider(**named, ClientID=client)
    assert iam.get_open_id_connect_provider(**named)["ClientIDList"] == ["b"]

    with pytest.raises(ClientError) as refused:
        iam.create_open_id_connect_provider(Url=URL)
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"]) == (
        "EntityAlreadyExists",
        f"Provider with url {URL} already exists.",
    )


def test_a_service_linked_role_is_made_once_and_of_services_only(cloud: InProcessCloud) -> None:
    iam = cloud.client("iam")
    service = "autoscaling.amazonaws.com"
    name = iam.create_service_linked_role(AWSServiceName=service)["Role"]["RoleName"]
    with pytest.raises(ClientError) as refused:
        iam.create_service_linked_role(AWSServiceName=service)
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"]) == (
        "InvalidInput",
        f"Service role name {name} has been taken in this account, please try a different suffix.",
    )
    with pytest.raises(ClientError) as refused:
        iam.create_service_linked_role(AWSServiceName="autoscaling")
    assert refused.value.response["Error"]["Code"] == "InvalidInput"


def test_a_cluster_without_a_policy_has_none_to_read(cloud: InProcessCloud) -> None:
    kafka = cloud.client("kafka")
    serverless = {"VpcConfigs": [{"SubnetIds": ["subnet-1"]}]}
    arn = kafka.create_cluster_v2(ClusterName="c", Serverless=serverless)["ClusterArn"]
    with pytest.raises(kafka.exceptions.NotFoundException):
        kafka.get_cluster_policy(ClusterArn=arn)
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    kafka.put_cluster_policy(ClusterArn=arn, Policy=policy)
    assert kafka.get_cluster_policy(ClusterArn=arn)["Policy"] == policy
