"""API Gateway's REST APIs. `headrace/fallback/execute_api/` answers requests to them; the rest is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.services.cloudformation.resources.declaration import (
    Call,
    Declared,
    MadeOf,
    Values,
    made_of,
    own_name,
)


def _patches(paths: Mapping[str, str]) -> MadeOf:
    """Return the patches that bring properties, by the paths that the API has for them, to what a template says."""

    def patches(values: Values) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for name, path in paths.items():
            if name not in values.changed:
                continue
            value = values.get(name)
            if isinstance(value, Mapping):
                for key, each in cast("Mapping[str, Any]", value).items():
                    found.append({"op": "replace", "path": f"{path}/{key}", "value": _text(each)})
            else:
                found.append({"op": "replace", "path": path, "value": _text(value)})
        return found

    return MadeOf(tuple(paths), patches)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


@made_of("Name", "Body")
def _api_name(values: Values) -> str:
    """Return the API's name: the template's, or the title of the description that it brings."""
    title = values.get("Body.info.title")
    return str(values.get("Name") or title or values.context.generated_name(128))


@made_of("Body")
def _body(values: Values) -> str:
    body: dict[str, Any] = dict(values.get("Body"))
    if "swagger" in body:
        # SAM's descriptions are Swagger 2.0, moto reads OpenAPI 3; what it reads of them is alike.
        del body["swagger"]
        body["openapi"] = "3.0.1"
    return json.dumps(body)


@made_of("CloudWatchRoleArn")
def _role_patch(values: Values) -> list[dict[str, str]]:
    role = values.get("CloudWatchRoleArn")
    return [{"op": "replace", "path": "/cloudwatchRoleArn", "value": role}] if role else []


@made_of("MethodSettings", "AccessLogSetting")
def _stage_settings(values: Values) -> list[dict[str, str]]:
    """Return a stage's settings for methods and for its access log as patches, for which it has no members."""
    found: list[dict[str, str]] = []
    names = {
        "LoggingLevel": "logging/loglevel",
        "MetricsEnabled": "metrics/enabled",
        "DataTraceEnabled": "logging/dataTrace",
        "ThrottlingBurstLimit": "throttling/burstLimit",
        "ThrottlingRateLimit": "throttling/rateLimit",
        "CachingEnabled": "caching/enabled",
        "CacheTtlInSeconds": "caching/ttlInSeconds",
        "CacheDataEncrypted": "caching/dataEncrypted",
    }
    for setting in values.items("MethodSettings"):
        path = str(setting.get("ResourcePath", "/*")).lstrip("/").replace("/", "~1") or "~1"
        method = setting.get("HttpMethod", "*")
        for name, place in names.items():
            if name in setting:
                found.append(
                    {
                        "op": "replace",
                        "path": f"/{path}/{method}/{place}",
                        "value": _text(setting[name]),
                    }
                )
    for name, place in {"DestinationArn": "destinationArn", "Format": "format"}.items():
        value = values.get(f"AccessLogSetting.{name}")
        if value:
            found.append(
                {"op": "replace", "path": f"/accessLogSettings/{place}", "value": str(value)}
            )
    return found


_INTEGRATION = {
    "restApiId": "RestApiId",
    "resourceId": "ResourceId",
    "httpMethod": "HttpMethod",
    "type": "Integration.Type",
    "integrationHttpMethod": "Integration.IntegrationHttpMethod",
    "uri": "Integration.Uri",
    "connectionType": "Integration.ConnectionType",
    "connectionId": "Integration.ConnectionId",
    "credentials": "Integration.Credentials",
    "requestParameters": "Integration.RequestParameters",
    "requestTemplates": "Integration.RequestTemplates",
    "passthroughBehavior": "Integration.PassthroughBehavior",
    "cacheNamespace": "Integration.CacheNamespace",
    "cacheKeyParameters": "Integration.CacheKeyParameters",
    "contentHandling": "Integration.ContentHandling",
    "timeoutInMillis": "Integration.TimeoutInMillis",
}
_METHOD = {"restApiId": "RestApiId", "resourceId": "ResourceId", "httpMethod": "HttpMethod"}
_METHOD_CALLS = [
    Call("PutMethod"),
    Call("PutIntegration", _INTEGRATION, only=(), when="Integration"),
    Call(
        "PutMethodResponse",
        {
            **_METHOD,
            "statusCode": "@item.StatusCode",
            "responseParameters": "@item.ResponseParameters",
            "responseModels": "@item.ResponseModels",
        },
        only=(),
        each="MethodResponses",
    ),
    Call(
        "PutIntegrationResponse",
        {
            **_METHOD,
            "statusCode": "@item.StatusCode",
            "selectionPattern": "@item.SelectionPattern",
            "responseParameters": "@item.ResponseParameters",
            "responseTemplates": "@item.ResponseTemplates",
            "contentHandling": "@item.ContentHandling",
        },
        only=(),
        each="Integration.IntegrationResponses",
    ),
]


def _has_key(values: Values) -> bool:
    """Whether a usage plan has a key."""
    plan = {"usagePlanId": values.get("UsagePlanId")}
    keys = values.context.call("apigateway", "GetUsagePlanKeys", plan).get("items", [])
    return any(key["id"] == values.get("KeyId") for key in keys)


def _has_domain(values: Values) -> bool:
    names = values.context.call("apigateway", "GetDomainNames", {}).get("items", [])
    return any(each["domainName"] == values.get("DomainName") for each in names)


def _base_path(values: Values) -> str:
    return str(values.get("BasePath") or "(none)")


_MAPPING = {"domainName": "DomainName", "basePath": _base_path}
_MAPPING_PATHS = {"RestApiId": "/restapiId", "Stage": "/stage"}
_API = {"restApiId": "@id"}
_OF_API = {"restApiId": "RestApiId"}
_STAGE = {**_OF_API, "stageName": "@id"}
_STAGE_PATHS = {
    "DeploymentId": "/deploymentId",
    "Description": "/description",
    "TracingEnabled": "/tracingEnabled",
    "CacheClusterEnabled": "/cacheClusterEnabled",
    "CacheClusterSize": "/cacheClusterSize",
    "Variables": "/variables",
}


@made_of("StageName")
def _without_its_stage(values: Values) -> str:
    """Return the deployment's id once the stage that it was made with, if it still points to it, is deleted."""
    name, api = values.get("StageName"), {"restApiId": values.get("RestApiId")}
    if name:
        call = values.context.call
        stages = call("apigateway", "GetStages", {**api, "deploymentId": values.id})
        for stage in cast("list[dict[str, Any]]", stages.get("item") or []):
            if stage["stageName"] == name and stage["deploymentId"] == values.id:
                call("apigateway", "DeleteStage", {**api, "stageName": name})
    return values.id


TYPES = [
    Declared(
        "AWS::ApiGateway::RestApi",
        "apigateway",
        create=[
            Call("CreateRestApi", {"name": _api_name}),
            Call("PutRestApi", {**_API, "body": _body, "mode": "Mode"}, only=(), when="Body"),
        ],
        id="@answer.id",
        read=Call("GetRestApi", _API),
        update=[
            Call(
                "UpdateRestApi",
                {
                    **_API,
                    "patchOperations": _patches(
                        {
                            "Name": "/name",
                            "Description": "/description",
                            "ApiKeySourceType": "/apiKeySource",
                        }
                    ),
                },
                only=(),
            ),
            Call("PutRestApi", {**_API, "body": _body, "mode": "Mode"}, only=(), when="Body"),
        ],
        delete=[Call("DeleteRestApi", _API)],
        names={"ApiKeySourceType": "apiKeySource"},
        attributes={"RestApiId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::Resource",
        "apigateway",
        create=[Call("CreateResource")],
        id="@answer.id",
        delete=[Call("DeleteResource", {**_OF_API, "resourceId": "@id"})],
        attributes={"ResourceId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::Method",
        "apigateway",
        create=_METHOD_CALLS,
        id=lambda v: f"{v.get('RestApiId')}|{v.get('ResourceId')}|{v.get('HttpMethod')}",
        update=[Call("DeleteMethod", _METHOD, only=(), always=True)]
        + [
            Call(call.operation, call.members, call.only, call.when, each=call.each, always=True)
            for call in _METHOD_CALLS
        ],
        delete=[Call("DeleteMethod", _METHOD)],
    ),
    Declared(
        "AWS::ApiGateway::Deployment",
        "apigateway",
        create=[Call("CreateDeployment", only=("RestApiId", "Description", "StageName"))],
        id="@answer.id",
        delete=[Call("DeleteDeployment", {**_OF_API, "deploymentId": _without_its_stage})],
        attributes={"DeploymentId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::Stage",
        "apigateway",
        create=[
            Call("CreateStage"),
            Call(
                "UpdateStage",
                {**_STAGE, "patchOperations": _stage_settings},
                only=(),
                when="MethodSettings",
            ),
        ],
        id="StageName",
        update=[
            Call("UpdateStage", {**_STAGE, "patchOperations": _patches(_STAGE_PATHS)}, only=()),
            Call("UpdateStage", {**_STAGE, "patchOperations": _stage_settings}, only=()),
        ],
        delete=[Call("DeleteStage", _STAGE)],
        name="StageName",
        name_underscores=True,
    ),
    Declared(
        "AWS::ApiGateway::Account",
        "apigateway",
        create=[Call("UpdateAccount", {"patchOperations": _role_patch})],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        update=[Call("UpdateAccount", {"patchOperations": _role_patch})],
        delete=[],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::ApiKey",
        "apigateway",
        create=[Call("CreateApiKey")],
        id="@answer.id",
        delete=[Call("DeleteApiKey", {"apiKey": "@id"})],
        attributes={"APIKeyId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::UsagePlan",
        "apigateway",
        create=[Call("CreateUsagePlan", {"name": own_name("UsagePlanName", 64)})],
        id="@answer.id",
        delete=[Call("DeleteUsagePlan", {"usagePlanId": "@id"})],
        names={"UsagePlanName": "name"},
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::UsagePlanKey",
        "apigateway",
        create=[Call("CreateUsagePlanKey")],
        id=lambda v: f"{v.get('KeyId')}:{v.get('UsagePlanId')}",
        exists=_has_key,
        delete=[Call("DeleteUsagePlanKey", {"usagePlanId": "UsagePlanId", "keyId": "KeyId"})],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::Authorizer",
        "apigateway",
        create=[Call("CreateAuthorizer")],
        id="@answer.id",
        delete=[Call("DeleteAuthorizer", {**_OF_API, "authorizerId": "@id"})],
        attributes={"AuthorizerId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::Model",
        "apigateway",
        create=[Call("CreateModel")],
        id="Name",
        read=Call("GetModel", {**_OF_API, "modelName": "@id"}),
        delete=[Call("DeleteModel", {**_OF_API, "modelName": "@id"})],
        name="Name",
        name_underscores=True,
    ),
    Declared(
        "AWS::ApiGateway::RequestValidator",
        "apigateway",
        create=[Call("CreateRequestValidator")],
        id="@answer.id",
        delete=[Call("DeleteRequestValidator", {**_OF_API, "requestValidatorId": "@id"})],
        attributes={"RequestValidatorId": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::GatewayResponse",
        "apigateway",
        create=[Call("PutGatewayResponse")],
        id=lambda v: f"{v.get('RestApiId')}|{v.get('ResponseType')}",
        update=[Call("PutGatewayResponse")],
        delete=[Call("DeleteGatewayResponse", {**_OF_API, "responseType": "ResponseType"})],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::ApiGateway::DomainName",
        "apigateway",
        create=[Call("CreateDomainName")],
        id="DomainName",
        exists=_has_domain,
        read=Call("GetDomainName", {"domainName": "@id"}),
        delete=[Call("DeleteDomainName", {"domainName": "@id"})],
        attributes={
            "DomainNameArn": lambda v: f"arn:aws:apigateway:{v.context.region}::/domainnames/{v.id}"
        },
    ),
    Declared(
        "AWS::ApiGateway::BasePathMapping",
        "apigateway",
        create=[Call("CreateBasePathMapping")],
        id=lambda v: f"{v.get('DomainName')}|{_base_path(v)}",
        update=[
            Call(
                "UpdateBasePathMapping",
                {**_MAPPING, "patchOperations": _patches(_MAPPING_PATHS)},
                only=(),
            )
        ],
        delete=[Call("DeleteBasePathMapping", _MAPPING)],
    ),
    Declared(
        "AWS::ApiGateway::VpcLink",
        "apigateway",
        create=[Call("CreateVpcLink")],
        id="@answer.id",
        delete=[Call("DeleteVpcLink", {"vpcLinkId": "@id"})],
        attributes={"VpcLinkId": "@id"},
    ),
]
