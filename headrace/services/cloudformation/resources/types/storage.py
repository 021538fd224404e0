"""Types of storage beside S3: S3 Tables, EFS, AWS Backup, Transfer Family.

S3 Tables: table buckets, namespaces, and tables with their columns.

EFS: file systems, mount targets, access points.

AWS Backup: vaults and plans.

Transfer Family: servers and users, as stored settings: nothing listens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
    list_removed_tags,
)


def _server_id(values: Values) -> str:
    return values.id.rpartition("/")[2]


def _server_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("transfer", *scope, f"server/{values.answer['ServerId']}")


def _user_arn(values: Values) -> str:
    scope = values.context.region, values.context.account
    return make_arn("transfer", *scope, f"user/{values.get('ServerId')}/{values.get('UserName')}")


_USER = {"ServerId": "ServerId", "UserName": "UserName"}


_VAULT = build_arn("backup", "backup-vault:")


def _has_gone(name: str) -> Callable[[Values], bool]:
    """Return whether an update removes tags."""
    return lambda values: list_removed_tags(name)(values) is not None


_SERVICE = "s3tables"
_BUCKET: dict[str, Source] = {"tableBucketARN": "TableBucketARN"}
_TABLE: dict[str, Source] = {**_BUCKET, "namespace": "Namespace", "name": "TableName"}


@declare_sources("IcebergMetadata")
def _build_metadata(values: Values) -> dict[str, Any] | None:
    """Return CreateTable's metadata; the names of its schema are AWS's API's, not the template's."""
    iceberg_metadata: dict[str, Any] | None = values.get("IcebergMetadata")
    if not iceberg_metadata:
        return None
    names: dict[str, tuple[str, dict[str, str]]] = {
        "IcebergSchema": ("schema", {"SchemaFieldList": "fields"}),
        "IcebergSchemaV2": (
            "schemaV2",
            {"SchemaV2FieldList": "fields", "SchemaV2FieldType": "type"},
        ),
        "IcebergPartitionSpec": ("partitionSpec", {}),
        "IcebergSortOrder": ("writeOrder", {}),
    }
    metadata: dict[str, Any] = {"properties": iceberg_metadata.get("TableProperties") or {}}
    for name, (member, renamed) in names.items():
        if name in iceberg_metadata:
            metadata[member] = _rename(iceberg_metadata[name], renamed)
    return {"iceberg": {name: value for name, value in metadata.items() if value}}


def _rename(value: Any, names: dict[str, str]) -> Any:
    """Return a template's value with the API's member names, and its numbers and booleans as such."""
    if isinstance(value, list):
        return [_rename(item, names) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for name, item in cast("dict[str, Any]", value).items():
        member = names.get(name, name[0].lower() + name[1:])
        if member == "required":
            renamed[member] = str(item).lower() == "true"
        elif member in ("id", "sourceId", "fieldId", "specId", "orderId", "schemaId"):
            renamed[member] = int(item)
        else:
            renamed[member] = _rename(item, names)
    return renamed


DECLARED = [
    DeclaredType(
        "AWS::S3Tables::TableBucket",
        _SERVICE,
        create=[Call("CreateTableBucket", {"name": "TableBucketName"})],
        id="@answer.arn",
        read=Call("GetTableBucket", {"tableBucketARN": "@id"}),
        exists=lambda v: any(
            one["name"] == v.get("TableBucketName")
            for one in v.context.call(_SERVICE, "ListTableBuckets", {})["tableBuckets"]
        ),
        delete=[Call("DeleteTableBucket", {"tableBucketARN": "@id"})],
        # It can be deleted only when it is empty.
        deletes_others=True,
        attributes={"TableBucketARN": "@id"},
    ),
    DeclaredType(
        "AWS::S3Tables::Namespace",
        _SERVICE,
        create=[
            Call(
                "CreateNamespace",
                {
                    **_BUCKET,
                    "namespace": declare_sources("Namespace")(lambda v: [v.get("Namespace")]),
                },
            )
        ],
        id=lambda v: f"{v.get('TableBucketARN')}|{v.get('Namespace')}",
        read=Call("GetNamespace", {**_BUCKET, "namespace": "Namespace"}),
        delete=[Call("DeleteNamespace", {**_BUCKET, "namespace": "Namespace"})],
        deletes_others=True,
    ),
    DeclaredType(
        "AWS::S3Tables::Table",
        _SERVICE,
        create=[
            Call(
                "CreateTable",
                {**_TABLE, "format": "OpenTableFormat", "metadata": _build_metadata},
            )
        ],
        id="@answer.tableARN",
        read=Call("GetTable", _TABLE),
        update=[
            Call(
                "RenameTable",
                {
                    **_BUCKET,
                    "namespace": lambda v: v.old["Namespace"],
                    "name": lambda v: v.old["TableName"],
                    "newNamespaceName": "Namespace",
                    "newName": "TableName",
                },
            )
        ],
        delete=[Call("DeleteTable", _TABLE)],
        # Its rows would be gone.
        deletes_others=True,
        attributes={
            "TableARN": "@id",
            "VersionToken": "@answer.versionToken",
            "WarehouseLocation": "@answer.warehouseLocation",
        },
        unread=frozenset({"IcebergMetadata"}),
    ),
    DeclaredType(
        "AWS::EFS::FileSystem",
        "efs",
        create=[Call("CreateFileSystem")],
        id="@answer.FileSystemId",
        # Deleting it would delete its files.
        deletes_others=True,
        tag=("TagResource", "UntagResource", "ResourceId", "@id"),
        read=Call("DescribeFileSystems", {"FileSystemId": "@id"}),
        delete=[Call("DeleteFileSystem", {"FileSystemId": "@id"})],
    ),
    DeclaredType(
        "AWS::EFS::AccessPoint",
        "efs",
        create=[Call("CreateAccessPoint", {"ClientToken": lambda v: v.context.ids.uuid()})],
        id="@answer.AccessPointId",
        delete=[Call("DeleteAccessPoint", {"AccessPointId": "@id"})],
        names={"AccessPointTags": "Tags"},
        attributes={"AccessPointId": "@id", "Arn": "@answer.AccessPointArn"},
    ),
    DeclaredType(
        "AWS::EFS::MountTarget",
        "efs",
        create=[Call("CreateMountTarget")],
        id="@answer.MountTargetId",
        update=[
            Call(
                "ModifyMountTargetSecurityGroups",
                {"MountTargetId": "@id"},
                only=("SecurityGroups",),
            )
        ],
        delete=[Call("DeleteMountTarget", {"MountTargetId": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::Backup::BackupVault",
        "backup",
        create=[Call("CreateBackupVault")],
        id="BackupVaultName",
        update=[
            Call(
                "TagResource",
                {"ResourceArn": _VAULT, "Tags": "BackupVaultTags"},
                only=(),
                when="BackupVaultTags",
            ),
            Call(
                "UntagResource",
                {"ResourceArn": _VAULT, "TagKeyList": list_removed_tags("BackupVaultTags")},
                only=(),
                only_if=_has_gone("BackupVaultTags"),
            ),
        ],
        delete=[Call("DeleteBackupVault", {"BackupVaultName": "@id"})],
        name="BackupVaultName",
        name_length=50,
    ),
    DeclaredType(
        "AWS::Backup::BackupPlan",
        "backup",
        create=[Call("CreateBackupPlan")],
        id="@answer.BackupPlanId",
        delete=[Call("DeleteBackupPlan", {"BackupPlanId": "@id"})],
        names={"BackupPlanRule": "Rules", "TargetBackupVault": "TargetBackupVaultName"},
        attributes={"BackupPlanId": "@id"},
    ),
    DeclaredType(
        "AWS::Transfer::User",
        "transfer",
        create=[Call("CreateUser")],
        id=_user_arn,
        read=Call("DescribeUser", _USER),
        # moto has no UpdateUser: a user is created again under its name.
        name="UserName",
        delete=[Call("DeleteUser", _USER)],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::Transfer::Server",
        "transfer",
        create=[Call("CreateServer")],
        id=_server_arn,
        read=Call("DescribeServer", {"ServerId": _server_id}),
        delete=[Call("DeleteServer", {"ServerId": _server_id})],
        attributes={"Arn": "@id", "ServerId": _server_id, "State": "@answer.Server.State"},
    ),
]
