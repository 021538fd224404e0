"""API Gateway's HTTP and WebSocket APIs. `services/apigateway/invocation/` serves the former; the rest is stored.

The OpenAPI definitions of API Gateway's APIs in templates: `Body`, and `BodyS3Location`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml

from headrace.core.arn import partition_of
from headrace.core.values import as_mapping, parse_json
from headrace.moto.bounds import safe_load
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)

_PREFIX = "x-amazon-apigateway-"
# The properties of a REST API that its definition may have too. The definition takes precedence (documented).
_IN_DEFINITION = {
    "MinimumCompressionSize": f"{_PREFIX}minimum-compression-size",
    "ApiKeySourceType": f"{_PREFIX}api-key-source",
    "Policy": f"{_PREFIX}policy",
}


def has_body(values: Values) -> bool:
    """Whether an API is imported from a definition."""
    return values.get("Body") is not None or values.get("BodyS3Location") is not None


@declare_sources("Name", "Body", "BodyS3Location")
def api_name(values: Values) -> str:
    """Return the API's name: the template's, or the title of the definition."""
    title: Any = values.get("Body.info.title")
    if title is None and values.get("BodyS3Location") is not None and not values.get("Name"):
        title = _members(_text(values)).get("info", {}).get("title")
    return str(values.get("Name") or title or values.context.generate_name(128))


@declare_sources("Body", "BodyS3Location")
def body(values: Values) -> str:
    """Return the definition's text."""
    return _text(values)


@declare_sources("Body", "BodyS3Location", "BinaryMediaTypes", "Description", *_IN_DEFINITION)
def rest_body(values: Values) -> str:
    """Return the definition's text, with the resource's own properties: an import that overwrites resets all others."""
    text = _text(values)
    definition = _members(text)
    if not definition:
        return text
    info: dict[str, Any] = {**definition.get("info", {})}
    info["title"] = values.get("Name") or info.get("title")
    if values.get("Description"):
        info.setdefault("description", values.get("Description"))
    for name, member in _IN_DEFINITION.items():
        if values.get(name) is not None:
            definition.setdefault(member, values.get(name))
    kinds: list[str] = definition.get(f"{_PREFIX}binary-media-types") or []
    more: list[str] = values.get("BinaryMediaTypes") or []
    definition[f"{_PREFIX}binary-media-types"] = list(dict.fromkeys([*kinds, *more]))
    return json.dumps({**definition, "info": info}, default=str)  # dates in YAML


@declare_sources("Mode")
def mode(values: Values) -> str:
    """Return the mode of an update's import: without one, the new definition takes precedence (documented)."""
    return str(values.get("Mode") or "overwrite")


def _text(values: Values) -> str:
    location: dict[str, Any] | None = values.get("BodyS3Location")
    if values.get("Body") is not None or location is None:
        return json.dumps(values.get("Body"))
    params = {"Bucket": location["Bucket"], "Key": location["Key"]}
    if location.get("Version"):
        params["VersionId"] = str(location["Version"])
    if location.get("ETag"):
        params["IfMatch"] = str(location["ETag"])
    content: Any = values.context.call("s3", "GetObject", params)["Body"]
    return (content if isinstance(content, bytes) else content.read()).decode()


def _members(text: str) -> dict[str, Any]:
    """Return the members of a definition in JSON or YAML; none of a text that API Gateway refuses."""
    with suppress(ValueError):
        return as_mapping(parse_json(text))
    with suppress(yaml.YAMLError):
        return as_mapping(safe_load(text))
    return {}


@declare_sources("ProtocolType", "Body", "BodyS3Location")
def _protocol(values: Values) -> str | None:
    # The protocol of an API that is imported from an OpenAPI definition: only HTTP APIs have one (documented).
    return values.get("ProtocolType") or ("HTTP" if has_body(values) else None)


def _of_api(kind: str, *, owner: str = "") -> DeclaredType:
    """Return a type that belongs to an API, or to its part `owner`, and whose id the service generates."""
    member = f"{kind}Id"
    named = {"ApiId": "ApiId", member: "@id", **({owner: owner} if owner else {})}
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
    _of_api("Deployment"),
    _of_api("RouteResponse", owner="RouteId"),
    _of_api("IntegrationResponse", owner="IntegrationId"),
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
