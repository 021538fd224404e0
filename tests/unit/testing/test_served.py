"""Custom resources of a cloud that a test's process serves: how functions answer, and what they trust."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from typing import Any

import certifi
import pytest

from headrace.testing.clouds import LocalCloud, ServedCloud
from headrace.testing.waiting import until

PYTHON = """
import os
import cfnresponse

def handler(event, context):
    scheme = event["ResponseURL"].partition(":")[0]
    trust = os.environ.get("NODE_EXTRA_CA_CERTS", "")
    cfnresponse.send(event, context, cfnresponse.SUCCESS, {"Scheme": scheme, "Trust": trust}, "made")
"""
# `https` would be refused here, unless the function trusts the cloud.
NODE = """
const response = require("cfn-response");
exports.handler = (event, context) => {
  const scheme = event.ResponseURL.split(":")[0];
  const trust = process.env.NODE_EXTRA_CA_CERTS || "";
  response.send(event, context, response.SUCCESS, { Scheme: scheme, Trust: trust }, "made");
};
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says nothing about whom to trust: a function in this process sees its variables."""
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)


def template(runtime: str, source: str) -> dict[str, Any]:
    return {
        "Resources": {
            "Answers": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Runtime": runtime,
                    "Handler": "index.handler",
                    "Role": "arn:aws:iam::000000000000:role/r",
                    "Code": {"ZipFile": source},
                },
            },
            "Asked": {
                "Type": "Custom::Asked",
                "Properties": {"ServiceToken": {"Fn::GetAtt": ["Answers", "Arn"]}},
            },
        },
        "Outputs": {
            name: {"Value": {"Fn::GetAtt": ["Asked", name]}} for name in ("Scheme", "Trust")
        },
    }


def deploy(cloud: LocalCloud, runtime: str, source: str) -> dict[str, str]:
    """Deploy the stack and delete it; return its outputs."""
    client = cloud.session().client("cloudformation")
    client.create_stack(StackName="s", TemplateBody=json.dumps(template(runtime, source)))

    def stack() -> dict[str, Any]:
        described = client.describe_stacks(StackName="s")["Stacks"][0]
        assert not described["StackStatus"].endswith("_IN_PROGRESS")
        return described

    described = until(stack, timeout_s=60)
    assert described["StackStatus"] == "CREATE_COMPLETE"
    return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


def test_a_function_in_the_tests_process_answers_by_http() -> None:
    """It trusts what the test's process trusts, and the cloud's certificate is not part of it."""
    with ServedCloud() as cloud:
        outputs = deploy(cloud, f"python3.{sys.version_info.minor}", PYTHON)
        assert outputs == {"Scheme": "http", "Trust": ""}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_function_in_its_own_process_answers_by_http_and_trusts_the_clouds_tls() -> None:
    with ServedCloud() as cloud:
        outputs = deploy(cloud, "nodejs22.x", NODE)
        assert outputs["Scheme"] == "http"
        assert outputs["Trust"].endswith(".pem")


NODES_OWN = """
const https = require("https"), { execFileSync } = require("child_process");
const ask = "const { get } = require('https'); " +
  "get(process.argv[1], (r) => { console.log(r.statusCode); r.resume(); }).on('error', (e) => console.log(e.code))";
exports.handler = (event) => new Promise((done, fail) => {
  const url = process.env.AWS_ENDPOINT_URL.replace("http:", "https:") + "/_headrace/health";
  const child = () => execFileSync(process.execPath, ["-e", ask, url], { encoding: "utf8" }).trim();
  https.get(url, (r) => { r.resume(); done([String(r.statusCode), child()]); })
    .on("error", (e) => done([e.code, child()]));
});
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(
    ("own", "answer"),
    [
        ({}, "200"),
        ({"NODE_OPTIONS": "--use-bundled-ca"}, "200"),
        ({"NODE_EXTRA_CA_CERTS": certifi.where()}, "SELF_SIGNED"),
    ],
)
def test_a_node_function_and_its_own_processes_trust_the_cloud_unless_it_says_otherwise(
    own: dict[str, str], answer: str
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.js", NODES_OWN)
    with ServedCloud() as cloud:
        lambda_ = cloud.session().client("lambda")
        lambda_.create_function(
            FunctionName="f",
            Runtime="nodejs22.x",
            Role="arn:aws:iam::000000000000:role/r",
            Handler="index.handler",
            Timeout=60,
            Environment={"Variables": own},
            Code={"ZipFile": packed.getvalue()},
        )
        told = json.load(lambda_.invoke(FunctionName="f")["Payload"])
        assert [answer in each for each in told] == [True, True], told


@pytest.mark.parametrize("runtime", ["python", "nodejs"])
def test_without_a_socket_no_certificate_is_made(runtime: str) -> None:
    """A function trusts the machine then."""
    node = runtime == "nodejs"
    if node and shutil.which("node") is None:
        pytest.skip("needs Node.js")
    told = "exports.handler = async () => process.env.NODE_EXTRA_CA_CERTS || '';" if node else ""
    told = told or "import os\ndef handler(*_): return os.environ.get('NODE_EXTRA_CA_CERTS', '')"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.js" if node else "index.py", told)
    with LocalCloud() as cloud:
        lambda_ = cloud.session().client("lambda")
        lambda_.create_function(
            FunctionName="f",
            Runtime="nodejs22.x" if node else f"python3.{sys.version_info.minor}",
            Role="arn:aws:iam::000000000000:role/r",
            Handler="index.handler",
            Code={"ZipFile": packed.getvalue()},
        )
        answer = lambda_.invoke(FunctionName="f")
        assert json.load(answer["Payload"]) == ""
        assert not (cloud.data_dir / "tls").exists()
