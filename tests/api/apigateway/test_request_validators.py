"""A method's request validator: required parameters, and bodies held against models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.services.apigateway.invocation.integrations import Refused
from headrace.services.apigateway.invocation.mappings import RequestValues
from headrace.services.apigateway.invocation.validation import check_request
from tests.api.apigateway.test_invocation import (
    Lab,
    message,
)
from tests.api.apigateway.test_invocation import lab as lab  # a fixture

PERSON = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "type": "object",
    "required": ["name", "age"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z]", "maxLength": 5},
        "age": {"type": "integer", "minimum": 0},
        "kind": {"enum": ["a", "b"]},
        "home": {"$ref": "https://apigateway.amazonaws.com/restapis/API/models/Home"},
        "next": {"$ref": "#"},
    },
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def validated(lab: Lab) -> str:
    """The path of a method that validates everything, and shows what is wrong by a gateway response."""
    home = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    for name, schema in (("Home", home), ("Person", PERSON)):
        lab.rest.create_model(
            restApiId=lab.rest_id,
            name=name,
            contentType="application/json",
            schema=json.dumps(schema).replace("API", lab.rest_id),
        )
    validator = lab.rest.create_request_validator(
        restApiId=lab.rest_id,
        name="all",
        validateRequestBody=True,
        validateRequestParameters=True,
    )["id"]
    lab.method(
        lab.resource("validated"),
        {"type": "AWS_PROXY", "uri": lab.invocation()},
        requestValidatorId=validator,
        requestModels={"application/json": "Person"},
        requestParameters={
            "method.request.querystring.page": True,
            "method.request.header.X-Tenant": True,
            "method.request.querystring.size": False,
        },
    )
    lab.rest.put_gateway_response(
        restApiId=lab.rest_id,
        responseType="BAD_REQUEST_BODY",
        statusCode="422",
        responseParameters={
            "gatewayresponse.header.x-path": "method.request.header.X-Tenant",
            "gatewayresponse.header.x-fix": "'a'",
        },
        responseTemplates={
            "application/json": '{"said": $context.error.messageString, "why":'
            ' "$context.error.validationErrorString", "at": "${context.resourcePath}"}'
        },
    )
    return "/prod/validated"


def test_a_request_without_a_required_parameter_is_refused(lab: Lab, validated: str):
    answer = lab.ask(lab.rest_id, validated, b"{}")
    assert (answer.status, message(answer)) == (
        400,
        "Missing required request parameters: [page, X-Tenant]",
    )
    assert dict(answer.headers)["x-amzn-ErrorType"] == "BadRequestException"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"name": "A"}, 'object has missing required properties ([\\"age\\"])'),
        (
            {"name": "A", "age": 1.5},
            'instance type (number) does not match any allowed primitive type (allowed: [\\"integer\\"])',
        ),
        (
            {"name": "a", "age": 1},
            'ECMA 262 regex \\"^[A-Z]\\" does not match input string \\"a\\"',
        ),
        (
            {"name": "A", "age": -1},
            "numeric instance is lower than the required minimum (minimum: 0, found: -1)",
        ),
        (
            {"name": "A", "age": 1, "more": 1},
            'object instance has properties which are not allowed by the schema: [\\"more\\"]',
        ),
        (
            {"name": "A", "age": 1, "kind": "c"},
            'instance value (\\"c\\") not found in enum (possible values: [\\"a\\",\\"b\\"])',
        ),
        (
            {"name": "A", "age": 1, "home": {"tags": [1, 1]}},
            "array must not contain duplicate elements",
        ),
        (
            {"name": "A", "age": 1, "next": {"name": "Abcdef", "age": 1}},
            'string \\"Abcdef\\" is too long (length: 6, maximum allowed: 5)',
        ),
    ],
)
def test_a_body_that_its_model_refuses_is_answered_by_the_gateway_response(
    lab: Lab, validated: str, body: dict[str, Any], why: str
):
    answer = lab.ask(lab.rest_id, f"{validated}?page=1", json.dumps(body).encode(), x_tenant="t")
    assert answer.status == 422
    text = bytes(answer.body).decode()  # type: ignore[arg-type]
    assert text == (
        f'{{"said": "Invalid request body", "why": "[{why}]", "at": "/validated"}}'.replace(
            '\\"', '"'
        )
    )
    assert dict(answer.headers) | {"x-path": "t", "x-fix": "a"} == dict(answer.headers)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "text/plain", ""])
def test_a_valid_body_and_one_of_a_type_without_a_model_pass(lab: Lab, validated: str, kind: str):
    body = (
        b"?"
        if kind == "text/plain"
        else b'{"name": "Ann", "age": 3, "next": {"name": "B", "age": 0}}'
    )
    headers = {"x_tenant": "t", **({"content_type": kind} if kind else {})}
    assert lab.ask(lab.rest_id, f"{validated}?page=1", body, **headers).status == 201


def test_a_model_that_multiplies_work_is_given_up(lab: Lab):
    definitions = {
        f"n{level}": {"allOf": [{"$ref": f"#/definitions/n{level + 1}"}] * 2} for level in range(40)
    }
    bomb = json.dumps({"definitions": {**definitions, "n40": {}}, "$ref": "#/definitions/n0"})
    method = {
        "validator": {"validateRequestBody": True},
        "requestModels": {"$default": "Bomb"},
    }
    values = RequestValues(path={}, querystring={}, header={}, body="{}", context={})
    for schema in (bomb, '{"$ref": "#"}', '{"$ref": "http://127.0.0.1:1/x"}'):
        with pytest.raises(Refused, match="Internal server error"):
            check_request(method, {"Bomb": schema}, values)
