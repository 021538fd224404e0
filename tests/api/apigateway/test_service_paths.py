"""AWS integrations with services whose operations have paths: `arn:aws:apigateway:REGION:SERVICE:path/PATH`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("paths") / "data") as cloud:
        yield cloud


def ask(cloud: InProcessCloud, uri: str, method: str = "POST", body: Any = None) -> tuple[int, Any]:
    """Make an API with one resource, `/{name}`, whose method calls a service; call it for the name `n1`."""
    rest = cloud.client("apigateway")
    api = rest.create_rest_api(name="a")["id"]
    (root,) = rest.get_resources(restApiId=api)["items"]
    resource = rest.create_resource(restApiId=api, parentId=root["id"], pathPart="{name}")["id"]
    place = {"restApiId": api, "resourceId": resource, "httpMethod": method}
    named = {"method.request.path.name": True}
    rest.put_method(**place, authorizationType="NONE", requestParameters=named)
    rest.put_integration(
        **place,
        type="AWS",
        credentials=ROLE,
        integrationHttpMethod=method,
        uri=uri,
        requestParameters={"integration.request.path.name": "method.request.path.name"},
    )
    rest.put_method_response(**place, statusCode="200")
    rest.put_method_response(**place, statusCode="500")
    rest.put_integration_response(**place, statusCode="200", selectionPattern="2\\d{2}")
    rest.put_integration_response(**place, statusCode="500")
    rest.create_deployment(restApiId=api, stageName="prod")
    headers = {
        "host": f"{api}.execute-api.{REGION}.localhost:4566",
        "content-type": "application/json",
    }
    text = json.dumps(body).encode() if body else b""
    answer = cloud.handle(HttpRequest(method, "/prod/n1", "", headers, text))
    shown = bytes(answer.body)  # type: ignore[arg-type]
    return answer.status, json.loads(shown) if shown else None


@pytest.mark.parametrize("endpoint", ["a1b2c3-ats.iotdata", "iotdata"])
def test_a_message_reaches_the_rules_of_iot(cloud: InProcessCloud, endpoint: str):
    queue = cloud.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    action = {"sqs": {"queueUrl": queue, "roleArn": ROLE, "useBase64": False}}
    rule = {"sql": "SELECT * FROM 'n1'", "actions": [action]}
    cloud.client("iot").create_topic_rule(
        ruleName=endpoint.replace("-", "_").replace(".", "_"), topicRulePayload=rule
    )
    status, _ = ask(
        cloud, f"arn:aws:apigateway:{REGION}:{endpoint}:path/topics/{{name}}", body={"t": 1}
    )
    assert status == 200

    def bodies() -> list[str]:
        found = cloud.client("sqs").receive_message(QueueUrl=queue)
        return [each["Body"] for each in found.get("Messages", [])]

    assert wait_until(bodies, within_s=10, what="the message") == ['{"t": 1}']
    cloud.client("sqs").delete_queue(QueueUrl=queue)


def test_members_come_from_the_path_and_from_the_body(cloud: InProcessCloud):
    uri = f"arn:aws:apigateway:{REGION}:scheduler:path/schedules/{{name}}"
    schedule = {
        "ScheduleExpression": "rate(1 day)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": QUEUE, "RoleArn": ROLE},
    }
    status, answer = ask(cloud, uri, body=schedule)
    assert (status, list(answer)) == (200, ["ScheduleArn"])
    status, answer = ask(cloud, uri, "GET")
    assert (status, answer["Name"], answer["Target"]["Arn"]) == (200, "n1", QUEUE)
    status, _ = ask(cloud, uri, "DELETE")
    assert status == 200
    status, answer = ask(cloud, uri, "GET")
    assert (status, answer["Message"]) == (500, "Schedule n1 does not exist.")


def test_a_path_that_no_operation_has_is_refused(cloud: InProcessCloud):
    uri = f"arn:aws:apigateway:{REGION}:scheduler:path/nothing/{{name}}"
    assert ask(cloud, uri)[0] == 500


def test_an_unknown_service_is_refused_by_name(cloud: InProcessCloud):
    uri = f"arn:aws:apigateway:{REGION}:nosuch:path/{{name}}"
    status, answer = ask(cloud, uri)
    assert (status, answer["message"]) == (500, "headrace has no service nosuch")


@pytest.mark.parametrize(
    ("action", "member"),
    [
        ("states:action/StartExecution", "stateMachineArn"),
        ("states:action/StartSyncExecution", "stateMachineArn"),
        ("dynamodb:action/GetItem", "tableName"),
        ("events:action/PutEvents", "entries"),
        ("ssm:action/GetParameter", "name"),
    ],
)
def test_a_body_without_what_the_operation_needs_is_refused_as_a_client_is(
    cloud: InProcessCloud, action: str, member: str
):
    _, answer = ask(cloud, f"arn:aws:apigateway:{REGION}:{action}", body={"page": "/z"})
    assert answer["__type"] == "ValidationException"
    assert f"Value null at '{member}' failed to satisfy constraint" in answer["message"]
