"""EMR on EKS: virtual clusters and the namespaces that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


def _create(client: Any, eks: str, namespace: str = "spark", **more: Any) -> str:
    provider = {"type": "EKS", "id": eks, "info": {"eksInfo": {"namespace": namespace}}}
    return client.create_virtual_cluster(name="v", containerProvider=provider, **more)["id"]


def test_a_virtual_cluster_holds_its_namespace_until_it_is_deleted(lab: MotoLab) -> None:
    client = lab.client("emr-containers")
    first = _create(client, "one")
    others = {_create(client, "two"), _create(client, "one", "etl")}
    with pytest.raises(ClientError, match="already exists in the given namespace") as refusal:
        _create(client, "one")
    assert refusal.value.response["Error"]["Code"] == "ValidationException"
    client.delete_virtual_cluster(id=first)
    again = _create(client, "one")
    running = client.list_virtual_clusters(states=["RUNNING"])["virtualClusters"]
    assert {cluster["id"] for cluster in running} == {again, *others}
    assert client.describe_virtual_cluster(id=first)["virtualCluster"]["state"] == "TERMINATED"


def test_virtual_clusters_are_listed_by_the_moment_of_their_creation(lab: MotoLab) -> None:
    client = lab.client("emr-containers")
    made = _create(client, "one")
    at = client.describe_virtual_cluster(id=made)["virtualCluster"]["createdAt"]
    assert (at.hour, at.minute, at.second) != (0, 0, 0)
    second = timedelta(seconds=1)
    for params, found in (
        ({"createdAfter": at - second, "createdBefore": at + second}, [made]),
        ({"createdAfter": at + second}, []),
        ({"createdBefore": at - second}, []),
    ):
        listed = client.list_virtual_clusters(**params)["virtualClusters"]
        assert [cluster["id"] for cluster in listed] == found


def test_the_tags_of_a_virtual_cluster_change(lab: MotoLab) -> None:
    client = lab.client("emr-containers")
    made = _create(client, "one", tags={"a": "1", "b": "2"})
    arn = client.describe_virtual_cluster(id=made)["virtualCluster"]["arn"]
    client.tag_resource(resourceArn=arn, tags={"b": "3", "c": "4"})
    client.untag_resource(resourceArn=arn, tagKeys=["a", "d"])
    tags = {"b": "3", "c": "4"}
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == tags
    assert client.describe_virtual_cluster(id=made)["virtualCluster"]["tags"] == tags
    for call, more in (
        (client.list_tags_for_resource, {}),
        (client.tag_resource, {"tags": tags}),
        (client.untag_resource, {"tagKeys": ["b"]}),
    ):
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            call(resourceArn=f"{arn}0", **more)
