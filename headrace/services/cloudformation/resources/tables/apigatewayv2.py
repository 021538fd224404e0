"""API Gateway's HTTP and WebSocket APIs. Their data plane is not there: all of it is stored."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declared import Call, Declared


def _of_api(kind: str, *, part: str = "") -> Declared:
    """Return a type that belongs to an API, and whose id the service makes."""
    member = f"{part or kind}Id"
    named = {"ApiId": "ApiId", member: "@id"}
    return Declared(
        f"AWS::ApiGatewayV2::{kind}",
        "apigatewayv2",
        create=[Call(f"Create{kind}")],
        id=f"@answer.{member}",
        update=[Call(f"Update{kind}", {member: "@id"})],
        delete=[Call(f"Delete{kind}", named)],
        attributes={member: "@id"},
    )


_STAGE = {"ApiId": "ApiId", "StageName": "@id"}
TYPES = [
    Declared(
        "AWS::ApiGatewayV2::Api",
        "apigatewayv2",
        create=[Call("CreateApi")],
        id="@answer.ApiId",
        read=Call("GetApi", {"ApiId": "@id"}),
        update=[Call("UpdateApi", {"ApiId": "@id"})],
        delete=[Call("DeleteApi", {"ApiId": "@id"})],
        name="Name",
        name_length=128,
        unique=False,
        attributes={
            "ExecuteApiArn": lambda v: (
                f"arn:aws:execute-api:{v.context.region}:{v.context.account}:{v.id}"
            )
        },
    ),
    _of_api("Integration"),
    _of_api("Route"),
    _of_api("Authorizer"),
    _of_api("Model"),
    Declared(
        "AWS::ApiGatewayV2::Stage",
        "apigatewayv2",
        create=[Call("CreateStage")],
        id="StageName",
        update=[Call("UpdateStage", {"StageName": "@id"})],
        delete=[Call("DeleteStage", _STAGE)],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::ApiGatewayV2::DomainName",
        "apigatewayv2",
        create=[Call("CreateDomainName")],
        id="DomainName",
        read=Call("GetDomainName", {"DomainName": "@id"}),
        delete=[Call("DeleteDomainName", {"DomainName": "@id"})],
        attributes={
            "RegionalDomainName": "@answer.DomainNameConfigurations.0.ApiGatewayDomainName",
            "RegionalHostedZoneId": "@answer.DomainNameConfigurations.0.HostedZoneId",
        },
    ),
    Declared(
        "AWS::ApiGatewayV2::ApiMapping",
        "apigatewayv2",
        create=[Call("CreateApiMapping")],
        id="@answer.ApiMappingId",
        delete=[Call("DeleteApiMapping", {"DomainName": "DomainName", "ApiMappingId": "@id"})],
        attributes={"ApiMappingId": "@id"},
    ),
    Declared(
        "AWS::ApiGatewayV2::VpcLink",
        "apigatewayv2",
        create=[Call("CreateVpcLink")],
        id="@answer.VpcLinkId",
        update=[Call("UpdateVpcLink", {"VpcLinkId": "@id"})],
        delete=[Call("DeleteVpcLink", {"VpcLinkId": "@id"})],
        attributes={"VpcLinkId": "@id"},
    ),
]
