"""API Gateway's HTTP and WebSocket APIs. `services/apigateway/invocation/` serves the former; the rest is stored."""

from __future__ import annotations

from headrace.core.arn import partition_of
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.types.openapi_bodies import (
    api_name,
    body,
    has_body,
)


@declare_sources("ProtocolType", "Body", "BodyS3Location")
def _protocol(values: Values) -> str | None:
    # The protocol of an API that is imported from an OpenAPI definition: only HTTP APIs have one (documented).
    return values.get("ProtocolType") or ("HTTP" if has_body(values) else None)


def _of_api(kind: str, *, part: str = "", parent: str = "") -> DeclaredType:
    """Return a type that belongs to an API, or to its `parent`, and whose id the service generates."""
    member = f"{part or kind}Id"
    named = {"ApiId": "ApiId", **({parent: parent} if parent else {}), member: "@id"}
    return DeclaredType(
        f"AWS::ApiGatewayV2::{kind}",
        "apigatewayv2",
        create=[Call(f"Create{kind}")],
        id=f"@answer.{member}",
        update=[Call(f"Update{kind}", {member: "@id"})],
        delete=[Call(f"Delete{kind}", named)],
        attributes={member: "@id"},
    )


_STAGE = {"ApiId": "ApiId", "StageName": "@id"}
_IMPORT = Call(
    "ReimportApi",
    {"ApiId": "@id", "Body": body, "Basepath": "BasePath", "FailOnWarnings": "FailOnWarnings"},
    only=(),
    only_if=has_body,
)
DECLARED = [
    DeclaredType(
        "AWS::ApiGatewayV2::Api",
        "apigatewayv2",
        create=[
            Call("CreateApi", {"Name": api_name, "ProtocolType": _protocol}),
            _IMPORT,
        ],
        id="@answer.ApiId",
        read=Call("GetApi", {"ApiId": "@id"}),
        update=[Call("UpdateApi", {"ApiId": "@id"}), _IMPORT],
        delete=[Call("DeleteApi", {"ApiId": "@id"})],
        attributes={
            "ExecuteApiArn": lambda v: (
                f"arn:{partition_of(v.context.region)}:execute-api:{v.context.region}:{v.context.account}:{v.id}"
            )
        },
    ),
    _of_api("Integration"),
    _of_api("Route"),
    _of_api("Authorizer"),
    _of_api("Model"),
    _of_api("IntegrationResponse", parent="IntegrationId"),
    _of_api("RouteResponse", parent="RouteId"),
    DeclaredType(
        "AWS::ApiGatewayV2::Stage",
        "apigatewayv2",
        create=[Call("CreateStage")],
        id="StageName",
        name="StageName",
        update=[Call("UpdateStage", _STAGE, empties=True)],
        tag=(
            "TagResource",
            "UntagResource",
            "ResourceArn",
            lambda v: (
                f"arn:{partition_of(v.context.region)}:apigateway:{v.context.region}::/apis/{v.get('ApiId')}/stages/{v.id}"
            ),
        ),
        unique=False,
        delete=[Call("DeleteStage", _STAGE)],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
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
    DeclaredType(
        "AWS::ApiGatewayV2::ApiMapping",
        "apigatewayv2",
        create=[Call("CreateApiMapping")],
        id="@answer.ApiMappingId",
        delete=[Call("DeleteApiMapping", {"DomainName": "DomainName", "ApiMappingId": "@id"})],
        attributes={"ApiMappingId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGatewayV2::VpcLink",
        "apigatewayv2",
        create=[Call("CreateVpcLink")],
        id="@answer.VpcLinkId",
        update=[Call("UpdateVpcLink", {"VpcLinkId": "@id"})],
        delete=[Call("DeleteVpcLink", {"VpcLinkId": "@id"})],
        attributes={"VpcLinkId": "@id"},
    ),
]
