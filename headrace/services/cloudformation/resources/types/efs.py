"""EFS: file systems, mount targets, access points."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
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
