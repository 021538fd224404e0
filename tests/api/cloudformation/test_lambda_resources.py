"""Lambda's resource types: properties of a template take effect, and those removed from it no longer do."""

from __future__ import annotations

import json
import sys
import urllib.parse
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

SOURCE = "import json\ndef handler(event, context):\n    return context.function_version\n"
RUNNING = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def function(**properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": "f",
            "Runtime": RUNNING,
            "Handler": "index.handler",
            "Role": "arn:aws:iam::000000000000:role/r",
            "Code": {"ZipFile": SOURCE},
            **properties,
        },
    }


def deploy(cfn: Any, resources: dict[str, Any], **outputs: Any) -> dict[str, str]:
    """Create or update the stack `s` and return its outputs."""
    body = {
        "Resources": resources,
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    exists = any(stack["StackName"] == "s" for stack in cfn.describe_stacks()["Stacks"])
    call = cfn.update_stack if exists else cfn.create_stack
    call(StackName="s", TemplateBody=json.dumps(body))

    def settled() -> dict[str, Any] | None:
        (stack,) = cfn.describe_stacks(StackName="s")["Stacks"]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

    stack = wait_until(settled, what="the stack")
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    reasons = [event.get("ResourceStatusReason") for event in events]
    assert stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), reasons
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def ask(cloud: InProcessCloud, url: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    parts = urllib.parse.urlsplit(url)
    request = HttpRequest("GET", parts.path, "", {"host": parts.netloc, **headers})
    answer = cloud.handle(request)
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body, dict(answer.headers)


URL = {
    "Type": "AWS::Lambda::Url",
    "Properties": {"TargetFunctionArn": {"Fn::GetAtt": ["F", "Arn"]}, "AuthType": "NONE"},
}
PUBLIC = {
    "Type": "AWS::Lambda::Permission",
    "Properties": {
        "FunctionName": {"Ref": "F"},
        "Action": "lambda:InvokeFunctionUrl",
        "Principal": "*",
        "FunctionUrlAuthType": "NONE",
    },
}


def test_a_url_is_made_changed_and_taken_away(cloud: InProcessCloud, cfn: Any) -> None:
    resources = {"F": function(), "Url": URL, "Public": PUBLIC}
    attribute = {"Fn::GetAtt": ["Url", "FunctionUrl"]}
    url = deploy(cfn, resources, Url=attribute)["Url"]
    assert ask(cloud, url)[:2] == (200, b"$LATEST")
    properties = {**URL["Properties"], "Cors": {"AllowOrigins": ["https://a"], "MaxAge": "5"}}
    again = deploy(cfn, {**resources, "Url": {**URL, "Properties": properties}}, Url=attribute)
    assert again["Url"] == url
    assert ask(cloud, url, origin="https://a")[2]["Access-Control-Allow-Origin"] == "https://a"
    deploy(cfn, {"F": resources["F"], "Public": PUBLIC})
    assert ask(cloud, url)[0] == 403


def test_an_alias_is_kept_warm_and_loses_its_weights(cloud: InProcessCloud, cfn: Any) -> None:
    version = {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "F"}}}
    alias = {
        "FunctionName": {"Ref": "F"},
        "FunctionVersion": {"Fn::GetAtt": ["V", "Version"]},
        "Name": "live",
        "ProvisionedConcurrencyConfig": {"ProvisionedConcurrentExecutions": 1},
    }
    resources = {
        "F": function(),
        "V": version,
        "A": {"Type": "AWS::Lambda::Alias", "Properties": alias},
    }
    deploy(cfn, resources)
    client = cloud.client("lambda")
    (config,) = client.list_provisioned_concurrency_configs(FunctionName="f")[
        "ProvisionedConcurrencyConfigs"
    ]
    assert (config["Status"], config["FunctionArn"].rpartition(":")[2]) == ("READY", "live")
    del alias["ProvisionedConcurrencyConfig"]
    deploy(cfn, resources)
    listed = client.list_provisioned_concurrency_configs(FunctionName="f")
    assert listed["ProvisionedConcurrencyConfigs"] == []


def test_a_layer_is_shared_by_permission(cloud: InProcessCloud, cfn: Any) -> None:
    cloud.client("s3").create_bucket(Bucket="layers")
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("python/shared.py", "X = 1\n")
    cloud.client("s3").put_object(Bucket="layers", Key="layer.zip", Body=packed.getvalue())
    resources = {
        "L": {
            "Type": "AWS::Lambda::LayerVersion",
            "Properties": {
                "LayerName": "l",
                "Content": {"S3Bucket": "layers", "S3Key": "layer.zip"},
            },
        },
        "P": {
            "Type": "AWS::Lambda::LayerVersionPermission",
            "Properties": {
                "LayerVersionArn": {"Ref": "L"},
                "Action": "lambda:GetLayerVersion",
                "Principal": "111111111111",
            },
        },
    }
    deploy(cfn, resources)
    client = cloud.client("lambda")
    policy = json.loads(client.get_layer_version_policy(LayerName="l", VersionNumber=1)["Policy"])
    assert policy["Statement"][0]["Principal"] == {"AWS": "arn:aws:iam::111111111111:root"}
    del resources["P"]
    deploy(cfn, resources)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_layer_version_policy(LayerName="l", VersionNumber=1)


def test_the_report_says_when_another_python_runs(cloud: InProcessCloud, cfn: Any) -> None:
    deploy(cfn, {"F": function(Runtime="python3.9")})
    page = cloud.handle(HttpRequest("GET", "/_headrace/fidelity", "stack=s"))
    assert isinstance(page.body, bytes)
    rows = [row for row in json.loads(page.body) if row["property"] == "Runtime"]
    assert [row["remark"] for row in rows] == [f"python3.9 is declared; {RUNNING} runs it"]
    answer = cloud.client("lambda").invoke(FunctionName="f")
    assert answer["Payload"].read() == b'"$LATEST"'


def test_a_function_gets_another_architecture(cloud: InProcessCloud, cfn: Any):
    def body(**more: Any) -> dict[str, Any]:
        code = {"ZipFile": "def handler(event, context): pass"}
        properties = {"Code": code, "Handler": "index.handler", "Runtime": "python3.11"}
        role = "arn:aws:iam::000000000000:role/r"
        return template(
            F={"Type": "AWS::Lambda::Function", "Properties": {**properties, "Role": role, **more}}
        )

    assert create(cfn, body()) == "CREATE_COMPLETE"
    name = physical(cfn, "F")
    for more, wanted in (({"Architectures": ["arm64"]}, ["arm64"]), ({}, ["x86_64"])):
        assert update(cfn, body(**more)) == "UPDATE_COMPLETE"
        found = cloud.client("lambda").get_function_configuration(FunctionName=name)
        assert found["Architectures"] == wanted


def test_a_function_of_an_image_is_refused_with_what_to_do(cfn: Any):
    image = {"ImageUri": "000000000000.dkr.ecr.us-east-1.amazonaws.com/x:v1"}
    properties = {"PackageType": "Image", "Code": image, "Role": "arn:aws:iam::000000000000:role/r"}
    made = {"Type": "AWS::Lambda::Function", "Properties": properties}
    assert create(cfn, template(Function=made)) == "ROLLBACK_COMPLETE"
    reasons = [
        event.get("ResourceStatusReason", "")
        for event in cfn.describe_stack_events(StackName="s")["StackEvents"]
    ]
    assert any("Deploy this function as a zip" in reason for reason in reasons), reasons
