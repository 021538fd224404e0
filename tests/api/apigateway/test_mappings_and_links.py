"""Mappings and templates that AWS refuses of integrations, and what VPC links are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

ARN = "arn:aws:elasticloadbalancing:us-east-1:000000000000:loadbalancer/net/l/1"
WRONG = "Invalid mapping expression specified: Validation Result: warnings : [], errors : [{}]"
EXPRESSION = "Invalid mapping expression specified: {}"
PARAMETER = "Invalid mapping expression parameter specified: {}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("c") / "data") as cloud:
        yield cloud.client("apigateway")


@pytest.fixture(scope="module")
def method(api: Any) -> dict[str, Any]:
    made = api.create_rest_api(name="a")
    method = {"restApiId": made["id"], "resourceId": made["rootResourceId"], "httpMethod": "GET"}
    declared = {
        "method.request.querystring.q": False,
        "method.request.querystring.hub.mode": False,
        "method.request.header.h": True,
    }
    api.put_method(**method, authorizationType="NONE", requestParameters=declared)
    api.put_integration(**method, type="MOCK")
    api.put_method_response(
        **method, statusCode="200", responseParameters={"method.response.header.h": False}
    )
    api.put_integration_response(**method, statusCode="200")
    return method


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("integration.request.header.a", "'text'", ""),
        ("integration.request.header.a", "method.request.multivalueheader.h", ""),
        ("integration.request.querystring.a", "method.request.body.x[0]", ""),
        ("integration.request.path.a", "context.requestId", ""),
        ("integration.request.querystring.hub.mode", "method.request.querystring.hub.mode", ""),
        ("integration.request.header.a", "stageVariables.v", ""),
        ("integration.request.header.a", "text", EXPRESSION.format("text")),
        ("integration.request.header.a", "integration.response.body", EXPRESSION.format("integration.response.body")),
        ("integration.request.header.a", "method.request.header.x", PARAMETER.format("method.request.header.x")),
        ("integration.request.cookie.a", "'text'", PARAMETER.format("integration.request.cookie.a")),
    ],
)  # fmt: skip
def test_mappings_to_a_request_are_checked_when_made_and_when_changed(
    api: Any, method: dict[str, Any], name: str, value: str, wrong: str
):
    operation = {"op": "add", "path": f"/requestParameters/{name}", "value": value}
    asked = (
        lambda: api.put_integration(**method, type="MOCK", requestParameters={name: value}),
        lambda: api.update_integration(**method, patchOperations=[operation]),
    )
    for ask in asked:
        assert _refusal(ask) == (WRONG.format(wrong) if wrong else "")


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("method.response.header.h", "'*'", ""),
        ("method.response.header.h", "integration.response.header.Content-Type", ""),
        ("method.response.header.h", "integration.response.body.a.b", ""),
        ("method.response.header.h", "'a',b", EXPRESSION.format("'a',b")),
        ("method.response.header.other", "'a'", PARAMETER.format("method.response.header.other")),
    ],
)
def test_mappings_from_a_response_are_checked_when_made_and_when_changed(
    api: Any, method: dict[str, Any], name: str, value: str, wrong: str
):
    place = {**method, "statusCode": "200"}
    operation = {"op": "add", "path": f"/responseParameters/{name}", "value": value}
    asked = (
        lambda: api.put_integration_response(**place, responseParameters={name: value}),
        lambda: api.update_integration_response(**place, patchOperations=[operation]),
    )
    for ask in asked:
        assert _refusal(ask) == (WRONG.format(wrong) if wrong else "")


def test_a_methods_response_that_is_not_there_is_not_found(api: Any, method: dict[str, Any]):
    for ask in (api.get_method_response, api.delete_method_response):
        with pytest.raises(ClientError, match="Invalid Response status code specified"):
            ask(**method, statusCode="404")


def test_a_template_has_a_media_type(api: Any, method: dict[str, Any]):
    sentence = (
        "Validation Result: warnings : [], errors : [Invalid content type specified: $default]"
    )
    asked = lambda: api.put_integration(**method, type="MOCK", requestTemplates={"$default": ""})  # noqa: E731
    assert _refusal(asked) == sentence


def test_a_vpc_link_that_a_stage_uses_stays(api: Any, method: dict[str, Any]):
    link = api.create_vpc_link(name="l", targetArns=[ARN], tags={"a": "b"})
    assert link["tags"] == {"a": "b"}
    place = {"vpcLinkId": link["id"]}
    changed = [{"op": "replace", "path": "/description", "value": "d"}]
    assert api.update_vpc_link(**place, patchOperations=changed)["description"] == "d"
    wrong = [{"op": "replace", "path": "/targetArns", "value": ARN}]
    assert _refusal(lambda: api.update_vpc_link(**place, patchOperations=wrong)) == (
        "Invalid patch path  '/targetArns' specified for op 'replace'. Must be one of: [/name, /description]"
    )
    api.put_integration(
        **method,
        type="HTTP_PROXY",
        integrationHttpMethod="GET",
        uri="http://a.example",
        connectionType="VPC_LINK",
        connectionId=link["id"],
    )
    api.create_deployment(restApiId=method["restApiId"], stageName="prod")
    assert _refusal(lambda: api.delete_vpc_link(**place)) == (
        f"Cannot delete vpc link. Vpc link '{link['id']}', is referenced in"
        f" [GET:{method['resourceId']}:prod] in format of [Method:Resource:Stage]."
    )
    api.delete_method(**method)
    api.delete_vpc_link(**place)


def _refusal(ask: Any) -> str:
    try:
        ask()
    except ClientError as error:
        return error.response["Error"]["Message"]
    return ""


def test_a_stacks_vpc_link_is_renamed_in_place(tmp_path: Path):
    properties = '"Properties": {"Name": "%s", "TargetArns": ["%s"]}'
    template = f'{{"Resources": {{"L": {{"Type": "AWS::ApiGateway::VpcLink", {properties}}}}}}}'
    with InProcessCloud(tmp_path / "data") as cloud:
        stacks, api = cloud.client("cloudformation"), cloud.client("apigateway")
        stacks.create_stack(StackName="s", TemplateBody=template % ("one", ARN))
        stacks.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig={"Delay": 0})
        [made] = api.get_vpc_links()["items"]
        stacks.update_stack(StackName="s", TemplateBody=template % ("two", ARN))
        stacks.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig={"Delay": 0})
        assert api.get_vpc_links()["items"] == [{**made, "name": "two"}]


@pytest.fixture
def tested(api: Any) -> Any:
    """Return a function that tests a new method with an integration; return its status and log's lines."""

    def run(integration: dict[str, Any], **asked: Any) -> tuple[int, list[str]]:
        made = api.create_rest_api(name="t")
        place = {
            "restApiId": made["id"],
            "resourceId": made["rootResourceId"],
            "httpMethod": "POST",
        }
        api.put_method(**place, authorizationType="AWS_IAM", apiKeyRequired=True)
        api.put_method_response(**place, statusCode="200")
        api.put_integration(**place, integrationHttpMethod="POST", **integration)
        api.put_integration_response(**place, statusCode="200")
        answer = api.test_invoke_method(**place, **asked)
        return answer["status"], [line.partition(" : ")[2] for line in answer["log"].splitlines()]

    return run


def test_a_test_calls_the_endpoint_without_signature_and_key(tested: Any):
    service = {
        "type": "AWS",
        "uri": "arn:aws:apigateway:us-east-1:kinesis:action/ListStreams",
        "credentials": "arn:aws:iam::000000000000:user/u",
    }
    status, lines = tested(service, body="{}", headers={"X-A": "b"})
    assert status == 200
    assert "Method request headers: {X-A=b}" in lines
    assert "Endpoint request URI: https://kinesis.us-east-1.amazonaws.com/" in lines
    assert any(
        line.startswith('Endpoint response body before transformations: {"') for line in lines
    )
    assert lines[-1] == "Method completed with status: 200"


@pytest.mark.parametrize(
    ("integration", "status", "cause"),
    [
        ({"type": "MOCK"}, 500, "Unable to parse statusCode. It should be an integer."),
        (
            {"type": "AWS", "uri": "arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/"
                "arn:aws:lambda:us-east-1:000000000000:function:none/invocations"},
            500,
            "Invalid permissions on Lambda function",
        ),
        ({"type": "HTTP", "uri": "http://127.0.0.1:1/"}, 504, "Network error communicating with endpoint"),
    ],
)  # fmt: skip
def test_a_test_tells_why_its_method_fails(
    tested: Any, integration: dict[str, Any], status: int, cause: str
):
    answered, lines = tested(integration, body="{}")
    assert answered == status
    assert lines[-2] == f"Execution failed due to configuration error: {cause}"


def test_accounts_and_domain_names_show_their_defaults(api: Any):
    assert api.get_account()["features"] == ["UsagePlans"]
    arn = "arn:aws:acm:us-east-1:000000000000:certificate/c"
    made = api.create_domain_name(domainName="a.example.com", certificateArn=arn)
    shown = api.get_domain_name(domainName="a.example.com")
    for one in (made, shown):
        assert one["endpointConfiguration"] == {"types": ["EDGE"], "ipAddressType": "ipv4"}
        assert (one["securityPolicy"], one["routingMode"]) == ("TLS_1_2", "BASE_PATH_MAPPING_ONLY")
    mode = "ROUTING_RULE_ONLY"
    made = api.create_domain_name(domainName="b.example.com", certificateArn=arn, routingMode=mode)
    assert made["routingMode"] == mode


def test_an_imported_part_takes_the_place_of_the_one_that_is_there(api: Any):
    rest = api.create_rest_api(name="parts")["id"]
    place = {"type": "RESPONSE", "path": "/", "method": "GET", "statusCode": "200"}
    made = api.create_documentation_part(restApiId=rest, location=place, properties="old")["id"]
    body = """
swagger: "2.0"
info: {title: parts}
paths: {}
x-amazon-apigateway-documentation:
  documentationParts:
  - {location: {statusCode: 200, method: GET, type: RESPONSE}, properties: {since: 2026-01-02}}
"""
    ids = api.import_documentation_parts(restApiId=rest, mode="merge", body=body)["ids"]
    (part,) = api.get_documentation_parts(restApiId=rest)["items"]
    assert (ids, part["properties"]) == ([made], '{"since": "2026-01-02"}')
