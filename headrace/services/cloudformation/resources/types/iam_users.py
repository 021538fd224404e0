"""IAM's users, groups and access keys, OpenID Connect providers, service-linked roles."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

_USER = {"UserName": "@id"}


_GROUP = {"GroupName": "@id"}


_PROVIDER: dict[str, Source] = {"OpenIDConnectProviderArn": "@id"}
_ROLE: dict[str, Source] = {"RoleName": "@id"}


_LOGIN = Call(
    "CreateLoginProfile",
    {
        **_USER,
        "Password": "LoginProfile.Password",
        "PasswordResetRequired": "LoginProfile.PasswordResetRequired",
    },
    only=(),
    when="LoginProfile",
)


def _has_login(values: Values) -> bool:
    """Whether a user has a password already, which this one would replace."""
    try:
        values.context.call("iam", "GetLoginProfile", {"UserName": values.id})
    except AwsError as error:
        if error.code != "NoSuchEntity":
            raise
        return False
    return True


def _inline_policy(owner: str) -> DeclaredType:
    """Return the type of one inline policy of a role, a user or a group, which is made elsewhere."""
    named: dict[str, Source] = {"PolicyName": "PolicyName", f"{owner}Name": f"{owner}Name"}
    return DeclaredType(
        f"AWS::IAM::{owner}Policy",
        "iam",
        create=[Call(f"Put{owner}Policy")],
        id=lambda v: f"{v.get('PolicyName')}|{v.get(f'{owner}Name')}",
        read=Call(f"Get{owner}Policy", named),
        update=[Call(f"Put{owner}Policy", named, only=("PolicyDocument",))],
        delete=[Call(f"Delete{owner}Policy", named)],
    )


DECLARED = [
    *(_inline_policy(owner) for owner in ("Role", "User", "Group")),
    DeclaredType(
        "AWS::IAM::User",
        "iam",
        create=[
            Call("CreateUser", only=("UserName", "Path", "PermissionsBoundary")),
            Call(
                "PutUserPolicy",
                {
                    **_USER,
                    "PolicyName": "@item.PolicyName",
                    "PolicyDocument": "@item.PolicyDocument",
                },
                only=(),
                each="Policies",
            ),
            Call(
                "AttachUserPolicy",
                {**_USER, "PolicyArn": "@item"},
                only=(),
                each="ManagedPolicyArns",
            ),
            Call("AddUserToGroup", {**_USER, "GroupName": "@item"}, only=(), each="Groups"),
            _LOGIN,
        ],
        id="UserName",
        read=Call("GetUser", _USER),
        delete=[
            Call("DeleteUserPolicy", {**_USER, "PolicyName": "@item.PolicyName"}, each="Policies"),
            Call("DetachUserPolicy", {**_USER, "PolicyArn": "@item"}, each="ManagedPolicyArns"),
            Call("RemoveUserFromGroup", {**_USER, "GroupName": "@item"}, each="Groups"),
            Call("DeleteLoginProfile", _USER, when="LoginProfile"),
            Call("DeleteUser", _USER),
        ],
        name="UserName",
        update=[
            Call(
                "UpdateUser",
                {**_USER, "NewPath": declare_sources("Path")(lambda v: v.get("Path") or "/")},
                only=(),
            ),
            Call("PutUserPermissionsBoundary", _USER, when="PermissionsBoundary"),
            Call(
                "DeleteUserPermissionsBoundary",
                {"UserName": declare_sources("PermissionsBoundary")(lambda v: v.id)},
                only_if=lambda v: not v.get("PermissionsBoundary"),
            ),
            Call(
                "DeleteLoginProfile",
                {"UserName": declare_sources("LoginProfile")(lambda v: v.id)},
                only_if=_has_login,
            ),
            _LOGIN,
        ],
        tag=("TagUser", "UntagUser", "UserName", "@id"),
    ),
    DeclaredType(
        "AWS::IAM::Group",
        "iam",
        create=[
            Call("CreateGroup"),
            Call(
                "PutGroupPolicy",
                {
                    **_GROUP,
                    "PolicyName": "@item.PolicyName",
                    "PolicyDocument": "@item.PolicyDocument",
                },
                only=(),
                each="Policies",
            ),
            Call(
                "AttachGroupPolicy",
                {**_GROUP, "PolicyArn": "@item"},
                only=(),
                each="ManagedPolicyArns",
            ),
        ],
        id="GroupName",
        read=Call("GetGroup", _GROUP),
        # Deleting it would remove its users.
        deletes_others=True,
        update=[
            Call(
                "UpdateGroup",
                {**_GROUP, "NewPath": declare_sources("Path")(lambda v: v.get("Path") or "/")},
                only=(),
            )
        ],
        delete=[
            Call(
                "DeleteGroupPolicy", {**_GROUP, "PolicyName": "@item.PolicyName"}, each="Policies"
            ),
            Call("DetachGroupPolicy", {**_GROUP, "PolicyArn": "@item"}, each="ManagedPolicyArns"),
            Call("DeleteGroup", _GROUP),
        ],
        name="GroupName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::IAM::OIDCProvider",
        "iam",
        create=[
            Call("CreateOpenIDConnectProvider", only=("Url", "ThumbprintList")),
            Call(
                "AddClientIDToOpenIDConnectProvider",
                {**_PROVIDER, "ClientID": "@item"},
                only=(),
                each="ClientIdList",
            ),
        ],
        id="@answer.OpenIDConnectProviderArn",
        read=Call("GetOpenIDConnectProvider", _PROVIDER),
        update=[Call("UpdateOpenIDConnectProviderThumbprint", _PROVIDER)],
        delete=[
            Call(
                "RemoveClientIDFromOpenIDConnectProvider",
                {**_PROVIDER, "ClientID": "@item"},
                each="ClientIdList",
            ),
            Call("DeleteOpenIDConnectProvider", _PROVIDER),
        ],
        tag=(
            "TagOpenIDConnectProvider",
            "UntagOpenIDConnectProvider",
            "OpenIDConnectProviderArn",
            "@id",
        ),
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::IAM::ServiceLinkedRole",
        "iam",
        create=[Call("CreateServiceLinkedRole")],
        id="@answer.Role.RoleName",
        read=Call("GetRole", _ROLE),
        update=[Call("UpdateRoleDescription", _ROLE)],
        delete=[Call("DeleteServiceLinkedRole", _ROLE)],
        attributes={"RoleName": "@id"},
    ),
    DeclaredType(
        "AWS::IAM::AccessKey",
        "iam",
        create=[Call("CreateAccessKey")],
        id="@answer.AccessKey.AccessKeyId",
        update=[Call("UpdateAccessKey", {"AccessKeyId": "@id"})],
        delete=[Call("DeleteAccessKey", {"UserName": "UserName", "AccessKeyId": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::IAM::UserToGroupAddition",
        "iam",
        create=[
            Call(
                "AddUserToGroup",
                {"GroupName": "GroupName", "UserName": "@item"},
                only=(),
                each="Users",
            )
        ],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        delete=[
            Call(
                "RemoveUserFromGroup",
                {"GroupName": "GroupName", "UserName": "@item"},
                each="Users",
            )
        ],
        attributes={"Id": "@id"},
        shared=("Users", "GroupName"),
    ),
]
