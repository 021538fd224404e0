"""As whom an API calls a service: its integration's role, which API Gateway may assume and the maker may pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, refusal

GATEWAY = "apigateway.amazonaws.com"
URI = f"arn:aws:apigateway:{REGION}:secretsmanager:action/GetSecretValue"
READ = allow("secretsmanager:GetSecretValue", "*")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("apis") / "data", iam="enforce") as cloud:
        cloud.client("secretsmanager").create_secret(Name="s", SecretString="hidden")
        make_role(cloud, "maker", allow("apigateway:*", "*"))
        make_role(cloud, "reader", READ, trusts=GATEWAY)
        make_role(cloud, "stranger", READ)
        make_role(cloud, "idle", trusts=GATEWAY)
        yield cloud


def role(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


def make_method(rest: Any) -> dict[str, str]:
    api = rest.create_rest_api(name="a")["id"]
    (root,) = rest.get_resources(restApiId=api)["items"]
    place = {"restApiId": api, "resourceId": root["id"], "httpMethod": "POST"}
    rest.put_method(**place, authorizationType="NONE")
    return place


def integrate(rest: Any, place: dict[str, str], **credentials: str) -> None:
    rest.put_integration(**place, type="AWS", integrationHttpMethod="POST", uri=URI, **credentials)


def read_by_rest(cloud: InProcessCloud, **credentials: str) -> bytes:
    """Return what an API's client gets whose integration reads the secret."""
    rest = cloud.client("apigateway")
    place = make_method(rest)
    integrate(rest, place, **credentials)
    rest.put_method_response(**place, statusCode="200")
    rest.put_integration_response(**place, statusCode="200")
    rest.create_deployment(restApiId=place["restApiId"], stageName="prod")
    return send(cloud, place["restApiId"], "/prod/", {"SecretId": "s"})[1]


def send(cloud: InProcessCloud, api: str, path: str, body: Any) -> tuple[int, bytes]:
    host = f"{api}.execute-api.{REGION}.localhost:4566"
    headers = {"host": host, "content-type": "application/json"}
    answer = cloud.handle(HttpRequest("POST", path, "", headers, json.dumps(body).encode()))
    return answer.status, bytes(answer.body)  # type: ignore[arg-type]


def test_an_api_acts_as_its_integrations_role(cloud: InProcessCloud):
    assert b"hidden" in read_by_rest(cloud, credentials=role("reader"))
    assert b"is not authorized to perform" in read_by_rest(cloud, credentials=role("idle"))


@pytest.mark.parametrize(
    "credentials",
    [
        {"credentials": f"arn:aws:iam::{ACCOUNT}:user/u"},
        {"credentials": role("stranger")},
        {"credentials": role("nobody")},
    ],
)
def test_an_api_does_nothing_without_a_role_that_trusts_it(
    cloud: InProcessCloud, credentials: dict[str, str]
):
    assert b"hidden" not in read_by_rest(cloud, **credentials)


@pytest.mark.parametrize(
    ("credentials", "status"),
    [({"CredentialsArn": role("sender")}, 200), ({"CredentialsArn": role("idle")}, 403), ({}, 403)],
)
def test_an_http_apis_route_is_no_way_around(
    cloud: InProcessCloud, credentials: dict[str, str], status: int
):
    queue = cloud.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    if credentials.get("CredentialsArn") == role("sender"):
        make_role(cloud, "sender", allow("sqs:SendMessage", "*"), trusts=GATEWAY)
    http = cloud.client("apigatewayv2")
    api = http.create_api(Name="h", ProtocolType="HTTP")["ApiId"]
    integration = http.create_integration(
        ApiId=api,
        IntegrationType="AWS_PROXY",
        IntegrationSubtype="SQS-SendMessage",
        PayloadFormatVersion="1.0",
        RequestParameters={"QueueUrl": queue, "MessageBody": "$request.body"},
        **credentials,
    )["IntegrationId"]
    http.create_route(ApiId=api, RouteKey="POST /m", Target=f"integrations/{integration}")
    http.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
    assert send(cloud, api, "/m", {"n": 1})[0] == status


def test_naming_a_role_needs_the_permission_to_pass_it(cloud: InProcessCloud):
    rest = as_role(cloud, "maker", "apigateway")
    place = make_method(rest)
    code, status, sentence = refusal(
        lambda **given: integrate(rest, place, **given), credentials=role("reader")
    )
    assert (code, status) == ("AccessDeniedException", 403)
    assert f"iam:PassRole on resource: {role('reader')}" in sentence
    as_itself = cloud.client("apigateway")
    integrate(as_itself, place, credentials=role("idle"))
    later = [{"op": "replace", "path": "/credentials", "value": role("reader")}]
    assert "iam:PassRole" in refusal(rest.update_integration, **place, patchOperations=later)[2]
    http = as_role(cloud, "maker", "apigatewayv2")
    api = http.create_api(Name="h", ProtocolType="WEBSOCKET", RouteSelectionExpression="$x")
    given = {"IntegrationType": "AWS", "IntegrationUri": URI, "CredentialsArn": role("reader")}
    assert "iam:PassRole" in refusal(http.create_integration, ApiId=api["ApiId"], **given)[2]


def test_a_service_is_called_with_a_role_alone(cloud: InProcessCloud):
    rest = cloud.client("apigateway")
    place = make_method(rest)
    code, status, sentence = refusal(lambda: integrate(rest, place))
    assert (code, status, sentence) == (
        "BadRequestException",
        400,
        "Role ARN must be specified for AWS integrations",
    )
    given = {"type": "AWS_PROXY", "integrationHttpMethod": "POST", "credentials": role("reader")}
    assert "currently only supports" in refusal(rest.put_integration, **place, **given, uri=URI)[2]
    body = json.dumps(definition({}))
    assert "Role ARN must" in refusal(rest.import_rest_api, body=body)[2]
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"
    uri = f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{function}/invocations"
    rest.put_integration(**place, type="AWS", integrationHttpMethod="POST", uri=uri)


def definition(integration: dict[str, str], **members: Any) -> dict[str, Any]:
    call = {"type": "aws", "httpMethod": "POST", "uri": URI, **integration}
    path = {"post": {"responses": {}, "x-amazon-apigateway-integration": call}}
    return {"openapi": "3.0.1", "info": {"title": "a"}, "paths": {"/": path}, **members}


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_a_definition_passes_its_roles_and_sets_its_policy(cloud: InProcessCloud, write: Any):
    text = write(definition({"credentials": role("reader")}))
    rest = as_role(cloud, "maker", "apigateway")
    assert "iam:PassRole" in refusal(rest.import_rest_api, body=text)[2]
    make_role(cloud, f"poster-{write.__name__}", allow("apigateway:POST", "*"))
    poster = as_role(cloud, f"poster-{write.__name__}", "apigateway")
    ruled = write(definition({"credentials": role("reader")}, **{"x-amazon-apigateway-policy": {}}))
    assert "apigateway:UpdateRestApiPolicy" in refusal(poster.import_rest_api, body=ruled)[2]
    assert "iam:PassRole" in refusal(poster.import_rest_api, body=text)[2]
    assert "iam:PassRole" in refusal(poster.import_rest_api, body=text.encode("utf-16"))[2]
    http = as_role(cloud, "maker", "apigatewayv2")
    assert "iam:PassRole" in refusal(http.import_api, Body=text)[2]
    # Of these no JSON can be made, or no bytes: that hides no role.
    dated = f"{yaml.safe_dump(json.loads(text) if text[0] == '{' else yaml.safe_load(text))}x-d: {{2026-01-02: 1}}\n"
    assert "iam:PassRole" in refusal(poster.import_rest_api, body=dated)[2]
    halved = json.dumps({**yaml.safe_load(text), "x-d": "\ud800"}, ensure_ascii=True)
    assert "iam:PassRole" in refusal(http.import_api, Body=halved)[2]
    deep = json.dumps(yaml.safe_load(text))[:-1] + ', "x-d": ' + "[" * 980 + "]" * 980 + "}"
    assert refusal(poster.import_rest_api, body=deep)[1] == 400
    # What nobody can read, the service refuses itself.
    assert "OpenAPI" in refusal(rest.import_rest_api, body="[")[2]


def test_managing_an_api_needs_permission_on_its_path(cloud: InProcessCloud):
    place = make_method(cloud.client("apigateway"))
    api, other = place["restApiId"], make_method(cloud.client("apigateway"))["restApiId"]
    arn = f"arn:aws:apigateway:{REGION}::/restapis/{api}"
    make_role(cloud, "looker", allow("apigateway:GET", [arn, f"{arn}/*"]))
    rest = as_role(cloud, "looker", "apigateway")
    assert rest.get_rest_api(restApiId=api)["id"] == api
    assert rest.get_method(**place)["httpMethod"] == "POST"
    for call, given, action, resource in (
        (rest.get_rest_api, {"restApiId": other}, "GET", f"/restapis/{other}"),
        (rest.delete_rest_api, {"restApiId": api}, "DELETE", f"/restapis/{api}"),
        (rest.create_rest_api, {"name": "x"}, "POST", "/restapis"),
        (rest.get_rest_apis, {}, "GET", "/restapis"),
        (rest.update_stage, {"restApiId": api, "stageName": "s"}, "PATCH", f"/restapis/{api}/stages/s"),
    ):  # fmt: skip
        code, status, sentence = refusal(call, **given)
        assert (code, status) == ("AccessDeniedException", 403)
        assert (
            f"apigateway:{action} on resource: arn:aws:apigateway:{REGION}::{resource} " in sentence
        )
    http = as_role(cloud, "looker", "apigatewayv2")
    assert (
        f"apigateway:GET on resource: arn:aws:apigateway:{REGION}::/apis "
        in refusal(http.get_apis)[2]
    )


def test_services_of_the_long_tail_ask_too(cloud: InProcessCloud):
    pool = cloud.client("cognito-idp").create_user_pool(PoolName="p")["UserPool"]["Id"]
    idle = as_role(cloud, "idle", "cognito-idp")
    sentence = refusal(idle.list_users, UserPoolId=pool)[2]
    assert (
        f"cognito-idp:ListUsers on resource: arn:aws:cognito-idp:{REGION}:{ACCOUNT}:userpool/{pool}"
        in sentence
    )
    assert "ec2:DescribeInstances" in refusal(as_role(cloud, "idle", "ec2").describe_instances)[2]
    make_role(
        cloud,
        "lister",
        allow("cognito-idp:ListUsers", f"arn:aws:cognito-idp:{REGION}:{ACCOUNT}:userpool/{pool}"),
    )
    assert as_role(cloud, "lister", "cognito-idp").list_users(UserPoolId=pool)["Users"] == []
