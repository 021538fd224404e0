"""CreateApi with a Target: an HTTP API that answers at once, by an integration, a route and a stage of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.lambda_lab import ROLE, zipped

CODE = 'def handler(event, context):\n    return {"statusCode": 200, "body": event["routeKey"]}\n'
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"


def build(cloud: InProcessCloud, **more: Any) -> str:
    return str(
        cloud.client("apigatewayv2").create_api(
            **{"Name": "q", "ProtocolType": "HTTP", "Target": FUNCTION, **more}
        )["ApiId"]
    )


def make_function(cloud: InProcessCloud) -> None:
    lambda_ = cloud.client("lambda")
    lambda_.create_function(
        FunctionName="f",
        Runtime="python3.12",
        Handler="index.handler",
        Role=ROLE,
        Code={"ZipFile": zipped({"index.py": CODE})},
    )
    lambda_.add_permission(
        FunctionName="f",
        StatementId="s",
        Action="lambda:InvokeFunction",
        Principal="apigateway.amazonaws.com",
    )


def ask(cloud: InProcessCloud, api: str, path: str, method: str = "GET") -> tuple[int, bytes]:
    host = {"host": f"{api}.execute-api.{REGION}.localhost:4566"}
    answer = cloud.handle(HttpRequest(method, path, "", host, b""))
    return answer.status, bytes(answer.body)  # type: ignore[arg-type]


def test_an_api_of_a_function_answers_at_once_and_after_a_restart(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        make_function(cloud)
        api, http = build(cloud), cloud.client("apigatewayv2")
        assert ask(cloud, api, "/any/where") == (200, b"$default")
        (integration,) = http.get_integrations(ApiId=api)["Items"]
        assert integration["ApiGatewayManaged"] is True
        assert (integration["IntegrationType"], integration["IntegrationUri"]) == (
            "AWS_PROXY",
            FUNCTION,
        )
        (route,) = http.get_routes(ApiId=api)["Items"]
        assert route["ApiGatewayManaged"] is True
        assert (route["RouteKey"], route["Target"]) == (
            "$default",
            f"integrations/{integration['IntegrationId']}",
        )
        (stage,) = http.get_stages(ApiId=api)["Items"]
        assert (stage["StageName"], stage["AutoDeploy"], stage["ApiGatewayManaged"]) == (
            "$default",
            True,
            True,
        )
        narrow = build(cloud, RouteKey="GET /only")
        assert ask(cloud, narrow, "/only") == (200, b"GET /only")
        assert ask(cloud, narrow, "/other")[0] == 404
    with InProcessCloud(tmp_path / "data") as cloud:
        assert ask(cloud, api, "/any/where") == (200, b"$default")
        http = cloud.client("apigatewayv2")
        http.update_api(ApiId=api, RouteKey="GET /new", Target="https://example.com/x")
        (route,) = http.get_routes(ApiId=api)["Items"]
        assert (route["RouteKey"], route["ApiGatewayManaged"]) == ("GET /new", True)
        (integration,) = http.get_integrations(ApiId=api)["Items"]
        assert (integration["IntegrationType"], integration["IntegrationUri"]) == (
            "HTTP_PROXY",
            "https://example.com/x",
        )


def test_refusals(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        for more in ({"ProtocolType": "WEBSOCKET"}, {"Target": "", "RouteKey": "GET /a"}):
            with pytest.raises(ClientError) as caught:
                build(cloud, **more)
            assert caught.value.response["Error"]["Code"] == "BadRequestException"
        http = cloud.client("apigatewayv2")
        assert http.get_apis()["Items"] == []
        plain = http.create_api(Name="p", ProtocolType="HTTP")["ApiId"]
        with pytest.raises(http.exceptions.BadRequestException):
            http.update_api(ApiId=plain, Target=FUNCTION)


def test_a_template_s_api_with_a_target_answers(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        make_function(cloud)
        properties = {"Name": "q", "ProtocolType": "HTTP", "Target": FUNCTION}
        body = {
            "Resources": {"Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": properties}},
            "Outputs": {"Id": {"Value": {"Ref": "Api"}}},
        }
        cfn = cloud.client("cloudformation")
        cfn.create_stack(StackName="s", TemplateBody=json.dumps(body))
        cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig={"Delay": 0})
        (output,) = cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
        assert ask(cloud, output["OutputValue"], "/x") == (200, b"$default")
