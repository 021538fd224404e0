"""Kinesis Video streams, file systems, and Timestream's tables; all stored."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

TYPES = [
    DeclaredType(
        "AWS::KinesisVideo::Stream",
        "kinesisvideo",
        create=[Call("CreateStream", {"StreamName": "Name"})],
        id="Name",
        read=Call("DescribeStream", {"StreamName": "@id"}),
        delete=[Call("DeleteStream", {"StreamARN": "@answer.StreamInfo.StreamARN"})],
        name="Name",
        name_length=256,
        attributes={"Arn": "@answer.StreamInfo.StreamARN"},
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
]
