"""API Gateway's REST APIs. `headrace/services/apigateway/invocation/` answers requests to them; the rest is stored."""

from __future__ import annotations

from typing import Any, cast

from headrace.core.arn import make_arn, partition_of
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)
from headrace.services.cloudformation.resources.types.apigateway_patches import (
    AUTHORIZER_PATHS,
    api_patches,
    authorizer_patches,
    live_method_settings,
    patches_of,
    plan_patches,
    role_patch,
    stage_settings,
)
from headrace.services.cloudformation.resources.types.apigatewayv2 import (
    api_name,
    has_body,
    mode,
    rest_body,
)


def _tag(path: str) -> tuple[str, str, str, Source]:
    """Return the calls for the tags of a resource whose ARN ends with this path; `{}` are properties, or the id."""

    def arn(values: Values) -> str:
        resource_path = path.format(id=values.id, **values.properties)
        return f"arn:{partition_of(values.context.region)}:apigateway:{values.context.region}::/{resource_path}"

    return "TagResource", "UntagResource", "resourceArn", arn


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
    """Whether a usage plan has an API key."""
    plan = {"usagePlanId": values.get("UsagePlanId")}
    keys = values.context.call("apigateway", "GetUsagePlanKeys", plan).get("items", [])
    return any(key["id"] == values.get("KeyId") for key in keys)


def _has_domain(values: Values) -> bool:
    names = values.context.call("apigateway", "GetDomainNames", {}).get("items", [])
    return any(domain["domainName"] == values.get("DomainName") for domain in names)


def _base_path(values: Values) -> str:
    return str(values.get("BasePath") or "(none)")


_MAPPING = {"domainName": "DomainName", "basePath": _base_path}


_MAPPING_PATHS = {"RestApiId": "/restapiId", "Stage": "/stage"}


_LINK_PATHS = {"Name": "/name", "Description": "/description"}


_API = {"restApiId": "@id"}
_IMPORT = {
    **_API,
    "body": rest_body,
    "failOnWarnings": "FailOnWarnings",
    "parameters": "Parameters",
}
_OF_API = {"restApiId": "RestApiId"}


_STAGE = {**_OF_API, "stageName": "@id"}


_KEY_PATHS = {
    "CustomerId": "/customerId",
    "Description": "/description",
    "Enabled": "/enabled",
}


_PLAN_PATHS = {"UsagePlanName": "/name", "Description": "/description"}


_STAGE_PATHS = {
    "DeploymentId": "/deploymentId",
    "Description": "/description",
    "TracingEnabled": "/tracingEnabled",
    "CacheClusterEnabled": "/cacheClusterEnabled",
    "CacheClusterSize": "/cacheClusterSize",
    "Variables": "/variables",
}


@declare_sources("StageName")
def _delete_stage(values: Values) -> str:
    """Delete the stage that the deployment created, or its canary, if it points to it; return the deployment's id."""
    name, api = values.get("StageName"), {"restApiId": values.get("RestApiId")}
    if name:
        call = values.context.call
        stages = call("apigateway", "GetStages", api)
        for stage in cast("list[dict[str, Any]]", stages.get("item") or []):
            place = {**api, "stageName": name}
            canary = cast("dict[str, Any]", stage.get("canarySettings") or {})
            if stage["stageName"] != name:
                continue
            if stage["deploymentId"] == values.id:
                call("apigateway", "DeleteStage", place)
            elif canary.get("deploymentId") == values.id:
                removal = [{"op": "remove", "path": "/canarySettings"}]
                call("apigateway", "UpdateStage", {**place, "patchOperations": removal})
    return values.id


DECLARED = [
    DeclaredType(
        "AWS::ApiGateway::RestApi",
        "apigateway",
        create=[
            Call("CreateRestApi", {"name": api_name}),
            Call("PutRestApi", {**_IMPORT, "mode": "Mode"}, only=(), only_if=has_body),
        ],
        id="@answer.id",
        read=Call("GetRestApi", _API),
        update=[
            Call(
                "UpdateRestApi",
                {
                    **_API,
                    "patchOperations": patches_of(
                        {
                            "Name": "/name",
                            "Description": "/description",
                            "ApiKeySourceType": "/apiKeySource",
                        }
                    ),
                },
                only=(),
            ),
            Call("UpdateRestApi", {**_API, "patchOperations": api_patches}, only=()),
            Call("PutRestApi", {**_IMPORT, "mode": mode}, only=(), only_if=has_body),
        ],
        tag=_tag("restapis/{id}"),
        delete=[Call("DeleteRestApi", _API)],
        names={"ApiKeySourceType": "apiKeySource"},
        attributes={"RestApiId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::Resource",
        "apigateway",
        create=[Call("CreateResource")],
        id="@answer.id",
        delete=[Call("DeleteResource", {**_OF_API, "resourceId": "@id"})],
        attributes={"ResourceId": "@id"},
    ),
    DeclaredType(
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
    DeclaredType(
        "AWS::ApiGateway::Deployment",
        "apigateway",
        create=[
            Call(
                "CreateDeployment",
                {"canarySettings": "DeploymentCanarySettings"},
                only=("RestApiId", "Description", "StageName"),
            )
        ],
        id="@answer.id",
        delete=[Call("DeleteDeployment", {**_OF_API, "deploymentId": _delete_stage})],
        attributes={"DeploymentId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::Stage",
        "apigateway",
        create=[
            Call("CreateStage"),
            Call(
                "UpdateStage",
                {**_STAGE, "patchOperations": stage_settings},
                only=(),
                only_if=lambda v: bool(stage_settings(v)),
            ),
        ],
        id="StageName",
        read=Call("GetStage", _STAGE),
        # The answer has tags by key, and settings by method.
        unread=frozenset({"MethodSettings", "Tags"}),
        read_as={"MethodSettings": live_method_settings},
        update=[
            Call("UpdateStage", {**_STAGE, "patchOperations": patches_of(_STAGE_PATHS)}, only=()),
            Call("UpdateStage", {**_STAGE, "patchOperations": stage_settings}, only=()),
        ],
        tag=_tag("restapis/{RestApiId}/stages/{id}"),
        delete=[Call("DeleteStage", _STAGE)],
        name="StageName",
        name_underscores=True,
    ),
    DeclaredType(
        "AWS::ApiGateway::Account",
        "apigateway",
        create=[Call("UpdateAccount", {"patchOperations": role_patch})],
        id=lambda v: f"{v.context.stack_name}-{v.context.logical_id}",
        update=[Call("UpdateAccount", {"patchOperations": role_patch})],
        delete=[],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::ApiKey",
        "apigateway",
        create=[Call("CreateApiKey")],
        id="@answer.id",
        update=[
            Call(
                "UpdateApiKey",
                {"apiKey": "@id", "patchOperations": patches_of(_KEY_PATHS)},
                only=(),
            )
        ],
        tag=_tag("apikeys/{id}"),
        delete=[Call("DeleteApiKey", {"apiKey": "@id"})],
        attributes={"APIKeyId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::UsagePlan",
        "apigateway",
        create=[Call("CreateUsagePlan", {"name": own_name("UsagePlanName", 64)})],
        id="@answer.id",
        update=[
            Call(
                "UpdateUsagePlan",
                {"usagePlanId": "@id", "patchOperations": patches_of(_PLAN_PATHS)},
                only=(),
            ),
            Call(
                "UpdateUsagePlan",
                {"usagePlanId": "@id", "patchOperations": plan_patches},
                only=(),
            ),
        ],
        tag=_tag("usageplans/{id}"),
        delete=[Call("DeleteUsagePlan", {"usagePlanId": "@id"})],
        names={"UsagePlanName": "name"},
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::UsagePlanKey",
        "apigateway",
        create=[Call("CreateUsagePlanKey")],
        id=lambda v: f"{v.get('KeyId')}:{v.get('UsagePlanId')}",
        exists=_has_key,
        delete=[Call("DeleteUsagePlanKey", {"usagePlanId": "UsagePlanId", "keyId": "KeyId"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::Authorizer",
        "apigateway",
        create=[Call("CreateAuthorizer")],
        id="@answer.id",
        update=[
            Call(
                "UpdateAuthorizer",
                {
                    **_OF_API,
                    "authorizerId": "@id",
                    "patchOperations": patches_of(AUTHORIZER_PATHS),
                },
                only=(),
            ),
            Call(
                "UpdateAuthorizer",
                {**_OF_API, "authorizerId": "@id", "patchOperations": authorizer_patches},
                only=(),
            ),
        ],
        delete=[Call("DeleteAuthorizer", {**_OF_API, "authorizerId": "@id"})],
        attributes={"AuthorizerId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::Model",
        "apigateway",
        create=[Call("CreateModel")],
        id="Name",
        read=Call("GetModel", {**_OF_API, "modelName": "@id"}),
        delete=[Call("DeleteModel", {**_OF_API, "modelName": "@id"})],
        name="Name",
        name_underscores=True,
    ),
    DeclaredType(
        "AWS::ApiGateway::RequestValidator",
        "apigateway",
        create=[Call("CreateRequestValidator")],
        id="@answer.id",
        update=[
            Call(
                "UpdateRequestValidator",
                {
                    **_OF_API,
                    "requestValidatorId": "@id",
                    "patchOperations": patches_of(
                        {
                            "ValidateRequestBody": "/validateRequestBody",
                            "ValidateRequestParameters": "/validateRequestParameters",
                        }
                    ),
                },
                only=(),
            )
        ],
        delete=[Call("DeleteRequestValidator", {**_OF_API, "requestValidatorId": "@id"})],
        attributes={"RequestValidatorId": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::GatewayResponse",
        "apigateway",
        create=[Call("PutGatewayResponse")],
        id=lambda v: f"{v.get('RestApiId')}|{v.get('ResponseType')}",
        update=[Call("PutGatewayResponse")],
        delete=[Call("DeleteGatewayResponse", {**_OF_API, "responseType": "ResponseType"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::ApiGateway::DomainName",
        "apigateway",
        create=[Call("CreateDomainName")],
        id="DomainName",
        exists=_has_domain,
        read=Call("GetDomainName", {"domainName": "@id"}),
        delete=[Call("DeleteDomainName", {"domainName": "@id"})],
        attributes={
            "DomainNameArn": lambda v: make_arn(
                "apigateway", v.context.region, "", f"/domainnames/{v.id}"
            )
        },
    ),
    DeclaredType(
        "AWS::ApiGateway::BasePathMapping",
        "apigateway",
        create=[Call("CreateBasePathMapping")],
        id=lambda v: f"{v.get('DomainName')}|{_base_path(v)}",
        update=[
            Call(
                "UpdateBasePathMapping",
                {**_MAPPING, "patchOperations": patches_of(_MAPPING_PATHS)},
                only=(),
            )
        ],
        delete=[Call("DeleteBasePathMapping", _MAPPING)],
    ),
    DeclaredType(
        "AWS::ApiGateway::VpcLink",
        "apigateway",
        create=[Call("CreateVpcLink")],
        id="@answer.id",
        update=[
            Call(
                "UpdateVpcLink",
                {"vpcLinkId": "@id", "patchOperations": patches_of(_LINK_PATHS)},
                only=(),
            )
        ],
        delete=[Call("DeleteVpcLink", {"vpcLinkId": "@id"})],
        attributes={"VpcLinkId": "@id"},
    ),
]
