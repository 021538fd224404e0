"""Types of identities: Cognito, and IAM's users.

Cognito: user pools, identity pools and their parts.

IAM's users, groups and access keys, OpenID Connect providers, service-linked roles.
"""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)
from headrace.services.cloudformation.resources.types.iam import attached_policies, live_policies

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


_POOL = {"UserPoolId": "@id"}


_OF_POOL = {"UserPoolId": "UserPoolId"}


@declare_sources("RefreshTokenValidity")
def _refresh_days(values: Values) -> int:
    """Return the default of an update without it (documented: API_UpdateUserPoolClient); moto keeps the old value."""
    return int(values.get("RefreshTokenValidity") or 30)


def _has_domain(values: Values) -> bool:
    params = {"Domain": values.get("Domain")}
    answer = values.context.call("cognito-idp", "DescribeUserPoolDomain", params)
    return bool(answer.get("DomainDescription"))


@declare_sources("EnabledMfas")
def _software_token(values: Values) -> dict[str, bool] | None:
    return {"Enabled": True} if "SOFTWARE_TOKEN_MFA" in (values.get("EnabledMfas") or ()) else None


@declare_sources("EnabledMfas", "SmsConfiguration")
def _sms(values: Values) -> dict[str, Any] | None:
    if "SMS_MFA" not in (values.get("EnabledMfas") or ()):
        return None
    return {"SmsConfiguration": values.get("SmsConfiguration") or {}}


def _policies_of(kind: str) -> dict[str, Source]:
    """Return how the policies of a user or a group are read."""
    return {
        "Policies": lambda v: live_policies(v.context, kind, v.id, v.get("Policies")),
        "ManagedPolicyArns": lambda v: attached_policies(v.context, kind, v.id),
    }


DECLARED = [
    DeclaredType(
        "AWS::Cognito::UserPool",
        "cognito-idp",
        create=[
            Call("CreateUserPool"),
            Call(
                "SetUserPoolMfaConfig",
                {
                    **_POOL,
                    "MfaConfiguration": "MfaConfiguration",
                    "SoftwareTokenMfaConfiguration": _software_token,
                    "SmsMfaConfiguration": _sms,
                },
                only=(),
                when="EnabledMfas",
            ),
        ],
        id="@answer.UserPool.Id",
        read=Call("DescribeUserPool", _POOL),
        read_as={"UserPoolName": "@answer.UserPool.Name"},
        update=[Call("UpdateUserPool", _POOL)],
        delete=[Call("DeleteUserPool", _POOL)],
        name="UserPoolName",
        named="@answer.UserPool.Name",
        name_length=128,
        unique=False,
        names={
            "UserPoolName": "PoolName",
            "EmailAuthenticationMessage": "-",
            "EmailAuthenticationSubject": "-",
        },
        attributes={
            "Arn": "@answer.UserPool.Arn",
            "ProviderName": lambda v: f"cognito-idp.{v.context.region}.amazonaws.com/{v.id}",
            "ProviderURL": lambda v: f"https://cognito-idp.{v.context.region}.amazonaws.com/{v.id}",
            "UserPoolId": "@id",
        },
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolClient",
        "cognito-idp",
        create=[Call("CreateUserPoolClient")],
        id="@answer.UserPoolClient.ClientId",
        read=Call("DescribeUserPoolClient", {**_OF_POOL, "ClientId": "@id"}),
        update=[
            Call(
                "UpdateUserPoolClient",
                {**_OF_POOL, "ClientId": "@id", "RefreshTokenValidity": _refresh_days},
            )
        ],
        delete=[Call("DeleteUserPoolClient", {**_OF_POOL, "ClientId": "@id"})],
        name="ClientName",
        named="@answer.UserPoolClient.ClientName",
        name_length=128,
        unique=False,
        attributes={
            "ClientId": "@id",
            "Name": "@answer.UserPoolClient.ClientName",
            "ClientSecret": "@answer.UserPoolClient.ClientSecret",
        },
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolDomain",
        "cognito-idp",
        create=[Call("CreateUserPoolDomain")],
        id="Domain",
        exists=_has_domain,
        delete=[Call("DeleteUserPoolDomain", {**_OF_POOL, "Domain": "@id"})],
        attributes={"Id": "@id", "CloudFrontDistribution": "@answer.CloudFrontDomain"},
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolGroup",
        "cognito-idp",
        create=[Call("CreateGroup")],
        id="GroupName",
        update=[Call("UpdateGroup", {"GroupName": "@id"})],
        delete=[Call("DeleteGroup", {**_OF_POOL, "GroupName": "@id"})],
        name="GroupName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolResourceServer",
        "cognito-idp",
        create=[Call("CreateResourceServer")],
        id="Identifier",
        # moto has no UpdateResourceServer: it is created again under its name.
        name="Identifier",
        unique=False,
        delete=[Call("DeleteResourceServer", {**_OF_POOL, "Identifier": "@id"})],
    ),
    DeclaredType(
        "AWS::Cognito::IdentityPool",
        "cognito-identity",
        create=[Call("CreateIdentityPool")],
        id="@answer.IdentityPoolId",
        read=Call("DescribeIdentityPool", {"IdentityPoolId": "@id"}),
        update=[Call("UpdateIdentityPool", {"IdentityPoolId": "@id"})],
        delete=[Call("DeleteIdentityPool", {"IdentityPoolId": "@id"})],
        name="IdentityPoolName",
        named="@answer.IdentityPoolName",
        name_length=128,
        unique=False,
        attributes={"Id": "@id", "Name": "@answer.IdentityPoolName"},
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolUser",
        "cognito-idp",
        create=[Call("AdminCreateUser", {"Username": own_name("Username", 128)})],
        id="@answer.User.Username",
        delete=[Call("AdminDeleteUser", {"UserPoolId": "UserPoolId", "Username": "@id"})],
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolUserToGroupAttachment",
        "cognito-idp",
        create=[Call("AdminAddUserToGroup")],
        id=lambda v: f"{v.get('UserPoolId')}|{v.get('GroupName')}|{v.get('Username')}",
        delete=[
            Call(
                "AdminRemoveUserFromGroup",
                {"UserPoolId": "UserPoolId", "GroupName": "GroupName", "Username": "Username"},
            )
        ],
    ),
    DeclaredType(
        "AWS::Cognito::UserPoolIdentityProvider",
        "cognito-idp",
        create=[Call("CreateIdentityProvider")],
        id="ProviderName",
        update=[
            Call("UpdateIdentityProvider", {"UserPoolId": "UserPoolId", "ProviderName": "@id"})
        ],
        delete=[
            Call("DeleteIdentityProvider", {"UserPoolId": "UserPoolId", "ProviderName": "@id"})
        ],
    ),
    DeclaredType(
        # moto does not store the roles: the calls only check that the identity pool exists.
        "AWS::Cognito::IdentityPoolRoleAttachment",
        "cognito-identity",
        create=[Call("DescribeIdentityPool", {"IdentityPoolId": "IdentityPoolId"}, only=())],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        delete=[],
        attributes={"Id": "@id"},
    ),
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
        read_as={
            **_policies_of("User"),
            "Groups": lambda v: [
                group["GroupName"]
                for group in v.context.call("iam", "ListGroupsForUser", {"UserName": v.id})[
                    "Groups"
                ]
            ],
        },
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
        read_as=_policies_of("Group"),
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
        # The answer has it without its scheme.
        unread=frozenset({"Url"}),
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
