"""Types of databases: RDS, ElastiCache, Timestream, DMS.

RDS: instances, clusters and their groups, as stored settings.

ElastiCache: clusters and subnet groups.

Timestream: databases and tables.

DMS: endpoints, replication instances and tasks, as stored settings; `headrace cdc` captures a database.
"""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.base import attribute_text
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
    own_name,
)


def _filter_by(name: str) -> Source:
    return lambda values: [{"Name": name, "Values": [values.id]}]


def _identifier(name: str) -> dict[str, Source]:
    return {name: own_name(name, 63)}


def _has_group(values: Values) -> bool:
    name = values.get("ReplicationSubnetGroupIdentifier")
    if not name:
        return False
    rows = values.context.call("dms", "DescribeReplicationSubnetGroups", {})
    groups = rows["ReplicationSubnetGroups"]
    return any(group["ReplicationSubnetGroupIdentifier"] == name for group in groups)


def _has_endpoint(values: Values) -> bool:
    name = values.get("EndpointIdentifier")
    endpoints = values.context.call("dms", "DescribeEndpoints", {})["Endpoints"] if name else ()
    return any(endpoint["EndpointIdentifier"] == name.lower() for endpoint in endpoints)


def _subnets(values: Values, path: str) -> list[str] | None:
    return [subnet["SubnetIdentifier"] for subnet in values.list_answered(path)] or None


def _read_database(kind: str) -> dict[str, Source]:
    """Return where an answer has what it calls by another name than a template does."""
    return {
        "EnableCloudwatchLogsExports": f"@answer.{kind}.0.EnabledCloudwatchLogsExports",
        "EnableIAMDatabaseAuthentication": f"@answer.{kind}.0.IAMDatabaseAuthenticationEnabled",
    }


_TAGS = ("AddTagsToResource", "RemoveTagsFromResource", "ResourceName")


@declare_sources("DeletionProtection")
def _is_protected(values: Values) -> object:
    # A boolean that the template no longer has is false.
    return values.get("DeletionProtection") or False


# Members of ModifyDBInstance and ModifyDBCluster that moto stores.
_MODIFIED = (
    "AllocatedStorage",
    "AutoMinorVersionUpgrade",
    "BackupRetentionPeriod",
    "CACertificateIdentifier",
    "CopyTagsToSnapshot",
    "DBInstanceClass",
    "DBParameterGroupName",
    "EngineVersion",
    "Iops",
    "LicenseModel",
    "MasterUserPassword",
    "MaxAllocatedStorage",
    "MultiAZ",
    "PreferredBackupWindow",
    "PreferredMaintenanceWindow",
    "PromotionTier",
    "PubliclyAccessible",
    "StorageType",
    "VPCSecurityGroups",
)


_CLUSTER_MODIFIED = (
    "AllocatedStorage",
    "BackupRetentionPeriod",
    "CopyTagsToSnapshot",
    "DBClusterInstanceClass",
    "DBClusterParameterGroupName",
    "EngineVersion",
    "Iops",
    "MasterUserPassword",
    "PreferredBackupWindow",
    "PreferredMaintenanceWindow",
    "ScalingConfiguration",
    "ServerlessV2ScalingConfiguration",
    "StorageType",
    "VpcSecurityGroupIds",
)


@declare_sources("Parameters")
def _parameters(values: Values) -> list[dict[str, str]]:
    """Return a group's parameters in the API's form; static ones wait for a reboot, as all can."""
    pairs: dict[str, Any] = values.get("Parameters") or {}
    return [
        {
            "ParameterName": name,
            "ParameterValue": attribute_text(value),
            "ApplyMethod": "pending-reboot",
        }
        for name, value in pairs.items()
    ]


def _set_parameters(kind: str) -> Call:
    """Return the call that sets the parameters of a `DBParameterGroup` or `DBClusterParameterGroup`."""
    members: dict[str, Source] = {f"{kind}Name": f"{kind}Name", "Parameters": _parameters}
    return Call(f"Modify{kind}", members, only=(), when="Parameters")


def _parameter_group(kind: str, **attributes: Source) -> DeclaredType:
    """Return the type of a `DBParameterGroup` or `DBClusterParameterGroup`."""
    name = f"{kind}Name"
    return DeclaredType(
        f"AWS::RDS::{kind}",
        "rds",
        create=[
            Call(f"Create{kind}", {"DBParameterGroupFamily": "Family"}),
            _set_parameters(kind),
        ],
        id=name,
        read=Call(f"Describe{kind}s", {name: "@id"}),
        read_as={"Family": f"@answer.{kind}s.0.DBParameterGroupFamily"},
        update=[_set_parameters(kind)],
        tag=(*_TAGS, f"@answer.{kind}s.0.{kind}Arn"),
        delete=[Call(f"Delete{kind}", {name: "@id"})],
        name=name,
        name_lower=True,
        attributes=attributes,
    )


DECLARED = [
    DeclaredType(
        "AWS::RDS::DBSubnetGroup",
        "rds",
        create=[Call("CreateDBSubnetGroup")],
        id="DBSubnetGroupName",
        read=Call("DescribeDBSubnetGroups", {"DBSubnetGroupName": "@id"}),
        read_as={"SubnetIds": lambda v: _subnets(v, "DBSubnetGroups.0.Subnets")},
        update=[Call("ModifyDBSubnetGroup", {"DBSubnetGroupName": "@id"})],
        tag=(*_TAGS, "@answer.DBSubnetGroups.0.DBSubnetGroupArn"),
        delete=[Call("DeleteDBSubnetGroup", {"DBSubnetGroupName": "@id"})],
        name="DBSubnetGroupName",
        name_lower=True,
    ),
    _parameter_group(
        "DBParameterGroup",
        DBParameterGroupArn="@answer.DBParameterGroups.0.DBParameterGroupArn",
    ),
    DeclaredType(
        "AWS::RDS::DBInstance",
        "rds",
        create=[Call("CreateDBInstance")],
        id="DBInstanceIdentifier",
        read=Call("DescribeDBInstances", {"DBInstanceIdentifier": "@id"}),
        read_as=_read_database("DBInstances"),
        # Deleting it would delete its data and replicas.
        deletes_others=True,
        tag=(*_TAGS, "@answer.DBInstances.0.DBInstanceArn"),
        delete=[
            Call(
                "DeleteDBInstance",
                {"DBInstanceIdentifier": "@id", "SkipFinalSnapshot": lambda _: True},
            )
        ],
        update=[
            Call(
                "ModifyDBInstance",
                {
                    "DBInstanceIdentifier": "@id",
                    "ApplyImmediately": lambda _: True,
                    "DeletionProtection": _is_protected,
                },
                only=_MODIFIED,
            )
        ],
        name="DBInstanceIdentifier",
        name_lower=True,
        names={"VPCSecurityGroups": "VpcSecurityGroupIds"},
        attributes={
            "Endpoint.Address": "@answer.DBInstances.0.Endpoint.Address",
            "Endpoint.Port": lambda v: str(v.list_answered("DBInstances")[0]["Endpoint"]["Port"]),
            "DBInstanceArn": "@answer.DBInstances.0.DBInstanceArn",
        },
    ),
    DeclaredType(
        "AWS::RDS::DBCluster",
        "rds",
        create=[Call("CreateDBCluster")],
        id="DBClusterIdentifier",
        read=Call("DescribeDBClusters", {"DBClusterIdentifier": "@id"}),
        read_as=_read_database("DBClusters"),
        # Deleting it would delete its data and instances.
        deletes_others=True,
        tag=(*_TAGS, "@answer.DBClusters.0.DBClusterArn"),
        delete=[
            Call(
                "DeleteDBCluster",
                {"DBClusterIdentifier": "@id", "SkipFinalSnapshot": lambda _: True},
            )
        ],
        update=[
            Call(
                "ModifyDBCluster",
                {
                    "DBClusterIdentifier": "@id",
                    "ApplyImmediately": lambda _: True,
                    "DeletionProtection": _is_protected,
                },
                only=_CLUSTER_MODIFIED,
            )
        ],
        name="DBClusterIdentifier",
        name_lower=True,
        attributes={
            "Endpoint.Address": "@answer.DBClusters.0.Endpoint",
            "Endpoint.Port": lambda v: str(v.list_answered("DBClusters")[0].get("Port", "")),
            "ReadEndpoint.Address": "@answer.DBClusters.0.ReaderEndpoint",
            "DBClusterArn": "@answer.DBClusters.0.DBClusterArn",
        },
    ),
    _parameter_group("DBClusterParameterGroup"),
    DeclaredType(
        "AWS::RDS::OptionGroup",
        "rds",
        create=[Call("CreateOptionGroup")],
        id="OptionGroupName",
        read=Call("DescribeOptionGroups", {"OptionGroupName": "@id"}),
        tag=(*_TAGS, "@answer.OptionGroupsList.0.OptionGroupArn"),
        delete=[Call("DeleteOptionGroup", {"OptionGroupName": "@id"})],
        name="OptionGroupName",
        name_lower=True,
    ),
    DeclaredType(
        "AWS::RDS::EventSubscription",
        "rds",
        create=[Call("CreateEventSubscription")],
        id="SubscriptionName",
        read=Call("DescribeEventSubscriptions", {"SubscriptionName": "@id"}),
        tag=(*_TAGS, "@answer.EventSubscriptionsList.0.EventSubscriptionArn"),
        delete=[Call("DeleteEventSubscription", {"SubscriptionName": "@id"})],
        name="SubscriptionName",
        name_length=255,
    ),
    DeclaredType(
        "AWS::ElastiCache::SubnetGroup",
        "elasticache",
        create=[Call("CreateCacheSubnetGroup")],
        id="CacheSubnetGroupName",
        read=Call("DescribeCacheSubnetGroups", {"CacheSubnetGroupName": "@id"}),
        read_as={"SubnetIds": lambda v: _subnets(v, "CacheSubnetGroups.0.Subnets")},
        update=[Call("ModifyCacheSubnetGroup", {"CacheSubnetGroupName": "@id"})],
        tag=(*_TAGS, build_arn("elasticache", "subnetgroup:")),
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
        tag=(*_TAGS, build_arn("elasticache", "cluster:")),
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
        read_as={
            "AutomaticFailoverEnabled": lambda v: (
                v.answer["ReplicationGroups"][0].get("AutomaticFailover") in ("enabled", "enabling")
            ),
            "NumCacheClusters": lambda v: len(v.answer["ReplicationGroups"][0]["MemberClusters"]),
            "ReplicationGroupDescription": "@answer.ReplicationGroups.0.Description",
        },
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
    DeclaredType(
        "AWS::Timestream::Database",
        "timestream-write",
        create=[Call("CreateDatabase")],
        id="DatabaseName",
        read=Call("DescribeDatabase", {"DatabaseName": "@id"}),
        update=[Call("UpdateDatabase", {"DatabaseName": "@id"})],
        delete=[Call("DeleteDatabase", {"DatabaseName": "@id"})],
        name="DatabaseName",
        name_length=256,
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Database.Arn"),
    ),
    DeclaredType(
        "AWS::Timestream::Table",
        "timestream-write",
        create=[Call("CreateTable")],
        id=lambda v: f"{v.get('DatabaseName')}|{v.get('TableName')}",
        read=Call("DescribeTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"}),
        update=[Call("UpdateTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"})],
        delete=[Call("DeleteTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"})],
        name="TableName",
        name_length=256,
        attributes={"Name": "TableName"},
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Table.Arn"),
    ),
    DeclaredType(
        "AWS::DMS::Endpoint",
        "dms",
        create=[Call("CreateEndpoint")],
        name="EndpointIdentifier",
        name_length=63,
        id="@answer.Endpoint.EndpointArn",
        read=Call("DescribeEndpoints", {"Filters": _filter_by("endpoint-arn")}),
        exists=_has_endpoint,
        delete=[Call("DeleteEndpoint", {"EndpointArn": "@id"})],
        attributes={"EndpointArn": "@id", "ExternalId": lambda v: v.last},
    ),
    DeclaredType(
        "AWS::DMS::ReplicationInstance",
        "dms",
        create=[
            Call("CreateReplicationInstance", _identifier("ReplicationInstanceIdentifier")),
        ],
        id="@answer.ReplicationInstance.ReplicationInstanceArn",
        read=Call(
            "DescribeReplicationInstances", {"Filters": _filter_by("replication-instance-arn")}
        ),
        delete=[Call("DeleteReplicationInstance", {"ReplicationInstanceArn": "@id"})],
        attributes={
            "Id": "@id",
            **{
                f"ReplicationInstance{kind}IpAddresses": (
                    f"@answer.ReplicationInstances.0.ReplicationInstance{kind}IpAddresses"
                )
                for kind in ("Private", "Public")
            },
        },
    ),
    DeclaredType(
        "AWS::DMS::ReplicationTask",
        "dms",
        create=[Call("CreateReplicationTask", _identifier("ReplicationTaskIdentifier"))],
        id="@answer.ReplicationTask.ReplicationTaskArn",
        read=Call("DescribeReplicationTasks", {"Filters": _filter_by("replication-task-arn")}),
        delete=[Call("DeleteReplicationTask", {"ReplicationTaskArn": "@id"})],
        attributes={"ReplicationTaskArn": "@id"},
    ),
    DeclaredType(
        "AWS::DMS::ReplicationSubnetGroup",
        "dms",
        create=[Call("CreateReplicationSubnetGroup")],
        id="ReplicationSubnetGroupIdentifier",
        exists=_has_group,
        name="ReplicationSubnetGroupIdentifier",
        name_lower=True,
        delete=[Call("DeleteReplicationSubnetGroup", {"ReplicationSubnetGroupIdentifier": "@id"})],
    ),
]
