"""RDS: instances, clusters and their groups, as stored settings."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

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
        {"ParameterName": name, "ParameterValue": str(value), "ApplyMethod": "pending-reboot"}
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
]
