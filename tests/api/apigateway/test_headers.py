"""The names of headers: as clients write them, for functions, authorizers, templates and endpoints of REST APIs.

As recorded from AWS (LocalStack's apigateway/test_apigateway_lambda.py and test_apigateway_integrations.py, 2024).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.testing.in_process import http_request_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

ECHO = b"""
import json
def handler(event, context):
    if event.get("type") == "REQUEST":
        return {"principalId": "me", "context": {"seen": json.dumps(event["headers"])}, "policyDocument":
            {"Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": event["methodArn"]}]}}
    named = {"WWW-Authenticate": "Basic", "Date": "then", "X-Mine": "1", "Content-Encoding": "mine"}
    return {"statusCode": 200, "headers": named, "body": json.dumps(event)}
"""
WRITTEN = [
    ("hOST", "localhost:4566"),
    ("Authorization", "Bearer x"),
    ("tEsT-HEADeR", "aValUE"),
    ("user-agent", "me/1"),
    ("Connection", "keep-alive"),
    ("Content-Length", "0"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Twice", "1"),
    ("x-twice", "2"),
]
TEMPLATE = '{"all": "$input.params().header.get(\'tEsT-HEADeR\')", "any": "$input.params(\'test-header\')"}'


class Lab:
    """A cloud with a function `f`, a REST API of which every method echoes, and an HTTP API."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr("m.py", ECHO)
        function = cloud.client("lambda").create_function(
            FunctionName="f",
            Runtime="python3.12",
            Handler="m.handler",
            Role=f"arn:aws:iam::{ACCOUNT}:role/r",
            Code={"ZipFile": package.getvalue()},
        )["FunctionArn"]
        cloud.client("lambda").add_permission(
            FunctionName="f",
            StatementId="a",
            Action="lambda:InvokeFunction",
            Principal="apigateway.amazonaws.com",
        )
        self.rest = cloud.client("apigateway")
        made = self.rest.create_rest_api(name="a")
        self.api_id, self.root = made["id"], made["rootResourceId"]
        path = f"lambda:path/2015-03-31/functions/{function}/invocations"
        proxy = {"type": "AWS_PROXY", "uri": f"arn:aws:apigateway:{REGION}:{path}"}
        guard = self.rest.create_authorizer(
            restApiId=self.api_id,
            name="g",
            type="REQUEST",
            authorizerUri=proxy["uri"],
            identitySource="method.request.header.AUTHORIZATION",
        )["id"]
        self.method("f", proxy)
        self.method("guarded", proxy, authorizationType="CUSTOM", authorizerId=guard)
        self.method(
            "template",
            {"type": "MOCK", "requestTemplates": {"application/json": '{"statusCode": 200}'}},
            {"responseTemplates": {"application/json": TEMPLATE}},
        )
        # The endpoint is the API's own first method, by the name that it has on AWS.
        endpoint = f"https://{self.api_id}.execute-api.{REGION}.amazonaws.com/prod/f"
        self.method("pass", {"type": "HTTP_PROXY", "uri": endpoint})
        self.method("http", {"type": "HTTP", "uri": endpoint}, {})
        self.rest.create_deployment(restApiId=self.api_id, stageName="prod")
        http = cloud.client("apigatewayv2")
        self.http_id = http.create_api(Name="h", ProtocolType="HTTP")["ApiId"]
        http.create_stage(ApiId=self.http_id, StageName="$default")
        for version in ("1.0", "2.0"):
            target = http.create_integration(
                ApiId=self.http_id,
                IntegrationType="AWS_PROXY",
                IntegrationUri=function,
                PayloadFormatVersion=version,
            )["IntegrationId"]
            http.create_route(
                ApiId=self.http_id, RouteKey=f"GET /{version}", Target=f"integrations/{target}"
            )

    def method(
        self,
        part: str,
        integration: dict[str, Any],
        response: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        resource = self.rest.create_resource(
            restApiId=self.api_id, parentId=self.root, pathPart=part
        )
        place = {"restApiId": self.api_id, "resourceId": resource["id"], "httpMethod": "GET"}
        self.rest.put_method(**place, **{"authorizationType": "NONE", **more})
        method = "GET" if integration["type"].startswith("HTTP") else "POST"
        self.rest.put_integration(**place, integrationHttpMethod=method, **integration)
        if response is not None:
            self.rest.put_method_response(**place, statusCode="200")
            self.rest.put_integration_response(**place, statusCode="200", **response)

    def ask(self, path: str, api_id: str = "") -> HttpResponse:
        headers: dict[str, str] = {}
        for name, value in WRITTEN:
            headers[name.lower()] = ",".join([*filter(None, [headers.get(name.lower())]), value])
        path = f"/_aws/execute-api/{api_id or self.api_id}{path}"
        answer = self.cloud.handle(HttpRequest("GET", path, headers=headers, head=WRITTEN))
        assert answer.status == 200, answer.body
        return answer

    def event(self, path: str, api_id: str = "") -> Any:
        return json.loads(self.ask(path, api_id).body)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with InProcessCloud(tmp_path_factory.mktemp("headers") / "data") as cloud:
        yield Lab(cloud)


def test_a_function_sees_the_names_that_the_client_wrote_and_awss_own(lab: Lab):
    event = lab.event("/prod/f")
    trace_id = event["headers"].pop("X-Amzn-Trace-Id")
    assert trace_id.startswith("Root=1-")
    assert event["headers"] == {
        "Host": "localhost:4566",
        "Authorization": "Bearer x",
        "tEsT-HEADeR": "aValUE",
        "User-Agent": "me/1",
        "X-Forwarded-For": "10.0.0.1, 127.0.0.1",
        "X-Forwarded-Port": "4566",
        "X-Forwarded-Proto": "http",
        "X-Twice": "2",
    }
    assert event["multiValueHeaders"]["X-Twice"] == ["1", "2"]
    assert event["multiValueHeaders"]["tEsT-HEADeR"] == ["aValUE"]
    assert event["multiValueHeaders"]["X-Amzn-Trace-Id"] == [trace_id]


def test_an_authorizer_sees_them_and_finds_its_header_by_any_spelling(lab: Lab):
    event = lab.event("/prod/guarded")
    seen = json.loads(event["requestContext"]["authorizer"]["seen"])
    assert (seen["Authorization"], seen["tEsT-HEADeR"]) == ("Bearer x", "aValUE")


def test_a_template_sees_them_and_finds_one_by_any_spelling(lab: Lab):
    assert lab.event("/prod/template") == {"all": "aValUE", "any": "aValUE"}


def test_an_endpoint_is_sent_them_by_a_proxy_alone(lab: Lab):
    passed = lab.event("/prod/pass")["headers"]
    assert (passed["Authorization"], passed["tEsT-HEADeR"]) == ("Bearer x", "aValUE")
    assert (passed["User-Agent"], passed["X-Amzn-Apigateway-Api-Id"]) == ("me/1", lab.api_id)
    answered = lab.ask("/prod/pass").headers
    assert {("Content-Encoding", "mine"), ("X-Mine", "1")} <= {*answered}
    assert sorted(name for name, _ in answered if name.lower().endswith("-id")) == [
        "X-Amzn-Trace-Id",
        "x-amz-apigw-id",
    ]
    own = lab.event("/prod/http")["headers"]
    assert own["User-Agent"] == f"AmazonAPIGateway_{lab.api_id}"
    assert not {"Authorization", "tEsT-HEADeR"} & {*own}


def test_an_answer_has_awss_own_names_and_those_of_the_function_beside_them(lab: Lab):
    answered = lab.ask("/prod/f")
    headers = dict(answered.headers)
    event = json.loads(answered.body)  # type: ignore[arg-type]
    assert headers["x-amzn-Remapped-WWW-Authenticate"] == "Basic"
    assert headers["x-amzn-Remapped-Date"] == "then"
    assert headers["X-Mine"] == "1"
    assert headers["X-Amzn-Trace-Id"] == event["headers"]["X-Amzn-Trace-Id"]
    assert headers["x-amz-apigw-id"] == event["requestContext"]["extendedRequestId"]
    assert headers["x-amzn-RequestId"] == event["requestContext"]["requestId"]
    assert not {"WWW-Authenticate", "Date"} & {*headers}


def test_an_http_api_writes_names_in_lower_case_and_awss_own_as_the_format_has_them(lab: Lab):
    newer = lab.event("/2.0", lab.http_id)["headers"]
    assert [name for name in newer if name != name.lower()] == []
    assert (newer["test-header"], newer["x-twice"], newer["x-forwarded-proto"]) == (
        "aValUE",
        "1,2",
        "http",
    )
    older = lab.event("/1.0", lab.http_id)
    assert {"Host", "User-Agent", "X-Forwarded-For", "authorization", "test-header"} <= {
        *older["headers"]
    }
    assert older["multiValueHeaders"]["x-twice"] == ["1", "2"]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_http_api_answers_with_its_one_id(lab: Lab, version: str):
    answered = lab.ask(f"/{version}", lab.http_id)
    context = json.loads(answered.body)["requestContext"]  # type: ignore[arg-type]
    headers = dict(answered.headers)
    assert headers["Apigw-Requestid"] == context["requestId"]
    assert len(context["requestId"]) == 16
    assert context.get("extendedRequestId", context["requestId"]) == context["requestId"]
    assert ("extendedRequestId" in context) is (version == "1.0")
    assert not {"x-amzn-RequestId", "x-amz-apigw-id"} & {*headers}


def test_a_clients_spelling_lives_in_process_too(lab: Lab):
    host = f"{lab.api_id}.execute-api.{REGION}.localhost:4566"
    asked = AWSRequest("GET", f"http://{host}/prod/f", headers={"Host": host, "X-MiXed": "1"})
    answer = lab.cloud.handle(http_request_of(asked.prepare()))
    assert json.loads(answer.body)["headers"]["X-MiXed"] == "1"  # type: ignore[arg-type]
    resources = lab.rest.get_resources(restApiId=lab.api_id)["items"]
    (resource,) = [one["id"] for one in resources if one["path"] == "/f"]
    tested = lab.rest.test_invoke_method(
        restApiId=lab.api_id, resourceId=resource, httpMethod="GET", headers={"X-MiXed": "2"}
    )
    assert json.loads(tested["body"])["headers"]["X-MiXed"] == "2"
