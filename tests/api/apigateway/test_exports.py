"""Exports of REST APIs, in the form that AWS gave to its PetStore's (recorded 2024-04-15; see exports.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

TEXT = {"type": "string"}
ALLOW = "method.response.header.Access-Control-Allow-Origin"
TEMPLATE = {"application/json": '{"statusCode": 200}'}
ANSWERS = {"default": {"statusCode": "200", "responseParameters": {ALLOW: "'*'"}}}
LISTS = {
    "type": "http", "httpMethod": "GET", "uri": "http://pets.example.com/pets", "responses": ANSWERS,
    "passthroughBehavior": "when_no_match",
    "requestParameters": {"integration.request.querystring.type": "method.request.querystring.type"},
}  # fmt: skip
MOCKS = {
    "type": "mock", "requestTemplates": TEMPLATE, "passthroughBehavior": "when_no_match",
    "responses": {"default": {"statusCode": "200", "responseTemplates": {"text/html": "<html/>"}}},
}  # fmt: skip
TYPES = {"type": "string", "enum": ["dog", "cat"]}
INTEGRATION = "x-amazon-apigateway-integration"


def models(prefix: str) -> dict[str, Any]:
    def ref(name: str) -> dict[str, str]:
        return {"$ref": f"#/{prefix}/{name}"}

    return {
        "Pets": {"type": "array", "items": ref("Pet")},
        "Pet": {"type": "object", "properties": {"type": ref("PetType")}},
        "PetType": TYPES,
    }


def swagger_paths() -> dict[str, Any]:
    pet = {"in": "body", "name": "Pet", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    kind = {"name": "type", "in": "query", "required": False, **TEXT}
    pet_id = {"name": "petId", "in": "path", "required": True, **TEXT}
    allow = {"description": "200 response", "headers": {"Access-Control-Allow-Origin": TEXT}}
    pets = {**allow, "schema": {"$ref": "#/definitions/Pets"}}
    page = {"description": "200 response", "headers": {"Content-Type": TEXT}}
    json_ = ["application/json"]
    return {
        "/": {"get": {"consumes": json_, "produces": ["text/html"], "responses": {"200": page}, INTEGRATION: MOCKS}},
        "/pets": {
            "get": {"produces": json_, "parameters": [kind], "responses": {"200": pets}, INTEGRATION: LISTS},
            "post": {
                "operationId": "CreatePet", "consumes": json_, "produces": json_, "parameters": [pet],
                "responses": {"200": pets}, INTEGRATION: {**LISTS, "httpMethod": "POST"},
            },
        },
        "/pets/{petId}": {"get": {"parameters": [pet_id], "responses": {"200": allow}, INTEGRATION: LISTS}},
    }  # fmt: skip


def without_integrations(paths: dict[str, Any]) -> dict[str, Any]:
    return {
        path: {verb: {k: v for k, v in one.items() if k != INTEGRATION} for verb, one in verbs.items()}
        for path, verbs in paths.items()
    }  # fmt: skip


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("exports") / "data") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def api_id(cloud: InProcessCloud) -> str:
    return imported(cloud, {"title": "PetStore", "description": "Pets"})


def imported(cloud: InProcessCloud, info: dict[str, str]) -> str:
    """Import the document, which has no version, as PetStore's has none; deploy it."""
    unused = {"Unused": {"type": "object"}}
    document = {
        "swagger": "2.0", "info": info, "schemes": ["https"], "paths": swagger_paths(),
        "definitions": {**models("definitions"), **unused},
    }  # fmt: skip
    client = cloud.client("apigateway")
    made = client.import_rest_api(failOnWarnings=True, body=json.dumps(document).encode())["id"]
    client.create_deployment(restApiId=made, stageName="local")
    return made


def export(cloud: InProcessCloud, api: str, kind: str, **more: Any) -> tuple[str, Any]:
    """Return the name of an export's file, and the document."""
    answer = cloud.client("apigateway").get_export(
        restApiId=api, stageName="local", exportType=kind, **more
    )
    assert answer["contentType"] == "application/octet-stream"
    return answer["contentDisposition"], yaml.safe_load(answer["body"].read())


@pytest.mark.parametrize("extensions", [{}, {"extensions": "apigateway"}])
def test_swagger(cloud: InProcessCloud, api_id: str, extensions: dict[str, str]) -> None:
    name, document = export(cloud, api_id, "swagger", parameters=extensions)
    version = document["info"].pop("version")
    assert name == f'attachment; filename="swagger_{version}.json"'
    paths = swagger_paths()
    assert document == {
        "swagger": "2.0",
        "info": {"title": "PetStore", "description": "Pets"},
        "host": f"{api_id}.execute-api.us-east-1.amazonaws.com",
        "basePath": "/local",
        "schemes": ["https"],
        "paths": paths if extensions else without_integrations(paths),
        "definitions": models("definitions"),
    }


@pytest.mark.parametrize("accepts", ["application/json", "application/yaml"])
def test_openapi_three(cloud: InProcessCloud, api_id: str, accepts: str) -> None:
    parameters = {"extensions": "integrations"}
    name, document = export(cloud, api_id, "oas30", parameters=parameters, accepts=accepts)
    version = document["info"].pop("version")
    assert name == f'attachment; filename="oas30_{version}.{accepts.rpartition("/")[2]}"'

    def content(model: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}}

    headers = {"Access-Control-Allow-Origin": {"schema": TEXT}}
    pets = {"description": "200 response", "headers": headers, "content": content("Pets")}
    page = {**pets, "headers": {"Content-Type": {"schema": TEXT}}, "content": {}}
    kind = {"name": "type", "in": "query", "schema": TEXT}
    pet_id = {"name": "petId", "in": "path", "required": True, "schema": TEXT}
    host = f"{api_id}.execute-api.us-east-1.amazonaws.com"
    assert document == {
        "openapi": "3.0.1",
        "info": {"title": "PetStore", "description": "Pets"},
        "servers": [
            {"url": f"https://{host}/{{basePath}}", "variables": {"basePath": {"default": "local"}}}
        ],
        "paths": {
            "/": {"get": {"responses": {"200": page}, INTEGRATION: MOCKS}},
            "/pets": {
                "get": {"parameters": [kind], "responses": {"200": pets}, INTEGRATION: LISTS},
                "post": {
                    "operationId": "CreatePet", "requestBody": {"content": content("Pet"), "required": True},
                    "responses": {"200": pets}, INTEGRATION: {**LISTS, "httpMethod": "POST"},
                },
            },
            "/pets/{petId}": {
                "get": {"parameters": [pet_id], "responses": {"200": {**pets, "content": {}}}, INTEGRATION: LISTS}
            },
        },
        "components": {"schemas": models("components/schemas")},
    }  # fmt: skip


def test_who_may_call_is_exported(cloud: InProcessCloud) -> None:
    client = cloud.client("apigateway")
    api = imported(cloud, {"title": "guarded", "version": "7"})
    root = next(r for r in client.get_resources(restApiId=api)["items"] if r["path"] == "/pets")
    function = "arn:aws:lambda:us-east-1:000000000000:function:f"
    uri = f"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/{function}/invocations"
    authorizer = client.create_authorizer(
        restApiId=api, name="keys", type="TOKEN", authorizerUri=uri,
        identitySource="method.request.header.Authorization",
    )["id"]  # fmt: skip
    where: dict[str, str] = {"restApiId": api, "resourceId": root["id"]}
    client.put_method(**where, httpMethod="ANY", authorizationType="AWS_IAM", apiKeyRequired=True)
    client.put_method(
        **where, httpMethod="PUT", authorizationType="CUSTOM", authorizerId=authorizer
    )
    _, document = export(cloud, api, "swagger", parameters={"extensions": "authorizers"})
    assert document["info"]["version"] == "7"
    verbs = document["paths"]["/pets"]
    assert verbs["x-amazon-apigateway-any-method"]["security"] == [{"sigv4": []}, {"api_key": []}]
    assert verbs["put"]["security"] == [{"keys": []}]
    schemes = document["securityDefinitions"]
    assert schemes["api_key"] == {"type": "apiKey", "in": "header", "name": "x-api-key"}
    assert schemes["sigv4"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    details = schemes["keys"]["x-amazon-apigateway-authorizer"]
    assert (details["type"], details["authorizerUri"]) == ("token", uri)


@pytest.mark.parametrize("kind", ["swagger", "oas30"])
def test_an_export_has_the_settings_that_an_import_reads(cloud: InProcessCloud, kind: str) -> None:
    rule = {"validateRequestBody": True, "validateRequestParameters": False}
    throttled = {
        "statusCode": 503, "responseParameters": {"gatewayresponse.header.Retry-After": "'9'"},
        "responseTemplates": {"application/json": "{}"},
    }  # fmt: skip
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "execute-api:Invoke",
        "Resource": "*",
    }
    extensions = {
        "binary-media-types": ["image/png"],
        "api-key-source": "AUTHORIZER",
        "minimum-compression-size": 10,
        "policy": {"Version": "2012-10-17", "Statement": [statement]},
        "endpoint-configuration": {"disableExecuteApiEndpoint": True},
        "request-validators": {"bodies": rule},
        "gateway-responses": {"THROTTLED": throttled},
    }
    prefixed = {f"x-amazon-apigateway-{name}": value for name, value in extensions.items()}
    document: dict[str, Any] = {
        "swagger": "2.0", "info": {"title": "set", "version": "1"}, "paths": swagger_paths(),
        "definitions": models("definitions"), "x-amazon-apigateway-request-validator": "bodies", **prefixed,
    }  # fmt: skip
    client = cloud.client("apigateway")

    def exported(body: dict[str, Any]) -> dict[str, Any]:
        api = client.import_rest_api(body=json.dumps(body).encode())["id"]
        client.create_deployment(restApiId=api, stageName="local")
        return export(cloud, api, kind, parameters={"extensions": "apigateway"})[1]

    first = exported(document)
    assert {name: first[name] for name in prefixed} == prefixed
    assert first["paths"]["/pets"]["post"]["x-amazon-apigateway-request-validator"] == "bodies"
    again = exported(first)
    for member in (*prefixed, "paths"):
        assert again[member] == first[member]


@pytest.mark.parametrize(
    ("stage", "kind", "extensions", "sentence"),
    [
        ("none", "swagger", "apigateway", "Invalid stage identifier"),
        ("local", "raml", "apigateway", "No API exporter for type 'raml'"),
        ("local", "oas30", "postman", "headrace exports no extensions of postman"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    cloud: InProcessCloud, api_id: str, stage: str, kind: str, extensions: str, sentence: str
) -> None:
    with pytest.raises(ClientError, match=sentence):
        cloud.client("apigateway").get_export(
            restApiId=api_id, stageName=stage, exportType=kind, parameters={"extensions": extensions}
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["swagger", "oas30"])
def test_what_no_document_can_name_is_left_out(cloud: InProcessCloud, kind: str) -> None:
    client = cloud.client("apigateway")
    api = imported(cloud, {"title": "odd"})
    root = next(r for r in client.get_resources(restApiId=api)["items"] if r["path"] == "/pets")
    where: dict[str, str] = {"restApiId": api, "resourceId": root["id"], "httpMethod": "PUT"}
    client.create_model(
        restApiId=api, name="Deep", contentType="application/json", schema='{"a":' * 3000 + "1" + "}" * 3000
    )  # fmt: skip
    client.put_method(
        **where, authorizationType="NONE", requestModels={"application/json": "Deep"},
        requestParameters={
            "method.request.multivalueheader.x": True, "oddly": True, "method.request.header.a.b": True,
        },
    )  # fmt: skip
    client.put_method_response(
        **where, statusCode="200", responseParameters={"x": True, "method.response.header.y": True}
    )
    _, document = export(cloud, api, kind)
    method = document["paths"]["/pets"]["put"]
    assert [one["name"] for one in method["parameters"] if one["in"] != "body"] == ["a.b"]
    assert list(method["responses"]["200"]["headers"]) == ["y"]
    models = document["definitions"] if kind == "swagger" else document["components"]["schemas"]
    assert models["Deep"] == {}


def test_a_warning_of_an_import_is_one_sentence(cloud: InProcessCloud) -> None:
    document = {"swagger": "2.0", "info": {"title": "x"}}
    with pytest.raises(ClientError) as caught:
        cloud.client("apigateway").import_rest_api(
            failOnWarnings=True, body=json.dumps(document).encode()
        )
    message = caught.value.response["Error"]["Message"]
    assert message.endswith("Parse issue: 'paths' is a required property")
