"""WebSocket APIs on a cloud that verifies signatures and enforces permissions: who connects, and who posts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from wsproto.events import AcceptConnection, RejectConnection

from tests.api.apigateway.test_websockets import RESPONSE, Client
from tests.support.server import ServerProcess

REGION = "us-east-1"
ROOT = Credentials("AKIDROOTROOTROOT", "root-secret")
INVOKE, MANAGE = "execute-api:Invoke", "execute-api:ManageConnections"


class Lab:
    """An API whose `$connect` asks for a signature, and one that asks for none; both answer messages by a mock."""

    def __init__(self, cloud: ServerProcess) -> None:
        self.cloud = cloud
        self.signed, self.open = self.make("AWS_IAM"), self.make("NONE")

    def client(self, service: str, keys: Credentials = ROOT, path: str = "") -> Any:
        return boto3.client(
            service, region_name=REGION, endpoint_url=f"{self.cloud.endpoint_url}{path}",
            aws_access_key_id=keys.access_key, aws_secret_access_key=keys.secret_key,
        )  # fmt: skip

    def make(self, authorization: str) -> str:
        apis = self.client("apigatewayv2")
        api = apis.create_api(
            Name="a", ProtocolType="WEBSOCKET", RouteSelectionExpression="$request.body.action"
        )["ApiId"]
        apis.create_stage(ApiId=api, StageName="prod")
        target = apis.create_integration(
            ApiId=api, IntegrationType="MOCK", TemplateSelectionExpression="200",
            RequestTemplates={"200": '{"statusCode": 200}'},
        )["IntegrationId"]  # fmt: skip
        apis.create_integration_response(
            ApiId=api, IntegrationId=target, IntegrationResponseKey="$default",
            ResponseTemplates={"200": '{"id": "$context.connectionId"}'},
        )  # fmt: skip
        more = {"$connect": {"AuthorizationType": authorization}, "$default": RESPONSE}
        for key, members in more.items():
            apis.create_route(ApiId=api, RouteKey=key, Target=f"integrations/{target}", **members)
        return api

    def user(self, name: str, *actions: str) -> Credentials:
        iam = self.client("iam")
        iam.create_user(UserName=name)
        statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return Credentials(key["AccessKeyId"], key["SecretAccessKey"])

    def connect(
        self, api: str, keys: Credentials | None = None, *, by_query: bool = False
    ) -> Client:
        path, base = f"/_aws/execute-api/{api}/prod", self.cloud.endpoint_url
        if keys is None:
            return Client(self.cloud.port, path)
        host = base.removeprefix("http://")
        request = AWSRequest("GET", f"{base}{path}", headers={"host": host})
        if by_query:
            SigV4QueryAuth(keys, "execute-api", REGION).add_auth(request)
            return Client(self.cloud.port, request.url.removeprefix(base))
        SigV4Auth(keys, "execute-api", REGION).add_auth(request)
        names = ("Authorization", "X-Amz-Date")
        return Client(self.cloud.port, path, **{name: request.headers[name] for name in names})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("sockets")
    keys = folder / "keys"
    keys.write_text(
        f"[root]\naws_access_key_id = {ROOT.access_key}\naws_secret_access_key = {ROOT.secret_key}\n"
    )
    keys.chmod(0o600)
    arguments = ("--auth", "--auth-keys", str(keys), "--iam", "enforce")
    with ServerProcess(folder / "data", *arguments) as cloud:
        yield Lab(cloud)


@pytest.mark.parametrize("by_query", [False, True])
def test_a_signature_and_a_permission_let_a_client_connect(lab: Lab, by_query: bool):
    may = lab.user(f"may-{by_query}", INVOKE)
    may_not = lab.user(f"may-not-{by_query}", MANAGE)
    assert isinstance(lab.connect(lab.signed, may, by_query=by_query).next(), AcceptConnection)
    forged = Credentials(may.access_key, "wrong")
    for keys in (None, may_not, forged):
        refused = lab.connect(lab.signed, keys, by_query=by_query).next()
        assert isinstance(refused, RejectConnection)
        assert refused.status_code == 403


def test_nobody_posts_to_a_connection_without_the_permission(lab: Lab):
    with lab.connect(lab.open) as client:
        client.say("anything")
        connection = json.loads(client.text())["id"]
        path = f"/_aws/execute-api/{lab.open}/prod"
        poster = lab.client("apigatewaymanagementapi", lab.user("poster", MANAGE), path)
        poster.post_to_connection(ConnectionId=connection, Data=b"told")
        assert client.text() == "told"
        other = lab.client("apigatewaymanagementapi", lab.user("other", INVOKE), path)
        with pytest.raises(ClientError, match=f"not authorized to perform: {MANAGE}"):
            other.post_to_connection(ConnectionId=connection, Data=b"no")
        # Only who may post learns that a connection is gone.
        with pytest.raises(ClientError, match=f"not authorized to perform: {MANAGE}"):
            other.post_to_connection(ConnectionId="gone", Data=b"no")
        with pytest.raises(poster.exceptions.GoneException):
            poster.post_to_connection(ConnectionId="gone", Data=b"no")
