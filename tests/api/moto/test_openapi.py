"""OpenAPI definitions that become APIs, by API and in templates, and how the APIs then answer.

Source of the extensions: docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-swagger-extensions.html
(documented).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError
from moto.apigateway import models as moto_models

from headrace.aws.calls.http import HttpRequest
from tests.api.apigateway.test_invocation import Lab
from tests.api.cloudformation.test_stacks import create, settled
from tests.support.cloud import REGION, InProcessCloud


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with InProcessCloud(tmp_path_factory.mktemp("openapi") / "data") as cloud:
        lab = Lab(cloud)
        cloud.client("lambda").add_permission(
            FunctionName="f", StatementId="all", Action="lambda:InvokeFunction",
            Principal="apigateway.amazonaws.com",
        )  # fmt: skip
        yield lab


def function_uri(lab: Lab) -> str:
    return (
        f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{lab.function}/invocations"
    )


def proxy(lab: Lab, **more: Any) -> dict[str, Any]:
    integration = {"type": "aws_proxy", "httpMethod": "POST", "uri": function_uri(lab)}
    return {"x-amazon-apigateway-integration": integration, "responses": {}, **more}


def swagger(lab: Lab) -> dict[str, Any]:
    pet = {"$ref": "#/definitions/Pet"}
    mock = {
        "type": "mock",
        "requestTemplates": {"application/json": '{"statusCode": 200}'},
        "passthroughBehavior": "when_no_match",
        "responses": {
            "default": {
                "statusCode": "200",
                "responseParameters": {"method.response.header.X-From": "'mock'"},
                "responseTemplates": {"application/json": '{"ok": true}'},
            },
            "4\\d\\d": {"statusCode": "400"},
        },
    }
    return {
        "swagger": "2.0",
        "info": {"title": "pets", "version": "7", "description": "of a shop"},
        "basePath": "/v1/shop",
        "x-amazon-apigateway-binary-media-types": ["image/png"],
        "x-amazon-apigateway-minimum-compression-size": 1000,
        "x-amazon-apigateway-request-validators": {
            "all": {"validateRequestBody": True, "validateRequestParameters": True}
        },
        "x-amazon-apigateway-request-validator": "all",
        "x-amazon-apigateway-gateway-responses": {
            "DEFAULT_4XX": {"responseParameters": {"gatewayresponse.header.X-Mine": "'yes'"}}
        },
        "securityDefinitions": {
            "token": {
                "type": "apiKey",
                "name": "X-Token",
                "in": "header",
                "x-amazon-apigateway-authtype": "custom",
                "x-amazon-apigateway-authorizer": {
                    "type": "token",
                    "authorizerUri": function_uri(lab),
                    "authorizerResultTtlInSeconds": 0,
                },
            },
            "key": {"type": "apiKey", "name": "x-api-key", "in": "header"},
            "iam": {
                "type": "apiKey", "name": "Authorization", "in": "header",
                "x-amazon-apigateway-authtype": "awsSigv4",
            },
        },
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "parameters": {"size": {"name": "size", "in": "query", "required": True, "type": "string"}},
        "paths": {
            "/": {"get": {"responses": {"200": {"headers": {"X-From": {}}}}, "x-amazon-apigateway-integration": mock}},
            "/pets/{name}": {
                "parameters": [{"name": "name", "in": "path", "required": True}],
                "x-amazon-apigateway-any-method": proxy(lab),
                "post": proxy(
                    lab,
                    operationId="makePet",
                    parameters=[{"$ref": "#/parameters/size"}, {"in": "body", "name": "p", "schema": pet}],
                    responses={"200": {"schema": pet}},
                ),
            },
            "/pets/{name}/{rest+}": {"get": proxy(lab)},
            "/secret": {"get": proxy(lab, security=[{"token": []}])},
            "/keyed": {"get": proxy(lab, security=[{"key": []}])},
            "/signed": {"get": proxy(lab, security=[{"iam": []}])},
        },
    }  # fmt: skip


def ask(lab: Lab, api_id: str, path: str, method: str = "GET", **headers: str) -> Any:
    request = HttpRequest(
        method, f"/_aws/execute-api/{api_id}{path}", "", {"host": "127.0.0.1:4566", **headers}
    )
    return lab.cloud.handle(request)


def resources_of(lab: Lab, api_id: str) -> dict[str, Any]:
    items = lab.rest.get_resources(restApiId=api_id, embed=["methods"], limit=500)["items"]
    return {item["path"]: item for item in items}


@pytest.fixture(scope="module")
def pets(lab: Lab) -> str:
    """An API of the whole definition, which no test changes, with a stage."""
    made = lab.rest.import_rest_api(
        body=json.dumps(swagger(lab)), parameters={"endpointConfigurationTypes": "REGIONAL"}
    )
    lab.rest.create_deployment(restApiId=made["id"], stageName="s")
    return made["id"]


def test_an_imported_api_has_everything_that_its_definition_says(lab: Lab, pets: str):
    api = lab.rest.get_rest_api(restApiId=pets)
    assert (api["name"], api["description"], api["version"]) == ("pets", "of a shop", "7")
    assert (api["binaryMediaTypes"], api["minimumCompressionSize"]) == (["image/png"], 1000)
    assert api["endpointConfiguration"]["types"] == ["REGIONAL"]
    resources = resources_of(lab, pets)
    assert sorted(resources) == [
        "/", "/keyed", "/pets", "/pets/{name}", "/pets/{name}/{rest+}", "/secret", "/signed",
    ]  # fmt: skip
    assert set(resources["/pets/{name}"]["resourceMethods"]) == {"ANY", "POST"}
    where = {"restApiId": pets, "resourceId": resources["/pets/{name}"]["id"], "httpMethod": "POST"}
    method = lab.rest.get_method(**where)
    assert method["requestParameters"] == {
        "method.request.path.name": True,
        "method.request.querystring.size": True,
    }
    assert method["operationName"] == "makePet"
    assert method["requestModels"] == {"application/json": "Pet"}
    assert method["methodResponses"]["200"]["responseModels"] == {"application/json": "Pet"}
    (validator,) = lab.rest.get_request_validators(restApiId=pets)["items"]
    assert method["requestValidatorId"] == validator["id"]
    assert validator["validateRequestBody"] is True
    integration = method["methodIntegration"]
    assert (integration["type"], integration["httpMethod"]) == ("AWS_PROXY", "POST")
    mock = lab.rest.get_integration(
        restApiId=pets, resourceId=resources["/"]["id"], httpMethod="GET"
    )
    assert (mock["type"], mock["passthroughBehavior"]) == ("MOCK", "WHEN_NO_MATCH")
    assert mock["integrationResponses"]["400"]["selectionPattern"] == "4\\d\\d"
    (authorizer,) = lab.rest.get_authorizers(restApiId=pets)["items"]
    assert (authorizer["name"], authorizer["type"], authorizer["identitySource"]) == (
        "token", "TOKEN", "method.request.header.X-Token",
    )  # fmt: skip
    assert [m["name"] for m in lab.rest.get_models(restApiId=pets)["items"]] == ["Pet"]


def test_an_imported_api_answers(lab: Lab, pets: str):
    root = ask(lab, pets, "/s/")
    assert (root.status, json.loads(root.body)) == (200, {"ok": True})
    assert ("X-From", "mock") in root.headers
    one = ask(lab, pets, "/s/pets/rex", "PUT")
    assert one.status == 201
    assert json.loads(one.body)["pathParameters"] == {"name": "rex"}
    assert json.loads(ask(lab, pets, "/s/pets/rex/a/b").body)["pathParameters"]["rest"] == "a/b"
    refused = ask(lab, pets, "/s/nowhere")
    assert (refused.status, ("X-Mine", "yes") in refused.headers) == (403, True)


def test_an_imported_api_demands_what_its_security_says(lab: Lab, pets: str):
    assert ask(lab, pets, "/s/secret").status == 401
    assert ask(lab, pets, "/s/secret", **{"x-token": "no"}).status == 403
    allowed = ask(lab, pets, "/s/secret", **{"x-token": "yes"})
    assert json.loads(allowed.body)["requestContext"]["authorizer"]["who"] == "me"
    assert ask(lab, pets, "/s/keyed").status == 403
    value = lab.rest.create_api_key(name="k", enabled=True)["value"]
    assert ask(lab, pets, "/s/keyed", **{"x-api-key": value}).status == 201
    assert ask(lab, pets, "/s/signed").status == 403


@pytest.mark.parametrize(
    ("rule", "prefix"), [("ignore", ""), ("prepend", "/v1/shop"), ("split", "/shop")]
)
def test_the_base_path(lab: Lab, rule: str, prefix: str):
    definition = swagger(lab)
    definition["paths"] = {"/a": {"get": proxy(lab)}}
    made = lab.rest.import_rest_api(body=json.dumps(definition), parameters={"basepath": rule})
    assert f"{prefix}/a" in resources_of(lab, made["id"])


def openapi(lab: Lab, **paths: Any) -> dict[str, Any]:
    return {
        "openapi": "3.0.1",
        "info": {"title": "three", "version": "1"},
        "servers": [{"url": "https://x.example/{base}", "variables": {"base": {"default": "b"}}}],
        "paths": {f"/{name}": {"get": proxy(lab)} for name in paths} | {
            f"/{name}": value for name, value in paths.items() if value
        },
    }  # fmt: skip


def test_openapi_3_in_yaml_with_a_body_and_references(lab: Lab):
    definition = openapi(lab, a={"$ref": "#/components/pathItems/a"})
    definition["components"] = {
        "schemas": {"Pet": {"type": "object"}},
        "requestBodies": {"pet": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        "pathItems": {"a": {"put": proxy(lab, requestBody={"$ref": "#/components/requestBodies/pet"})}},
    }  # fmt: skip
    text = yaml.safe_dump(definition)
    made = lab.rest.import_rest_api(body=text, parameters={"basepath": "prepend"})
    resource = resources_of(lab, made["id"])["/b/a"]
    method = lab.rest.get_method(restApiId=made["id"], resourceId=resource["id"], httpMethod="PUT")
    assert method["requestModels"] == {"application/json": "Pet"}


def test_a_definition_is_merged_or_overwrites(lab: Lab):
    made = lab.rest.import_rest_api(body=json.dumps(openapi(lab, a=None, b=None)))
    where = {"restApiId": made["id"]}
    root = resources_of(lab, made["id"])["/"]["id"]
    lab.rest.create_deployment(**where, stageName="s")
    lab.rest.put_rest_api(**where, body=json.dumps(openapi(lab, c=None)))
    assert sorted(resources_of(lab, made["id"])) == ["/", "/a", "/b", "/c"]
    lab.rest.put_rest_api(**where, mode="overwrite", body=json.dumps(swagger(lab)))
    assert "/a" not in resources_of(lab, made["id"])
    lab.rest.put_rest_api(**where, mode="overwrite", body=json.dumps(openapi(lab, d=None)))
    after = resources_of(lab, made["id"])
    assert sorted(after) == ["/", "/d"]
    assert after["/"]["id"] == root
    assert lab.rest.get_rest_api(**where).get("binaryMediaTypes") in (None, [])
    assert lab.rest.get_models(**where)["items"] == []
    assert [stage["stageName"] for stage in lab.rest.get_stages(**where)["item"]] == ["s"]


BAD: list[tuple[Any, str]] = [
    ("nonsense", "Invalid OpenAPI input"),
    ("[1]", "Invalid OpenAPI input"),
    ("a: [b", "Invalid OpenAPI input"),
    ({"swagger": "1.2", "info": {"title": "x"}}, "Invalid OpenAPI input"),
    ({"openapi": "3.0.0", "info": {}}, "info.title is missing"),
    ({"paths": {"/a": {"$ref": "#/nowhere"}}}, "#/nowhere is not in the definition"),
    ({"paths": {"/a": {"$ref": "http://x.example/y"}}}, "is not in the definition"),
    ({"paths": {"/a": {"$ref": "#/paths/~1a"}}}, "refers to itself"),
    ({"paths": {"/a b": {"get": {}}}}, "Errors found during import:\n\tUnable to create resource at path '/a b': "),
    ({"paths": {"/a" * 2000: {"get": {}}}}, "Maximum number of resources for this API has been reached."),
    ({"paths": {"/{a}": {"get": {}}, "/{b}": {"get": {}}}}, "already has a variable path part -- only one is allowed"),
    ({"paths": {"/a": {"get": {"x-amazon-apigateway-integration": {"type": "http", "httpMethod": "GET", "uri": "x"}}}}},
     "Unable to put integration on 'GET' for resource at path '/a': Invalid HTTP endpoint specified for URI"),
    ({"components": {"schemas": {"a-b": {}}}}, "Model name must be alphanumeric: a-b"),
    ({"components": {"securitySchemes": {"s": {"x-amazon-apigateway-authorizer": {"type": "x"}}}}},
     "Invalid authorizer type x"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), BAD)
def test_a_bad_definition_is_refused_and_changes_nothing(lab: Lab, body: Any, says: str):
    base = {"openapi": "3.0.1", "info": {"title": "bad"}, "paths": {}}
    is_part = isinstance(body, dict) and not {"swagger", "openapi"} & set(body)
    text = body if isinstance(body, str) else json.dumps({**base, **body} if is_part else body)
    before = [api["id"] for api in lab.rest.get_rest_apis()["items"]]
    with pytest.raises(ClientError) as caught:
        lab.rest.import_rest_api(body=text)
    assert caught.value.response["Error"]["Code"] == "BadRequestException"
    assert says in caught.value.response["Error"]["Message"]
    assert [api["id"] for api in lab.rest.get_rest_apis()["items"]] == before
    made = lab.rest.import_rest_api(body=json.dumps(openapi(lab, a=None)))["id"]
    kept = (lab.rest.get_rest_api(restApiId=made), resources_of(lab, made))
    with pytest.raises(ClientError, match=r"Invalid|Unable|not in"):
        lab.rest.put_rest_api(restApiId=made, mode="overwrite", body=text)
    after = (lab.rest.get_rest_api(restApiId=made), resources_of(lab, made))
    for answer in (kept[0], after[0]):
        answer.pop("ResponseMetadata")
    assert after == kept


def test_no_path_of_a_definition_is_looked_for_among_all_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    looks = 0
    get_path = moto_models.Resource.get_path

    def count_and_get(resource: Any) -> str:
        nonlocal looks
        looks += 1
        return get_path(resource)

    monkeypatch.setattr(moto_models.Resource, "get_path", count_and_get)
    paths = {f"a{i}/{{b}}": None for i in range(100)}
    made = lab.rest.import_rest_api(body=json.dumps(openapi(lab, **paths)))
    assert looks < 100
    assert len(resources_of(lab, made["id"])) == 201


# --- HTTP APIs --------------------------------------------------------------------------------


def http_definition(lab: Lab) -> dict[str, Any]:
    integration = {
        "type": "aws_proxy", "httpMethod": "POST", "uri": lab.function, "payloadFormatVersion": "2.0",
    }  # fmt: skip
    reference = {"$ref": "#/components/x-amazon-apigateway-integrations/f"}
    return {
        "openapi": "3.0.1",
        "info": {"title": "web", "version": "2"},
        "x-amazon-apigateway-cors": {"allowOrigins": ["https://a.example"], "allowMethods": ["GET"]},
        "components": {
            "x-amazon-apigateway-integrations": {"f": integration},
            "securitySchemes": {
                "mine": {
                    "type": "apiKey", "in": "header", "name": "X-Token",
                    "x-amazon-apigateway-authorizer": {
                        "type": "request", "authorizerUri": function_uri(lab), "enableSimpleResponses": True,
                        "authorizerPayloadFormatVersion": "2.0", "identitySource": "$request.header.X-Token",
                    },
                }
            },
        },
        "paths": {
            "/a/{b}": {"get": {"x-amazon-apigateway-integration": reference}},
            "/secret": {"get": {"security": [{"mine": []}], "x-amazon-apigateway-integration": integration}},
            "/$default": {"x-amazon-apigateway-any-method": {"x-amazon-apigateway-integration": integration}},
        },
    }  # fmt: skip


def test_an_http_api_is_imported_and_imported_again(lab: Lab):
    made = lab.http.import_api(Body=json.dumps(http_definition(lab)))
    api_id = made["ApiId"]
    assert (made["Name"], made["ProtocolType"], made["Version"]) == ("web", "HTTP", "2")
    assert made["CorsConfiguration"]["AllowOrigins"] == ["https://a.example"]
    lab.http.create_stage(ApiId=api_id, StageName="$default")
    routes = {r["RouteKey"]: r for r in lab.http.get_routes(ApiId=api_id)["Items"]}
    assert set(routes) == {"GET /a/{b}", "GET /secret", "$default"}
    assert routes["GET /secret"]["AuthorizationType"] == "CUSTOM"
    assert json.loads(ask(lab, api_id, "/a/7").body)["pathParameters"] == {"b": "7"}
    assert ask(lab, api_id, "/elsewhere", "POST").status == 201
    assert ask(lab, api_id, "/secret").status == 401
    assert ask(lab, api_id, "/secret", **{"x-token": "yes"}).status == 201
    smaller = {**http_definition(lab), "paths": {}}
    lab.http.reimport_api(ApiId=api_id, Body=json.dumps(smaller))
    assert lab.http.get_routes(ApiId=api_id)["Items"] == []
    assert [stage["StageName"] for stage in lab.http.get_stages(ApiId=api_id)["Items"]] == [
        "$default"
    ]
    with pytest.raises(ClientError, match="imported from OpenAPI 3"):
        lab.http.import_api(Body=json.dumps(swagger(lab)))


# --- templates --------------------------------------------------------------------------------


def output_of(cfn: Any, name: str) -> dict[str, str]:
    (stack,) = cfn.describe_stacks(StackName=name)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def test_a_templates_body_and_its_change(lab: Lab):
    cfn: Any = lab.cloud.client("cloudformation")

    def template(*paths: str) -> str:
        body = openapi(lab, **dict.fromkeys(paths))
        api = {
            "Type": "AWS::ApiGateway::RestApi",
            "Properties": {"Name": "mine", "Body": body, "BinaryMediaTypes": ["image/gif"]},
        }
        return json.dumps({"Resources": {"Api": api}, "Outputs": {"Id": {"Value": {"Ref": "Api"}}}})

    assert create(cfn, template("a", "b"), "bodies") == "CREATE_COMPLETE"
    api_id = output_of(cfn, "bodies")["Id"]
    for paths in (("a", "b"), ("b", "c")):
        if paths != ("a", "b"):
            cfn.update_stack(StackName="bodies", TemplateBody=template(*paths))
            assert settled(cfn, "bodies") == "UPDATE_COMPLETE"
        api = lab.rest.get_rest_api(restApiId=api_id)
        assert (api["name"], api["binaryMediaTypes"]) == ("mine", ["image/gif"])
        assert sorted(resources_of(lab, api_id)) == ["/", *(f"/{path}" for path in paths)]


def test_a_body_in_a_bucket(lab: Lab):
    cfn: Any = lab.cloud.client("cloudformation")
    s3: Any = lab.cloud.client("s3")
    s3.create_bucket(Bucket="definitions")
    s3.put_object(Bucket="definitions", Key="rest.yaml", Body=yaml.safe_dump(openapi(lab, a=None)))
    s3.put_object(Bucket="definitions", Key="http.json", Body=json.dumps(http_definition(lab)))
    resources = {
        name: {
            "Type": kind,
            "Properties": {"BodyS3Location": {"Bucket": "definitions", "Key": key}},
        }
        for name, kind, key in (
            ("Rest", "AWS::ApiGateway::RestApi", "rest.yaml"),
            ("Http", "AWS::ApiGatewayV2::Api", "http.json"),
        )
    }
    outputs = {name: {"Value": {"Ref": name}} for name in resources}
    assert create(cfn, {"Resources": resources, "Outputs": outputs}, "buckets") == "CREATE_COMPLETE"
    ids = output_of(cfn, "buckets")
    assert "/a" in resources_of(lab, ids["Rest"])
    assert len(lab.http.get_routes(ApiId=ids["Http"])["Items"]) == 3
    assert lab.http.get_api(ApiId=ids["Http"])["Name"] == "web"


def test_a_body_that_cannot_be_imported_fails_the_stack(lab: Lab):
    cfn: Any = lab.cloud.client("cloudformation")
    api = {
        "Type": "AWS::ApiGateway::RestApi",
        "Properties": {"Body": openapi(lab, **{"a b": None})},
    }
    assert create(cfn, {"Resources": {"Api": api}}, "bad-body") == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="bad-body")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("Unable to create resource at path '/a b'" in reason for reason in reasons)


def test_an_api_keeps_its_binary_media_types_and_its_version(lab: Lab):
    client = lab.rest
    made = client.create_rest_api(name="binary", binaryMediaTypes=["image/png"], version="2")
    read = client.get_rest_api(restApiId=made["id"])
    for answer in (made, read):
        assert (answer["binaryMediaTypes"], answer["version"]) == (["image/png"], "2")


def test_an_api_has_no_more_resources_than_the_memory_has_room_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.services.apigateway import openapi_rest

    monkeypatch.setattr(openapi_rest, "_MOST_RESOURCES", 50)
    paths = {f"/p{number}/a/b/c": {"get": {}} for number in range(20)}
    body = json.dumps({"openapi": "3.0.1", "info": {"title": "many"}, "paths": paths})
    with pytest.raises(ClientError, match="Maximum number of resources"):
        lab.rest.import_rest_api(body=body)
