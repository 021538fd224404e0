"""REST APIs' members: what a request or a template gives is kept, shown, and acts; defaults are AWS's (recorded)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import InProcessCloud

PNG = b"\x89PNG\r\n\x1a\n"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
FUNCTION = (
    "import base64\n"
    "def handler(event, context):\n"
    "    body = event['body'] if event['isBase64Encoded'] else base64.b64encode(b'text').decode()\n"
    "    return {'statusCode': 200, 'headers': {'content-type': 'image/png'},\n"
    "            'body': body, 'isBase64Encoded': True}\n"
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("members") / "data") as cloud:
        yield cloud


def template(types: list[str], address_type: str) -> dict[str, Any]:
    api = {"Ref": "Api"}
    root = {"Fn::GetAtt": ["Api", "RootResourceId"]}
    uri = {
        "Fn::Sub": "arn:aws:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${F.Arn}/invocations"
    }
    return {
        "Resources": {
            "Api": {
                "Type": "AWS::ApiGateway::RestApi",
                "Properties": {
                    "Name": "binary",
                    "BinaryMediaTypes": types,
                    "EndpointConfiguration": {
                        "Types": ["REGIONAL"],
                        "IpAddressType": address_type,
                    },
                },
            },
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {"AssumeRolePolicyDocument": TRUST},
            },
            "F": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Runtime": "python3.12",
                    "Handler": "index.handler",
                    "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                    "Code": {"ZipFile": FUNCTION},
                },
            },
            "May": {
                "Type": "AWS::Lambda::Permission",
                "Properties": {
                    "Action": "lambda:InvokeFunction",
                    "FunctionName": {"Ref": "F"},
                    "Principal": "apigateway.amazonaws.com",
                },
            },
            "Post": {
                "Type": "AWS::ApiGateway::Method",
                "Properties": {
                    "RestApiId": api,
                    "ResourceId": root,
                    "HttpMethod": "POST",
                    "AuthorizationType": "NONE",
                    "Integration": {
                        "Type": "AWS_PROXY",
                        "IntegrationHttpMethod": "POST",
                        "Uri": uri,
                        "CacheNamespace": "mine",
                        "CacheKeyParameters": ["method.request.querystring.a"],
                    },
                },
            },
            "Deployment": {
                "Type": "AWS::ApiGateway::Deployment",
                "DependsOn": "Post",
                "Properties": {"RestApiId": api, "StageName": "s"},
            },
        },
        "Outputs": {"Api": {"Value": api}, "Root": {"Value": root}},
    }


def deploy(cloud: InProcessCloud, operation: str, body: dict[str, Any]) -> dict[str, str]:
    client = cloud.client("cloudformation")
    getattr(client, f"{operation}_stack")(
        StackName="binary", TemplateBody=json.dumps(body), Capabilities=["CAPABILITY_IAM"]
    )
    client.get_waiter(f"stack_{operation}_complete").wait(
        StackName="binary", WaiterConfig={"Delay": 1}
    )
    outputs = client.describe_stacks(StackName="binary")["Stacks"][0]["Outputs"]
    return {each["OutputKey"]: each["OutputValue"] for each in outputs}


def post(cloud: InProcessCloud, api: str, body: bytes, **headers: str) -> bytes:
    host = f"{api}.execute-api.us-east-1.localhost:4566"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = cloud.handle(HttpRequest("POST", "/s/", "", {"host": host, **named}, body))
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    return answer.body


def test_a_template_s_media_types_addresses_and_caches_are_kept_and_act(cloud: InProcessCloud):
    apis = cloud.client("apigateway")
    names = deploy(cloud, "create", template(["image/png"], "dualstack"))
    api = apis.get_rest_api(restApiId=names["Api"])
    assert api["binaryMediaTypes"] == ["image/png"]
    assert api["endpointConfiguration"] == {"types": ["REGIONAL"], "ipAddressType": "dualstack"}
    method = apis.get_method(restApiId=names["Api"], resourceId=names["Root"], httpMethod="POST")[
        "methodIntegration"
    ]
    assert method["cacheNamespace"] == "mine"
    assert method["cacheKeyParameters"] == ["method.request.querystring.a"]

    # Bytes come and go when both sides name a binary type; otherwise the text in Base64 stays.
    png = {"content_type": "image/png"}
    assert post(cloud, names["Api"], PNG, accept="image/png, */*", **png) == PNG
    assert post(cloud, names["Api"], PNG, accept="text/html", **png) == base64.b64encode(PNG)
    assert post(cloud, names["Api"], b"x", accept="image/png", content_type="text/plain") == b"text"

    names = deploy(cloud, "update", template(["*/*"], "ipv4"))
    api = apis.get_rest_api(restApiId=names["Api"])
    assert api["binaryMediaTypes"] == ["*/*"]
    assert api["endpointConfiguration"]["ipAddressType"] == "ipv4"
    assert post(cloud, names["Api"], PNG) == PNG


def test_an_api_has_awss_defaults(cloud: InProcessCloud):
    client = cloud.client("apigateway")
    api = client.create_rest_api(name="plain")
    assert api.keys() - {"ResponseMetadata"} == {
        "id", "name", "createdDate", "apiKeySource", "endpointConfiguration",
        "disableExecuteApiEndpoint", "rootResourceId",
    }  # fmt: skip
    assert client.get_rest_api(restApiId=api["id"])["tags"] == {}
    assert api["endpointConfiguration"] == {"types": ["EDGE"], "ipAddressType": "ipv4"}
    models = client.get_models(restApiId=api["id"])["items"]
    assert [model["name"] for model in models] == ["Empty", "Error"]
    place = {"restApiId": api["id"], "resourceId": api["rootResourceId"], "httpMethod": "GET"}
    client.put_method(**place, authorizationType="NONE")
    client.put_integration(
        **place, type="HTTP_PROXY", integrationHttpMethod="GET", uri="http://www.example.com"
    )
    method = client.get_method(**place)
    assert "methodResponses" not in method
    assert method["methodIntegration"] == {
        "type": "HTTP_PROXY", "httpMethod": "GET", "uri": "http://www.example.com",
        "connectionType": "INTERNET", "passthroughBehavior": "WHEN_NO_MATCH", "timeoutInMillis": 29000,
        "cacheNamespace": api["rootResourceId"], "cacheKeyParameters": [],
    }  # fmt: skip
    client.create_deployment(restApiId=api["id"], stageName="s")
    stage = client.get_stage(restApiId=api["id"], stageName="s")
    assert (stage["cacheClusterStatus"], stage["tracingEnabled"]) == ("NOT_AVAILABLE", False)
    assert stage["createdDate"] == stage["lastUpdatedDate"]
    assert not {"description", "variables"} & stage.keys()


def test_an_http_api_has_one_stage_route_and_mapping_of_a_name(cloud: InProcessCloud):
    http = cloud.client("apigatewayv2")
    api = http.create_api(Name="one", ProtocolType="HTTP")["ApiId"]
    http.create_domain_name(
        DomainName="one.example.com",
        DomainNameConfigurations=[{"CertificateArn": "arn:aws:acm:us-east-1:1:certificate/x"}],
    )
    mapping = {"DomainName": "one.example.com", "ApiMappingKey": "v1", "Stage": "a"}
    for create, params, sentence in (
        (http.create_stage, {"StageName": "a"}, "Stage already exists"),
        (
            http.create_route,
            {"RouteKey": "GET /x"},
            "Route with key GET /x already exists for this API",
        ),
        (http.create_api_mapping, mapping, "ApiMapping key already exists for this domain name"),
    ):
        create(ApiId=api, **params)
        with pytest.raises(http.exceptions.ConflictException, match=sentence):
            create(ApiId=api, **params)
    http.create_api_mapping(ApiId=api, **{**mapping, "ApiMappingKey": "v2"})
    http.delete_domain_name(DomainName="one.example.com")
    with pytest.raises(http.exceptions.NotFoundException):
        http.get_domain_name(DomainName="one.example.com")


def test_bytes_go_through_a_service_as_content_handling_says(cloud: InProcessCloud):
    """An upload to S3 through an API came out with every byte that is no UTF-8 replaced."""
    apis, s3 = cloud.client("apigateway"), cloud.client("s3")
    s3.create_bucket(Bucket="uploads")
    role = cloud.client("iam").create_role(
        RoleName="uploads",
        AssumeRolePolicyDocument=json.dumps(TRUST).replace("lambda", "apigateway"),
    )["Role"]["Arn"]
    api = apis.create_rest_api(name="uploads", binaryMediaTypes=["image/png"])["id"]
    root = apis.get_resources(restApiId=api)["items"][0]["id"]

    def method(verb: str, handling: str = "", back: str = "") -> None:
        where = {"restApiId": api, "resourceId": root, "httpMethod": verb}
        names = {f"method.request.header.{name}": False for name in ("Content-Type",)}
        apis.put_method(**where, authorizationType="NONE", requestParameters=names)
        apis.put_method_response(**where, statusCode="200")
        apis.put_integration(
            **where,
            type="AWS",
            integrationHttpMethod={"POST": "PUT"}.get(verb, verb),
            credentials=role,
            uri="arn:aws:apigateway:us-east-1:s3:path/uploads/k",
            requestParameters={
                "integration.request.header.Content-Type": "method.request.header.Content-Type"
            },
            **({"contentHandling": handling} if handling else {}),
        )
        given = {"contentHandling": back} if back else {}
        apis.put_integration_response(**where, statusCode="200", **given)

    def ask(verb: str, body: bytes = b"", **headers: str) -> bytes:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        host = f"{api}.execute-api.us-east-1.localhost:4566"
        answer = cloud.handle(HttpRequest(verb, "/s/", "", {"host": host, **named}, body))
        assert answer.status == 200, answer.body
        return bytes(answer.body)  # type: ignore[arg-type]

    def stored() -> bytes:
        return s3.get_object(Bucket="uploads", Key="k")["Body"].read()

    encoded = base64.b64encode(PNG)
    method("PUT")
    method("POST", "CONVERT_TO_BINARY")
    method("GET")
    apis.create_deployment(restApiId=api, stageName="s")
    ask("POST", encoded, content_type="text/plain")
    assert stored() == PNG
    ask("PUT", PNG, content_type="image/png")
    assert stored() == PNG
    assert ask("GET", accept="image/png") == PNG
    assert ask("GET", accept="text/plain") == encoded
    for back, expected in (("CONVERT_TO_TEXT", encoded), ("CONVERT_TO_BINARY", PNG)):
        method("GET", back=back)
        assert ask("GET", accept="image/png") == expected
    method("PUT", "CONVERT_TO_TEXT")
    ask("PUT", PNG, content_type="image/png")
    assert stored() == encoded
