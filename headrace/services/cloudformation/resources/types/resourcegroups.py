"""Resource Groups."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::ResourceGroups::Group",
        "resource-groups",
        create=[Call("CreateGroup")],
        id="Name",
        read=Call("GetGroup", {"GroupName": "@id"}),
        update=[
            Call("UpdateGroup", {"GroupName": "@id"}, only=("Description",)),
            Call(
                "UpdateGroupQuery",
                {"GroupName": "@id"},
                only=("ResourceQuery",),
                when="ResourceQuery",
            ),
            Call("PutGroupConfiguration", {"Group": "@id"}, only=("Configuration",)),
        ],
        tag=("Tag", "Untag", "Arn", "@answer.Group.GroupArn"),
        delete=[Call("DeleteGroup", {"GroupName": "@id"})],
        attributes={"Arn": "@answer.Group.GroupArn"},
    ),
]
