"""The addresses that a cloud lists of its APIs and function URLs reach them."""

from __future__ import annotations

from pathlib import Path

from headrace.aws.calls.http import HttpRequest
from tests.dashboard.test_api import get
from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import zipped
from tests.support.policies import TRUST_TEXT

HELLO = "def handler(event, context):\n    return {'statusCode': 200, 'body': 'hello'}\n"


def test_every_listed_address_reaches_what_it_names(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        role = cloud.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
        functions = cloud.client("lambda")
        arn = functions.create_function(
            FunctionName="f",
            Runtime="python3.12",
            Handler="m.handler",
            Role=role["Role"]["Arn"],
            Code={"ZipFile": zipped({"m.py": HELLO})},
        )["FunctionArn"]
        functions.create_function_url_config(FunctionName="f", AuthType="NONE")
        for action, more in (
            ("lambda:InvokeFunctionUrl", {"FunctionUrlAuthType": "NONE"}),
            ("lambda:InvokeFunction", {}),
        ):
            functions.add_permission(
                FunctionName="f",
                StatementId=action.rpartition(":")[2],
                Action=action,
                Principal="*",
                **more,
            )
        rest = cloud.client("apigateway")
        made = rest.create_rest_api(name="orders")
        method = {
            "restApiId": made["id"],
            "resourceId": made["rootResourceId"],
            "httpMethod": "GET",
        }
        rest.put_method(**method, authorizationType="NONE")
        uri = f"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/{arn}/invocations"
        rest.put_integration(**method, type="AWS_PROXY", integrationHttpMethod="POST", uri=uri)
        rest.create_deployment(restApiId=made["id"], stageName="prod")
        others = cloud.client("apigatewayv2")
        quick = others.create_api(Name="quick", ProtocolType="HTTP", Target=arn)["ApiId"]
        others.create_stage(ApiId=quick, StageName="test")
        socket = others.create_api(
            Name="chat", ProtocolType="WEBSOCKET", RouteSelectionExpression="$request.body.action"
        )["ApiId"]
        others.create_stage(ApiId=socket, StageName="live")

        listed = get(cloud, "addresses")
        assert listed["refused"] == []
        paths = [(one["kind"], one["name"], one["path"]) for one in listed["addresses"]]
        assert sorted(paths)[:4] == [
            ("HTTP API", "quick", f"/_aws/execute-api/{quick}/"),
            ("HTTP API", "quick", f"/_aws/execute-api/{quick}/test/"),
            ("REST API", "orders", f"/_aws/execute-api/{made['id']}/prod/"),
            # tests/api/apigateway/test_websockets.py connects to such a path.
            ("WebSocket API", "chat", f"/_aws/execute-api/{socket}/live"),
        ]
        assert [(kind, name) for kind, name, _ in paths[4:]] == [("function URL", "f")]
        for kind, _, path in paths:
            if kind != "WebSocket API":
                answer = cloud.handle(HttpRequest("GET", path, "", {"host": "localhost:4566"}))
                assert (answer.status, answer.body) == (200, b"hello"), path
