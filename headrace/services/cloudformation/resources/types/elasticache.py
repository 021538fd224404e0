"""ElastiCache: clusters and subnet groups."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _arn(kind: str) -> Callable[[Values], str]:
    """Return the source of the ARN of a cache resource."""

    def arn(values: Values) -> str:
        scope = values.context.region, values.context.account
        return make_arn("elasticache", *scope, f"{kind}:{values.id}")

    return arn


_TAGS = ("AddTagsToResource", "RemoveTagsFromResource", "ResourceName")


DECLARED = [
    DeclaredType(
        "AWS::ElastiCache::SubnetGroup",
        "elasticache",
        create=[Call("CreateCacheSubnetGroup")],
        id="CacheSubnetGroupName",
        read=Call("DescribeCacheSubnetGroups", {"CacheSubnetGroupName": "@id"}),
        update=[Call("ModifyCacheSubnetGroup", {"CacheSubnetGroupName": "@id"})],
        tag=(*_TAGS, _arn("subnetgroup")),
        delete=[Call("DeleteCacheSubnetGroup", {"CacheSubnetGroupName": "@id"})],
        name="CacheSubnetGroupName",
        name_lower=True,
        names={"Description": "CacheSubnetGroupDescription"},
    ),
    DeclaredType(
        "AWS::ElastiCache::CacheCluster",
        "elasticache",
        create=[Call("CreateCacheCluster", {"CacheClusterId": "ClusterName"})],
        id="ClusterName",
        read=Call("DescribeCacheClusters", {"CacheClusterId": "@id"}),
        update=[
            Call(
                "ModifyCacheCluster",
                {"CacheClusterId": "@id", "ApplyImmediately": lambda _: True},
                empties=True,
            )
        ],
        tag=(*_TAGS, _arn("cluster")),
        delete=[Call("DeleteCacheCluster", {"CacheClusterId": "@id"})],
        name="ClusterName",
        name_length=40,
        name_lower=True,
        names={"VpcSecurityGroupIds": "SecurityGroupIds"},
        attributes={
            # Nothing listens at this address.
            "ConfigurationEndpoint.Address": lambda v: f"{v.id}.cfg.cache.amazonaws.com",
            "ConfigurationEndpoint.Port": lambda v: str(v.get("Port") or 11211),
            "RedisEndpoint.Address": lambda v: f"{v.id}.cache.amazonaws.com",
            "RedisEndpoint.Port": lambda v: str(v.get("Port") or 6379),
        },
    ),
    DeclaredType(
        "AWS::ElastiCache::ReplicationGroup",
        "elasticache",
        create=[Call("CreateReplicationGroup")],
        id="ReplicationGroupId",
        name="ReplicationGroupId",
        name_length=40,
        name_lower=True,
        read=Call("DescribeReplicationGroups", {"ReplicationGroupId": "@id"}),
        delete=[Call("DeleteReplicationGroup", {"ReplicationGroupId": "@id"})],
        attributes={
            f"{part}.{name}": f"@answer.ReplicationGroups.0.NodeGroups.0.{member}.{name}"
            for part, member in (
                ("PrimaryEndPoint", "PrimaryEndpoint"),
                ("ReaderEndPoint", "ReaderEndpoint"),
            )
            for name in ("Address", "Port")
        },
    ),
]
