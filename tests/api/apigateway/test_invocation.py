"""Requests to REST and HTTP APIs: what functions are told, what services are sent, and who is refused.

Formats: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html,
http-api-develop-integrations-lambda.html, api-gateway-mapping-template-reference.html (documented). The messages of
refusals are the gateway responses' defaults (documented: supported-gateway-response-types.html).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc.jwt import decode as jwt_of
from joserfc.jwt import encode
from moto.cognitoidp.models import cognitoidp_backends

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

ECHO = b"""
import json
def handler(event, context):
    if event.get("type"):
        effect = "Allow" if event.get("authorizationToken", "yes") == "yes" else "Deny"
        return {"principalId": "me", "context": {"who": "me"}, "isAuthorized": effect == "Allow", "policyDocument":
            {"Statement": [{"Effect": effect, "Action": "execute-api:Invoke", "Resource": event.get("methodArn")}]}}
    if (event.get("body") or "") == "fail":
        raise ValueError("no")
    if (event.get("body") or "") == "bad":
        return "no status"
    return {"statusCode": 201, "headers": {"X-A": "1"}, "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"]},
            "body": json.dumps(event)}
"""
SCOPE = "aws.cognito.signin.user.admin"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["lambda.amazonaws.com", "apigateway.amazonaws.com"]},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
SIGNED = "AWS4-HMAC-SHA256 Credential=000000000000/20260101/us-east-1/execute-api/aws4_request, Signature=x"


class Lab:
    """A cloud with a function `f`, a REST API and an HTTP API."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr("m.py", ECHO)
        cloud.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
        self.role = f"arn:aws:iam::{ACCOUNT}:role/r"
        self.function = cloud.client("lambda").create_function(
            FunctionName="f",
            Runtime="python3.12",
            Handler="m.handler",
            Role=self.role,
            Code={"ZipFile": package.getvalue()},
        )["FunctionArn"]
        self.rest = cloud.client("apigateway")
        self.http = cloud.client("apigatewayv2")
        self.rest_id = self.rest.create_rest_api(name="a")["id"]
        (root,) = self.rest.get_resources(restApiId=self.rest_id)["items"]
        self.root = root["id"]
        self.http_id = self.http.create_api(Name="h", ProtocolType="HTTP")["ApiId"]
        self.http.create_stage(ApiId=self.http_id, StageName="$default")
        for api in (self.rest_id, self.http_id):
            cloud.client("lambda").add_permission(
                FunctionName="f",
                StatementId=api,
                Action="lambda:InvokeFunction",
                Principal="apigateway.amazonaws.com",
                SourceArn=f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/*",
            )

    def invocation(self, function: str = "") -> str:
        path = f"2015-03-31/functions/{function or self.function}/invocations"
        return f"arn:aws:apigateway:{REGION}:lambda:path/{path}"

    def resource(self, part: str, parent: str = "") -> str:
        made = self.rest.create_resource(
            restApiId=self.rest_id, parentId=parent or self.root, pathPart=part
        )
        return made["id"]

    def method(
        self, resource: str, integration: dict[str, Any], method: str = "POST", **more: Any
    ) -> None:
        place = {"restApiId": self.rest_id, "resourceId": resource, "httpMethod": method}
        self.rest.put_method(**place, **{"authorizationType": "NONE", **more})
        responses = integration.pop("responses", {"200": {}})
        self.rest.put_integration(**place, integrationHttpMethod="POST", **integration)
        if integration["type"] != "AWS_PROXY":
            for status, members in responses.items():
                shown = dict.fromkeys(members.get("responseParameters", {}), False)
                self.rest.put_method_response(**place, statusCode=status, responseParameters=shown)
                self.rest.put_integration_response(**place, statusCode=status, **members)

    def deploy(self) -> None:
        self.rest.create_deployment(restApiId=self.rest_id, stageName="prod")

    def ask(
        self, api: str, path: str, body: bytes = b"", method: str = "POST", **headers: str
    ) -> HttpResponse:
        path, _, query = path.partition("?")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("host", f"{api}.execute-api.{REGION}.localhost:4566")
        return self.cloud.handle(HttpRequest(method, path, query, named, body))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with InProcessCloud(tmp_path_factory.mktemp("apis") / "data") as cloud:
        made = Lab(cloud)
        stream = {"type": "AWS", "credentials": made.role, "uri": ""}
        proxy = {"type": "AWS_PROXY", "uri": made.invocation()}
        items = made.resource("items")
        made.method(made.resource("{id}", items), dict(proxy), "ANY")
        made.method(made.resource("{rest+}"), dict(proxy), "GET")
        made.method(made.resource("signed"), dict(proxy), authorizationType="AWS_IAM")
        made.method(made.resource("keyed"), dict(proxy), apiKeyRequired=True)
        authorizer = made.rest.create_authorizer(
            restApiId=made.rest_id,
            name="t",
            type="TOKEN",
            authorizerUri=made.invocation(),
            identitySource="method.request.header.Authorization",
        )["id"]
        made.method(
            made.resource("guarded"),
            dict(proxy),
            authorizationType="CUSTOM",
            authorizerId=authorizer,
        )
        made.pool = made.cloud.client("cognito-idp").create_user_pool(PoolName="p")["UserPool"]
        pool = made.rest.create_authorizer(
            restApiId=made.rest_id,
            name="p",
            type="COGNITO_USER_POOLS",
            providerARNs=[made.pool["Arn"]],
        )["id"]
        for path, scopes in (("pool", []), ("scoped", [SCOPE]), ("narrow", ["other"])):
            made.method(
                made.resource(path),
                dict(proxy),
                authorizationType="COGNITO_USER_POOLS",
                authorizerId=pool,
                authorizationScopes=scopes,
            )
        cloud.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        made.method(
            made.resource("records"),
            {
                **stream,
                "uri": f"arn:aws:apigateway:{REGION}:kinesis:action/PutRecord",
                "requestTemplates": {
                    "application/json": '{"StreamName": "s", "PartitionKey": "$input.path(\'$.key\')",'
                    ' "Data": "$util.base64Encode($input.json(\'$.data\'))"}'
                },
                "responses": {
                    "200": {
                        "responseTemplates": {
                            "application/json": "#set($context.responseOverride.status = 202)"
                            "#set($context.responseOverride.header.x-b = 'c'){\"ok\": true}"
                        }
                    },
                    "400": {
                        "selectionPattern": "4\\d{2}",
                        "responseTemplates": {"application/json": "$input.json('$.__type')"},
                    },
                },
            },
        )
        cloud.client("sqs").create_queue(QueueName="q")
        made.method(
            made.resource("messages"),
            {
                **stream,
                "uri": f"arn:aws:apigateway:{REGION}:sqs:path/{ACCOUNT}/q",
                "requestParameters": {
                    "integration.request.header.Content-Type": "'application/x-www-form-urlencoded'"
                },
                "requestTemplates": {
                    "application/json": "Action=SendMessage&MessageBody=$util.urlEncode($input.body)"
                    "&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String"
                    "&MessageAttribute.1.Value.StringValue=v"
                },
            },
        )
        made.method(
            made.resource("plain"),
            {
                "type": "AWS",
                "uri": made.invocation(),
                "responses": {
                    "200": {},
                    "502": {
                        "selectionPattern": ".*no.*",
                        "responseTemplates": {"application/json": "$input.path('$.errorMessage')"},
                    },
                },
            },
        )
        made.method(
            made.resource("mock"),
            {
                "type": "MOCK",
                # As the Serverless Framework writes it.
                "requestTemplates": {"application/json": "{statusCode:204}"},
                "responses": {
                    "204": {
                        "responseParameters": {
                            "method.response.header.Access-Control-Allow-Origin": "'https://a.example'"
                        }
                    }
                },
            },
            "OPTIONS",
        )
        made.deploy()
        target = made.http.create_integration(
            ApiId=made.http_id,
            IntegrationType="AWS_PROXY",
            IntegrationUri=made.function,
            PayloadFormatVersion="2.0",
        )["IntegrationId"]
        made.http.create_route(
            ApiId=made.http_id, RouteKey="POST /x/{id}", Target=f"integrations/{target}"
        )
        put = made.http.create_integration(
            ApiId=made.http_id,
            IntegrationType="AWS_PROXY",
            IntegrationSubtype="SQS-SendMessage",
            PayloadFormatVersion="1.0",
            CredentialsArn=made.role,
            RequestParameters={
                "QueueUrl": f"http://localhost/{ACCOUNT}/q",
                "MessageBody": "$request.body.m",
                "MessageAttributes": json.dumps(
                    {"who": {"DataType": "String", "StringValue": "${request.header.x-who} $!"}}
                ),
            },
        )["IntegrationId"]
        made.http.create_route(
            ApiId=made.http_id, RouteKey="POST /send", Target=f"integrations/{put}"
        )
        yield made


def message(answer: HttpResponse) -> Any:
    return json.loads(answer.body)["message"]  # type: ignore[arg-type]


def test_a_function_is_told_of_a_request_to_a_rest_api(lab: Lab):
    answer = lab.ask(
        lab.rest_id, "/prod/items/a%20b?x=1&x=2", b"hello", "PUT", content_type="text/plain"
    )
    assert answer.status == 201
    event = json.loads(answer.body)  # type: ignore[arg-type]
    assert (event["resource"], event["path"]) == ("/items/{id}", "/items/a%20b")
    assert event["pathParameters"] == {"id": "a b"}
    assert event["queryStringParameters"] == {"x": "2"}
    assert event["multiValueQueryStringParameters"] == {"x": ["1", "2"]}
    assert (event["body"], event["isBase64Encoded"]) == ("hello", False)
    assert event["requestContext"]["stage"] == "prod"
    assert event["requestContext"]["path"] == "/prod/items/a%20b"
    assert ("X-A", "1") in answer.headers
    assert [value for name, value in answer.headers if name == "Set-Cookie"] == ["a=1", "b=2"]


def test_the_address_of_the_endpoint_leads_to_an_api_too(lab: Lab):
    for path in (
        f"/_aws/execute-api/{lab.rest_id}/prod/some/where",
        f"/restapis/{lab.rest_id}/prod/_user_request_/some/where",
    ):
        answer = lab.ask(lab.rest_id, path, method="GET", host="127.0.0.1:4566")
        event = json.loads(answer.body)  # type: ignore[arg-type]
        assert event["pathParameters"] == {"rest": "some/where"}
        assert event["path"] == "/some/where"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/prod/items", 403, "Missing Authentication Token"),
        ("/prod/some/where", 403, "Missing Authentication Token"),
        ("/none/items/1", 403, "Forbidden"),
        ("/prod/signed", 403, "Missing Authentication Token"),
        ("/prod/keyed", 403, "Forbidden"),
        ("/prod/guarded", 401, "Unauthorized"),
    ],
)
def test_a_request_is_refused_in_awss_words(lab: Lab, path: str, status: int, said: str):
    answer = lab.ask(lab.rest_id, path)
    assert (answer.status, message(answer)) == (status, said)


def test_tokens_of_a_user_pool_let_its_users_in(lab: Lab):
    idp = lab.cloud.client("cognito-idp")
    pool = lab.pool["Id"]
    client = idp.create_user_pool_client(
        UserPoolId=pool, ClientName="c", ExplicitAuthFlows=["ALLOW_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    idp.sign_up(ClientId=client, Username="u", Password="Passw0rd!x")
    idp.admin_confirm_sign_up(UserPoolId=pool, Username="u")
    tokens = idp.initiate_auth(
        ClientId=client,
        AuthFlow="USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": "u", "PASSWORD": "Passw0rd!x"},
    )["AuthenticationResult"]
    identity, access = tokens["IdToken"], tokens["AccessToken"]
    answer = lab.ask(lab.rest_id, "/prod/pool", authorization=f"Bearer {identity}")
    assert answer.status == 201
    claims = json.loads(answer.body)["requestContext"]["authorizer"]["claims"]  # type: ignore[arg-type]
    assert (claims["cognito:username"], claims["token_use"], claims["aud"]) == ("u", "id", client)
    # Without scopes it must be an identity token, with them an access token that has one.
    assert lab.ask(lab.rest_id, "/prod/scoped", authorization=access).status == 201
    head, payload, signature = identity.split(".")
    for path, token in (
        ("pool", access),
        ("pool", ""),
        ("pool", "Bearer x"),
        ("pool", f"{head}.{payload[:-2]}AA.{signature}"),
        ("pool", f"{head}.{payload}.{signature[:-4]}AAAA"),
        ("scoped", identity),
        ("narrow", access),
    ):
        assert lab.ask(lab.rest_id, f"/prod/{path}", authorization=token).status == 401, (
            path,
            token,
        )

    def route(path: str, issuer: str, **more: Any) -> None:
        configuration = {"Audience": [client], "Issuer": issuer}
        authorizer = lab.http.create_authorizer(
            ApiId=lab.http_id,
            Name=path,
            AuthorizerType="JWT",
            IdentitySource=["$request.header.Authorization"],
            JwtConfiguration=configuration,
        )["AuthorizerId"]
        lab.http.create_route(
            ApiId=lab.http_id,
            RouteKey=f"GET /{path}",
            AuthorizationType="JWT",
            AuthorizerId=authorizer,
            Target=lab.http.get_routes(ApiId=lab.http_id)["Items"][0]["Target"],
            **more,
        )

    issuer = f"https://cognito-idp.{REGION}.amazonaws.com/{pool}"
    route("jwt", issuer)
    route("jwt-scoped", issuer, AuthorizationScopes=[SCOPE])
    route("jwt-narrow", issuer, AuthorizationScopes=["other"])
    route("foreign", "https://login.example.com/")
    route("gone", issuer + "x")
    answer = lab.ask(lab.http_id, "/jwt-scoped", method="GET", authorization=f"Bearer {access}")
    jwt = json.loads(answer.body)["requestContext"]["authorizer"]["jwt"]  # type: ignore[arg-type]
    assert (jwt["claims"]["client_id"], jwt["scopes"]) == (client, [SCOPE])
    key = cognitoidp_backends[ACCOUNT][REGION].user_pools[pool].json_web_key
    claims = jwt_of(access, key, algorithms=["RS256"]).claims
    for name in ("iat", "nbf"):  # of a moment that has not come
        early = encode({"alg": "RS256"}, {**claims, name: claims["exp"] - 1}, key)
        assert lab.ask(lab.http_id, "/jwt", method="GET", authorization=early).status == 401, name
    for path, token, status in (
        ("jwt", identity, 201),
        ("jwt", "", 401),
        ("jwt", identity[:-4] + "AAAA", 401),
        ("jwt-narrow", access, 403),
        ("foreign", identity, 501),
        ("gone", identity, 401),
    ):
        asked = lab.ask(lab.http_id, f"/{path}", method="GET", authorization=token)
        assert asked.status == status, (path, asked.body)


def test_a_signature_a_key_and_an_authorizer_let_a_request_in(lab: Lab):
    assert lab.ask(lab.rest_id, "/prod/signed", authorization=SIGNED).status == 201
    key = lab.rest.create_api_key(name="k", enabled=True)
    value = lab.rest.get_api_key(apiKey=key["id"], includeValue=True)["value"]
    assert lab.ask(lab.rest_id, "/prod/keyed", x_api_key=value).status == 201
    let_in = lab.ask(lab.rest_id, "/prod/guarded", authorization="yes")
    assert json.loads(let_in.body)["requestContext"]["authorizer"]["who"] == "me"  # type: ignore[arg-type]
    assert lab.ask(lab.rest_id, "/prod/guarded", authorization="no").status == 403


@pytest.mark.parametrize("body", [b"fail", b"bad"])
def test_what_a_function_answers_wrongly_is_a_bad_gateway(lab: Lab, body: bytes):
    answer = lab.ask(lab.rest_id, "/prod/items/1", body)
    assert (answer.status, message(answer)) == (502, "Internal server error")


def test_a_function_that_does_not_permit_it_is_not_invoked(lab: Lab):
    other = lab.rest.create_rest_api(name="other")["id"]
    (root,) = lab.rest.get_resources(restApiId=other)["items"]
    place = {"restApiId": other, "resourceId": root["id"], "httpMethod": "GET"}
    lab.rest.put_method(**place, authorizationType="NONE")
    lab.rest.put_integration(
        **place, type="AWS_PROXY", integrationHttpMethod="POST", uri=lab.invocation()
    )
    lab.rest.create_deployment(restApiId=other, stageName="prod")
    answer = lab.ask(other, "/prod", method="GET")
    assert (answer.status, message(answer)) == (500, "Internal server error")


def test_a_template_puts_a_record(lab: Lab):
    answer = lab.ask(lab.rest_id, "/prod/records", b'{"key": "k", "data": {"a": 1}}')
    assert (answer.status, answer.body) == (202, b'{"ok": true}')
    assert ("x-b", "c") in answer.headers
    kinesis = lab.cloud.client("kinesis")
    (shard,) = kinesis.list_shards(StreamName="s")["Shards"]
    iterator = kinesis.get_shard_iterator(
        StreamName="s", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    (record,) = kinesis.get_records(ShardIterator=iterator)["Records"]
    assert (record["Data"], record["PartitionKey"]) == (b'{"a":1}', "k")


def test_a_services_refusal_is_chosen_by_the_selection_pattern(lab: Lab):
    answer = lab.ask(lab.rest_id, "/prod/records", b'{"key": "", "data": 1}')
    assert (answer.status, answer.body) == (400, b'"ValidationException"')


def test_a_message_is_sent_by_the_query_protocol_and_by_a_subtype(lab: Lab):
    answer = lab.ask(lab.rest_id, "/prod/messages", b"a&b")
    assert answer.status == 200
    assert "MessageId" in json.loads(answer.body)["SendMessageResponse"]["SendMessageResult"]  # type: ignore[arg-type]
    assert lab.ask(lab.http_id, "/send", b'{"m": "second"}').status == 200
    found = lab.cloud.client("sqs").receive_message(
        QueueUrl=f"http://localhost/{ACCOUNT}/q",
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
    )["Messages"]
    assert {each["Body"] for each in found} == {"a&b", "second"}
    (sent,) = (each for each in found if each["Body"] == "a&b")
    assert sent["MessageAttributes"]["a"]["StringValue"] == "v"
    (sent,) = (each for each in found if each["Body"] == "second")
    assert sent["MessageAttributes"]["who"]["StringValue"] == " $!"


def test_an_integration_that_is_no_proxy_maps_the_functions_error(lab: Lab):
    assert lab.ask(lab.rest_id, "/prod/plain", b'{"body": "fail"}').status == 502
    answer = lab.ask(lab.rest_id, "/prod/plain", b'{"body": "x"}')
    assert json.loads(answer.body)["statusCode"] == 201  # type: ignore[arg-type]


def test_a_mock_answers_a_preflight_and_its_origin_alone_is_let_in(lab: Lab):
    asked: dict[str, Any] = {"access_control_request_method": "GET", "user_agent": "Mozilla/5.0"}
    let_in = lab.ask(
        lab.rest_id, "/prod/mock", method="OPTIONS", origin="https://a.example", **asked
    )
    assert let_in.status == 204
    assert ("Access-Control-Allow-Origin", "https://a.example") in let_in.headers
    other = lab.ask(
        lab.rest_id, "/prod/mock", method="OPTIONS", origin="https://b.example", **asked
    )
    assert other.status == 403


def test_a_function_is_told_of_a_request_to_an_http_api(lab: Lab):
    answer = lab.ask(
        lab.http_id, "/x/7?a=1&a=2", b"{}", cookie="c=1; d=2", content_type="application/json"
    )
    assert answer.status == 201
    event = json.loads(answer.body)  # type: ignore[arg-type]
    assert (event["version"], event["routeKey"]) == ("2.0", "POST /x/{id}")
    assert event["pathParameters"] == {"id": "7"}
    assert event["queryStringParameters"] == {"a": "1,2"}
    assert event["cookies"] == ["c=1", "d=2"]
    assert event["requestContext"]["http"]["method"] == "POST"
    assert event["requestContext"]["stage"] == "$default"
    missing = lab.ask(lab.http_id, "/y")
    assert (missing.status, message(missing)) == (404, "Not Found")


def test_the_cors_configuration_of_an_http_api_answers_and_lets_in(lab: Lab):
    lab.http.update_api(
        ApiId=lab.http_id,
        CorsConfiguration={"AllowOrigins": ["https://a.example"], "AllowMethods": ["POST"]},
    )
    asked: dict[str, Any] = {"access_control_request_method": "POST", "user_agent": "Mozilla/5.0"}
    answer = lab.ask(lab.http_id, "/x/7", method="OPTIONS", origin="https://a.example", **asked)
    assert answer.status == 204
    assert ("access-control-allow-methods", "POST") in answer.headers
    assert lab.ask(lab.http_id, "/x/7", origin="https://b.example").status == 403


def test_an_api_that_is_not_there_is_forbidden(lab: Lab):
    assert lab.ask("abcdefghij", "/prod").status == 403
