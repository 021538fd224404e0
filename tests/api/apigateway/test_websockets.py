"""WebSocket APIs: who may connect, which route a message takes, what is sent back, and what functions post.

Events: docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-websocket-api-integration-requests.html and
apigateway-websocket-api-mapping-template-reference.html (documented).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import boto3
import pytest
from botocore.exceptions import ClientError
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.http_server import serving
from tests.support.lambda_lab import zipped
from tests.support.policies import TRUST_TEXT
from tests.support.server import ServerProcess, wait_until

# Each event is kept as an object; a message of the action "tell" goes to all connections, "fail" fails.
CODE = """
import boto3, json
def handler(event, context):
    if event.get("type") == "REQUEST":
        allow = event["queryStringParameters"]["token"] == "yes"
        return {"principalId": "me", "context": {"who": "ann"}, "policyDocument": {"Statement": [
            {"Effect": "Allow" if allow else "Deny", "Action": "execute-api:Invoke", "Resource": event["methodArn"]}]}}
    at = event["requestContext"]
    key = at["connectionId"] + "/" + at["routeKey"]
    boto3.client("s3").put_object(Bucket="events", Key=key, Body=json.dumps(event))
    if at["routeKey"] == "$connect":
        status = int((event.get("queryStringParameters") or {}).get("status", 200))
        return {"statusCode": status, "headers": {"Sec-WebSocket-Protocol": "chat"}}
    if at["routeKey"] == "fail":
        raise ValueError("no")
    if at["routeKey"] == "tell":
        api = boto3.client("apigatewaymanagementapi", endpoint_url="https://" + at["domainName"] + "/" + at["stage"])
        told = b"told " + json.loads(event["body"])["data"].encode()
        api.post_to_connection(ConnectionId=at["connectionId"], Data=told)
    return {"statusCode": 200, "body": "back"}
"""
RESPONSE = {"RouteResponseSelectionExpression": "$default"}


class Lab:
    def __init__(self, cloud: ServerProcess) -> None:
        self.cloud, self.apis = cloud, cloud.client("apigatewayv2")
        cloud.client("s3").create_bucket(Bucket="events")
        role = cloud.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
        self.role = role["Role"]["Arn"]
        self.function = cloud.client("lambda").create_function(
            FunctionName="f",
            Runtime="python3.12",
            Handler="m.handler",
            Role=self.role,
            Code={"ZipFile": zipped({"m.py": CODE})},
        )["FunctionArn"]
        cloud.client("lambda").add_permission(
            FunctionName="f",
            StatementId="s",
            Action="lambda:InvokeFunction",
            Principal="apigateway.amazonaws.com",
        )
        uri = f"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/{self.function}/invocations"
        self.api = self.make("$request.body.action")
        authorizer = self.apis.create_authorizer(
            ApiId=self.api,
            Name="a",
            AuthorizerType="REQUEST",
            AuthorizerUri=uri,
            IdentitySource=["route.request.querystring.token"],
        )["AuthorizerId"]
        self.route("$connect", uri, AuthorizationType="CUSTOM", AuthorizerId=authorizer)
        self.route("$disconnect", uri)
        self.route("tell", uri)
        self.route("fail", uri)
        self.route("echo", uri, **RESPONSE)
        cloud.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        self.route(
            "put",
            "arn:aws:apigateway:us-east-1:kinesis:action/PutRecord",
            integration={
                "IntegrationType": "AWS",
                "CredentialsArn": self.role,
                "TemplateSelectionExpression": "\\$default",
                "RequestTemplates": {
                    "$default": '{"StreamName": "s", "PartitionKey": "$context.connectionId",'
                    ' "Data": "$util.base64Encode($input.json(\'$.data\'))"}'
                },
            },
            **RESPONSE,
        )

    def make(self, selection: str) -> str:
        api = self.apis.create_api(
            Name="a", ProtocolType="WEBSOCKET", RouteSelectionExpression=selection
        )["ApiId"]
        self.apis.create_stage(ApiId=api, StageName="prod", StageVariables={"v": "1"})
        return api

    def route(
        self, key: str, uri: str, *, api: str = "", integration: Any = None, **more: Any
    ) -> None:
        api = api or self.api
        target = self.apis.create_integration(
            ApiId=api, IntegrationUri=uri, **(integration or {"IntegrationType": "AWS_PROXY"})
        )["IntegrationId"]
        self.apis.create_route(ApiId=api, RouteKey=key, Target=f"integrations/{target}", **more)

    def connect(self, query: str = "?token=yes", api: str = "", stage: str = "prod") -> Client:
        return Client(self.cloud.port, f"/_aws/execute-api/{api or self.api}/{stage}{query}")

    def event(self, connection: str, route: str) -> dict[str, Any]:
        def find() -> Any:
            try:
                return self.cloud.client("s3").get_object(
                    Bucket="events", Key=f"{connection}/{route}"
                )
            except ClientError:
                return None

        kept = wait_until(find, what=f"the event of {route}")
        return json.loads(kept["Body"].read())

    def the_only_connection(self) -> str:
        keys = self.cloud.client("s3").list_objects_v2(Bucket="events")["Contents"]
        open_ones = {key["Key"].partition("/")[0] for key in keys} - {
            key["Key"].partition("/")[0] for key in keys if "$disconnect" in key["Key"]
        }
        (one,) = open_ones
        return one


class Client:
    """A WebSocket's client."""

    def __init__(self, port: int, target: str, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self.seen: list[Any] = []
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        host = f"127.0.0.1:{port}"
        self.send(Request(host=host, target=target, subprotocols=["chat"], extra_headers=extra))

    def __enter__(self) -> Self:
        assert isinstance(self.next(), AcceptConnection)
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, event: Any) -> None:
        self.socket.sendall(self.protocol.send(event))

    def say(self, value: Any) -> None:
        self.send(TextMessage(value if isinstance(value, str) else json.dumps(value)))

    def next(self) -> Any:
        while not self.seen:
            self.protocol.receive_data(self.socket.recv(65536) or None)
            self.seen += self.protocol.events()
        return self.seen.pop(0)

    def text(self) -> str:
        event = self.next()
        assert isinstance(event, TextMessage)
        return event.data


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ServerProcess(tmp_path_factory.mktemp("sockets") / "data") as cloud:
        yield Lab(cloud)


def test_a_client_connects_is_told_and_leaves(lab: Lab):
    client = lab.connect()
    accepted = client.next()
    assert accepted.subprotocol == "chat"
    connection = lab.the_only_connection()
    at = lab.event(connection, "$connect")
    context = at["requestContext"]
    assert context["authorizer"] == {"who": "ann", "principalId": "me"}
    assert (context["eventType"], context["messageDirection"], context["stage"]) == (
        "CONNECT",
        "IN",
        "prod",
    )
    assert at["queryStringParameters"] == {"token": "yes"}
    assert at["stageVariables"] == {"v": "1"}
    assert at["multiValueHeaders"]["Sec-WebSocket-Version"] == [
        at["headers"]["Sec-WebSocket-Version"]
    ]
    assert not {"Upgrade", "sec-websocket-version"} & {*at["headers"]}
    client.say({"action": "echo", "n": 1})
    assert client.text() == "back"
    event = lab.event(connection, "echo")
    assert json.loads(event["body"]) == {"action": "echo", "n": 1}
    assert event["requestContext"]["eventType"] == "MESSAGE"
    assert event["requestContext"]["messageId"]
    assert event["requestContext"]["connectedAt"] == context["connectedAt"]
    # Without a route response nothing but what the function posts itself goes back.
    client.say({"action": "tell", "data": "x"})
    assert client.text() == "told x"
    client.say({"action": "fail"})
    failure = json.loads(client.text())
    assert (failure["message"], failure["connectionId"]) == ("Internal server error", connection)
    for text in ('{"action": "nothing"}', "no json"):
        client.say(text)
        assert json.loads(client.text())["message"] == "Forbidden"
    client.send(Ping(b"p"))
    assert isinstance(client.next(), Pong)
    client.send(CloseConnection(1000, "bye"))
    gone = lab.event(connection, "$disconnect")["requestContext"]
    assert (gone["disconnectStatusCode"], gone["disconnectReason"]) == (1000, "bye")
    client.socket.close()


def test_a_service_gets_a_message_by_a_template(lab: Lab):
    with lab.connect() as client:
        client.say({"action": "put", "data": {"k": 1}})
        put = json.loads(client.text())
        kinesis = lab.cloud.client("kinesis")
        iterator = kinesis.get_shard_iterator(
            StreamName="s", ShardId=put["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        (record,) = kinesis.get_records(ShardIterator=iterator)["Records"]
        assert (record["Data"], record["PartitionKey"]) == (b'{"k":1}', lab.the_only_connection())
    wait_until(lambda: _is_over(lab, record["PartitionKey"]), what="its end")


def _is_over(lab: Lab, connection: str) -> bool:
    return bool(lab.event(connection, "$disconnect"))


@pytest.mark.parametrize(
    ("query", "stage", "status"),
    [
        ("?token=no", "prod", 403),
        ("", "prod", 401),
        ("?token=yes&status=418", "prod", 418),
        ("?token=yes", "none", 403),
    ],
)
def test_who_may_not_connect_is_refused(lab: Lab, query: str, stage: str, status: int):
    client = lab.connect(query, stage=stage)
    refused = client.next()
    assert isinstance(refused, RejectConnection)
    assert refused.status_code == status
    assert isinstance(client.next(), RejectData)
    client.socket.close()


def test_a_page_of_another_origin_does_not_connect(lab: Lab):
    target = f"/_aws/execute-api/{lab.api}/prod?token=yes"
    client = Client(lab.cloud.port, target, origin="https://evil.example")
    refused = client.next()
    assert isinstance(refused, RejectConnection)
    assert refused.status_code == 403
    client.socket.close()


def test_a_connection_is_managed_by_its_apis_address(lab: Lab):
    api = lab.make("$request.body.action")
    # A route of its own for everything: a mock, whose template answers.
    target = lab.apis.create_integration(
        ApiId=api,
        IntegrationType="MOCK",
        RequestTemplates={"200": '{"statusCode": 200}'},
        TemplateSelectionExpression="200",
    )["IntegrationId"]
    # The response is the one of the status.
    for key, text in (
        ("$default", "another"),
        ("/4\\d\\d/", "refused"),
        ("/200/", '{"id": "$context.connectionId"}'),
    ):
        lab.apis.create_integration_response(
            ApiId=api,
            IntegrationId=target,
            IntegrationResponseKey=key,
            ResponseTemplates={"200": text},
        )
    lab.apis.create_route(
        ApiId=api, RouteKey="$default", Target=f"integrations/{target}", **RESPONSE
    )
    manage = boto3.client(
        "apigatewaymanagementapi",
        region_name="us-east-1",
        endpoint_url=f"{lab.cloud.endpoint_url}/_aws/execute-api/{api}/prod",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    with lab.connect("", api=api) as client:
        client.say("anything")
        connection = json.loads(client.text())["id"]
        shown = manage.get_connection(ConnectionId=connection)
        assert shown["Identity"]["SourceIp"] == "127.0.0.1"
        manage.post_to_connection(ConnectionId=connection, Data=b"\xff\x00")
        assert client.next() == BytesMessage(data=bytearray(b"\xff\x00"))
        manage.delete_connection(ConnectionId=connection)
        assert isinstance(client.next(), CloseConnection)
    with pytest.raises(manage.exceptions.GoneException):
        wait_until(lambda: manage.get_connection(ConnectionId=connection) is None)
    # A mock's status may refuse; with the API its connections are gone.
    refusing = lab.apis.create_integration(
        ApiId=api,
        IntegrationType="MOCK",
        RequestTemplates={"$default": '{"statusCode": 403}'},
        TemplateSelectionExpression="x",
    )["IntegrationId"]
    with lab.connect("", api=api) as client:
        client.say("anything")
        connection = json.loads(client.text())["id"]
        lab.apis.create_route(ApiId=api, RouteKey="$connect", Target=f"integrations/{refusing}")
        refused = lab.connect("", api=api)
        assert refused.next().status_code == 403
        refused.socket.close()
        lab.apis.delete_api(ApiId=api)
        with pytest.raises(manage.exceptions.GoneException):
            manage.get_connection(ConnectionId=connection)


def test_an_endpoint_is_asked_and_its_status_lets_in(lab: Lab, tmp_path: Path):
    asked: list[HttpRequest] = []

    def answer(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return HttpResponse(403 if request.path == "/no" else 200, body=b"seen " + request.body)

    api = lab.make("$request.body.action")
    with serving(answer, tmp_path) as port:
        kind = {
            "IntegrationType": "HTTP_PROXY",
            "IntegrationMethod": "POST",
            "RequestParameters": {
                "integration.request.header.connection-id": "context.connectionId"
            },
        }
        url = f"http://127.0.0.1:{port}"
        lab.route("$connect", f"{url}/${{stageVariables.v}}", api=api, integration=kind)
        lab.route("$default", f"{url}/messages", api=api, integration=kind, **RESPONSE)
        with lab.connect("", api=api) as client:
            client.say('{"a": 1}')
            assert client.text() == 'seen {"a": 1}'
        lab.apis.update_stage(ApiId=api, StageName="prod", StageVariables={"v": "no"})
        refused = lab.connect("", api=api)
        assert refused.next().status_code == 403
        refused.socket.close()
    assert [request.path for request in asked] == ["/1", "/messages", "/no"]
    ids = [request.headers["connection-id"] for request in asked]
    assert ids[0] == ids[1] != ids[2]


def test_an_object_whose_key_looks_like_a_connection_is_s3s(lab: Lab):
    s3 = lab.cloud.client("s3")
    s3.put_object(Bucket="events", Key="@connections/x=", Body=b"1")
    assert s3.get_object(Bucket="events", Key="@connections/x=")["Body"].read() == b"1"
    s3.delete_object(Bucket="events", Key="@connections/x=")


def test_a_message_above_awss_limit_ends_the_connection(lab: Lab):
    api = lab.make("$request.body.action")
    with lab.connect("", api=api) as client:
        client.say("x" * (128 * 1024 + 1))
        ended = client.next()
        assert (type(ended), ended.code) == (CloseConnection, 1009)


def test_connections_messages_and_errors_are_counted(lab: Lab):
    api = lab.make("$request.body.action")
    with lab.connect("", api=api) as client:
        client.say({"action": "nothing"})
        assert json.loads(client.text())["message"] == "Forbidden"
    listed = lab.cloud.client("cloudwatch").get_paginator("list_metrics")
    of_stage = [{"Name": "ApiId", "Value": api}, {"Name": "Stage", "Value": "prod"}]

    def names() -> set[str]:
        pages = listed.paginate(Namespace="AWS/ApiGateway", Dimensions=of_stage)
        return {one["MetricName"] for page in pages for one in page["Metrics"]}

    expected = {"ConnectCount", "MessageCount", "ClientError"}
    wait_until(lambda: names() == expected, within_s=30, what="the metrics")
