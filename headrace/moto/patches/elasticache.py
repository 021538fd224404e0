"""ElastiCache: deletions, updates, and the groups of a cluster."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from headrace.moto.patching import assign, recreate


def allow_deletions(module: Any) -> None:
    """Allow deletions; moto's clusters and replication groups stay in the state deleting for ever."""
    from moto.core.responses import ActionResult, EmptyResult
    from moto.elasticache.models import ElastiCacheBackend

    backend: Any = ElastiCacheBackend
    delete_cluster, delete_group = backend.delete_cache_cluster, backend.delete_replication_group

    @functools.wraps(delete_cluster)
    def delete_cache_cluster(self: Any, cache_cluster_id: str) -> Any:
        cluster = delete_cluster(self, cache_cluster_id)
        self.cache_clusters.pop(cache_cluster_id, None)
        return cluster

    @functools.wraps(delete_group)
    def delete_replication_group(
        self: Any, replication_group_id: str, retain_primary_cluster: bool | None
    ) -> Any:
        group = delete_group(self, replication_group_id, retain_primary_cluster)
        self.replication_groups.pop(replication_group_id, None)
        return group

    backend.delete_cache_cluster = delete_cache_cluster
    backend.delete_replication_group = delete_replication_group

    def delete_cache_subnet_group(self: Any) -> ActionResult:
        name = self._get_param("CacheSubnetGroupName")
        self.elasticache_backend.cache_subnet_groups.pop(name, None)
        return EmptyResult()

    module.ElastiCacheResponse.delete_cache_subnet_group = delete_cache_subnet_group


def show_groups(module: Any) -> None:
    """Show a cluster's groups, topic and endpoint by AWS's names; moto keeps them and does not show them.

    Their statuses are those of a cluster that is available (documented).
    """
    cluster: Any = module.CacheCluster

    def show(name: str, value: Callable[[Any], Any]) -> None:
        setattr(cluster, name, property(value))

    show(
        "cache_parameter_group",
        lambda one: (
            one.cache_parameter_group_name
            and {
                "CacheParameterGroupName": one.cache_parameter_group_name,
                "ParameterApplyStatus": "in-sync",
            }
        ),
    )
    show(
        "cache_security_groups",
        lambda one: [
            {"CacheSecurityGroupName": name, "Status": "active"}
            for name in one.cache_security_group_names
        ],
    )
    show(
        "security_groups",
        lambda one: [
            {"SecurityGroupId": name, "Status": "active"} for name in one.security_group_ids
        ],
    )
    show(
        "notification_configuration",
        lambda one: (
            one.notification_topic_arn
            and {"TopicArn": one.notification_topic_arn, "TopicStatus": "active"}
        ),
    )


def allow_updates(module: Any) -> None:
    """Allow updates of clusters and their subnet groups, which keep what a request omits."""
    from moto.core.responses import ActionResult

    def modify_cache_cluster(self: Any) -> ActionResult:
        parameters = self._get_params()
        (cluster,) = self.elasticache_backend.describe_cache_clusters(
            cache_cluster_id=parameters["CacheClusterId"]
        )
        assign(cluster, parameters, leave=("cache_cluster_id", "engine"))
        return ActionResult({"CacheCluster": cluster})

    def modify_cache_subnet_group(self: Any) -> ActionResult:
        backend, name = self.elasticache_backend, self._get_param("CacheSubnetGroupName")
        (before,) = backend.describe_cache_subnet_groups(cache_subnet_group_name=name)
        description = self._get_param("CacheSubnetGroupDescription")
        values = {
            "CacheSubnetGroupName": name,
            "CacheSubnetGroupDescription": before.cache_subnet_group_description
            if description is None
            else description,
            "SubnetIds": self._get_param("SubnetIds") or before.subnet_ids,
            "Tags": before.tags,
        }
        make, groups = backend.create_cache_subnet_group, backend.cache_subnet_groups
        return ActionResult({"CacheSubnetGroup": recreate(make, groups, name, values)[1]})

    module.ElastiCacheResponse.modify_cache_cluster = modify_cache_cluster
    module.ElastiCacheResponse.modify_cache_subnet_group = modify_cache_subnet_group
