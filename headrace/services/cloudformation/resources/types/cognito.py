"""Cognito: user pools, identity pools and their parts."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
    own_name,
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
]
