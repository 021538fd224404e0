"""Updates of the parts of REST APIs by patch operations, as Terraform makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import InProcessCloud


def test_every_part_of_a_method_can_be_updated(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        api = cloud.client("apigateway")
        made = api.create_rest_api(name="a")
        api_id = {"restApiId": made["id"]}
        method: dict[str, Any] = {
            **api_id,
            "resourceId": made["rootResourceId"],
            "httpMethod": "GET",
        }
        response = {**method, "statusCode": "200"}
        api.put_method(**method, authorizationType="NONE")
        api.put_method_response(**response)
        api.put_integration(**method, type="MOCK", requestTemplates={"application/json": "{}"})
        api.put_integration_response(**response)
        api.put_gateway_response(**api_id, responseType="DEFAULT_4XX")
        child = api.create_resource(**api_id, parentId=made["rootResourceId"], pathPart="x")
        deployment = {**api_id, "deploymentId": api.create_deployment(**api_id)["id"]}

        def patch(update: Any, place: dict[str, Any], op: str, path: str, value: str = "") -> Any:
            operation = {"op": op, "path": path, **({"value": value} if value else {})}
            return update(**place, patchOperations=[operation])

        cases: list[tuple[Any, dict[str, Any], str, str, str, str, Any]] = [
            (api.update_method, method, "replace", "/apiKeyRequired", "true", "apiKeyRequired", True),
            (api.update_method, method, "add", "/authorizationScopes", "s", "authorizationScopes", ["s"]),
            (api.update_method, method, "add", "/requestParameters/method.request.path.a", "false",
                "requestParameters", {"method.request.path.a": False}),
            (api.update_method_response, response, "add", "/responseModels/application~1json", "Empty",
                "responseModels", {"application/json": "Empty"}),
            (api.update_integration, method, "replace", "/requestTemplates/application~1json", "{1}",
                "requestTemplates", {"application/json": "{1}"}),
            (api.update_integration, method, "remove", "/requestTemplates/application~1json", "",
                "requestTemplates", {}),
            (api.update_integration, method, "add", "/cacheKeyParameters/a", "", "cacheKeyParameters", ["a"]),
            (api.update_integration, method, "replace", "/timeoutInMillis", "50", "timeoutInMillis", 50),
            (api.update_integration_response, response, "replace", "/selectionPattern", "4.*",
                "selectionPattern", "4.*"),
            (api.update_gateway_response, {**api_id, "responseType": "DEFAULT_4XX"}, "replace", "/statusCode",
                "418", "statusCode", "418"),
            (api.update_resource, {**api_id, "resourceId": child["id"]}, "replace", "/pathPart", "y", "path", "/y"),
            (api.update_model, {**api_id, "modelName": "Empty"}, "replace", "/description", "d", "description", "d"),
            (api.update_deployment, deployment, "replace", "/description", "d", "description", "d"),
        ]  # fmt: skip
        for update, place, op, path, value, member, shown in cases:
            assert patch(update, place, op, path, value).get(member, {}) == shown, path
        assert api.get_method(**method)["methodIntegration"]["timeoutInMillis"] == 50
        for op, path, value in (
            ("replace", "/httpMethods", "x"),
            ("remove", "/uri", ""),
            ("replace", "/timeoutInMillis", "soon"),
            ("add", "/requestTemplates", "x"),
        ):
            with pytest.raises(ClientError, match="Invalid patch") as refused:
                patch(api.update_integration, method, op, path, value)
            assert refused.value.response["Error"]["Code"] == "BadRequestException"
        with pytest.raises(ClientError, match="Invalid patch value 'no'"):
            patch(
                api.update_gateway_response,
                {**api_id, "responseType": "DEFAULT_4XX"},
                "replace",
                "/statusCode",
                "no",
            )
        with pytest.raises(ClientError, match="Invalid Response status code"):
            patch(
                api.update_method_response,
                {**method, "statusCode": "500"},
                "add",
                "/responseModels/a",
                "b",
            )


def test_a_deployment_keeps_its_stage_and_a_canary_gets_its_share(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        api = cloud.client("apigateway")
        made = api.create_rest_api(name="a")
        api_id = {"restApiId": made["id"]}
        method: dict[str, Any] = {
            **api_id,
            "resourceId": made["rootResourceId"],
            "httpMethod": "GET",
        }
        api.put_method(**method, authorizationType="NONE")
        api.put_integration(
            **method, type="MOCK", requestTemplates={"application/json": '{"statusCode": 200}'}
        )
        api.put_method_response(**method, statusCode="200")
        template = {"application/json": "$stageVariables.who $context.deploymentId"}
        api.put_integration_response(**method, statusCode="200", responseTemplates=template)
        old = api.create_deployment(**api_id)["id"]
        stage = {**api_id, "stageName": "s"}
        api.create_stage(**stage, deploymentId=old, variables={"who": "all"}, tags={"a": "b"})
        middle = api.create_deployment(**stage)["id"]
        shown = api.get_stage(**stage)
        assert (shown["deploymentId"], shown["tags"], shown["variables"]) == (
            middle,
            {"a": "b"},
            {"who": "all"},
        )
        api.delete_deployment(**api_id, deploymentId=old)
        with pytest.raises(ClientError, match="Active stages"):
            api.delete_deployment(**api_id, deploymentId=middle)
        settings = {"percentTraffic": 100, "stageVariableOverrides": {"who": "few"}}
        new = api.create_deployment(**stage, canarySettings=settings)["id"]
        assert api.get_stage(**stage)["deploymentId"] == middle
        path = f"/_aws/execute-api/{made['id']}/s/"

        def ask() -> bytes:
            body = cloud.handle(HttpRequest("GET", path, "", {"host": "localhost:4566"}, b"")).body
            assert isinstance(body, bytes)
            return body

        assert ask() == f"few {new}".encode()
        for value in ("half", "nan", "101"):
            share = {"op": "replace", "path": "/canarySettings/percentTraffic", "value": value}
            with pytest.raises(ClientError, match=r"between 0\.0 and 100\.0") as error:
                api.update_stage(**stage, patchOperations=[share])
            assert error.value.response["Error"]["Code"] == "BadRequestException"
        canary = {"canarySettings": {"percentTraffic": 101}}
        with pytest.raises(ClientError, match="Invalid percentTraffic"):
            api.create_stage(**api_id, stageName="t", deploymentId=middle, **canary)
        assert [one["stageName"] for one in api.get_stages(**api_id)["item"]] == ["s"]
        share = {"op": "replace", "path": "/canarySettings/percentTraffic", "value": "0"}
        api.update_stage(**stage, patchOperations=[share])
        assert ask() == f"all {middle}".encode()
        promotion = [
            {"op": "copy", "from": "/canarySettings/deploymentId", "path": "/deploymentId"},
            {"op": "copy", "from": "/canarySettings/stageVariableOverrides", "path": "/variables"},
            {"op": "remove", "path": "/canarySettings"},
        ]
        shown = api.update_stage(**stage, patchOperations=promotion)
        assert "canarySettings" not in shown
        assert ask() == f"few {new}".encode()
