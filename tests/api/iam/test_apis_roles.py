"""As whom an API calls a service: its integration's role, which API Gateway may assume and the maker may pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

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
        {},
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
    integrate(rest, place)
    later = [{"op": "replace", "path": "/credentials", "value": role("reader")}]
    assert "iam:PassRole" in refusal(rest.update_integration, **place, patchOperations=later)[2]
    http = as_role(cloud, "maker", "apigatewayv2")
    api = http.create_api(Name="h", ProtocolType="WEBSOCKET", RouteSelectionExpression="$x")
    given = {"IntegrationType": "AWS", "IntegrationUri": URI, "CredentialsArn": role("reader")}
    assert "iam:PassRole" in refusal(http.create_integration, ApiId=api["ApiId"], **given)[2]
