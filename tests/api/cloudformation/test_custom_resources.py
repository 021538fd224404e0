"""Custom resources: an invocation asks the function, and a PUT to the cloud answers."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.cloudformation.test_stacks import settled, template
from tests.support.server import ServerProcess

HANDLER = """
import json, time, urllib.request

def handler(event, context):
    asked = event["ResourceProperties"]
    if "Tell" in asked:
        with open(asked["Tell"], "a") as out:
            out.write(event["RequestType"] + " " + event.get("PhysicalResourceId", "") + "\\n")
    if "Large" in asked:
        send(event["ResponseURL"], b" " * 5000)
        return
    if "Broken" in asked:
        for body in (b"{", b"[]"):
            send(event["ResponseURL"], body)
        raise ValueError("nobody understood")
    if asked.get("Silent") == "true":
        return
    if asked.get("Raise") == event["RequestType"]:
        print("about to raise")
        raise ValueError("as it was told")
    if asked.get("Sleep") == "true":
        time.sleep(60)
    failed = event["ResourceProperties"].get("Fail") == event["RequestType"]
    answer = {
        "Status": "FAILED" if failed else "SUCCESS",
        "Reason": "as it was told",
        "PhysicalResourceId": "made-by-the-function",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {"Seen": json.dumps(asked, sort_keys=True), **asked.get("Answers", {})},
    }
    send(event["ResponseURL"], json.dumps(answer).encode())
    if asked.get("Twice") == "true":
        send(event["ResponseURL"], json.dumps({**answer, "Status": "FAILED"}).encode())

def send(url, body):
    request = urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).read()
    except OSError as error:
        print("refused", error)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("custom") / "data") as server:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", HANDLER)
        for name, handler in (("custom", "index.handler"), ("broken", "nowhere.handler")):
            server.client("lambda").create_function(
                FunctionName=name,
                Runtime="python3.13",
                Handler=handler,
                Role="arn:aws:iam::000000000000:role/r",
                Code={"ZipFile": packed.getvalue()},
                Timeout=2,
            )
        yield server


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """Return a stack's name that no other test has."""
    return f"s{next(_numbers)}"


def body(function: str = "custom", **properties: Any) -> str:
    token = f"arn:aws:lambda:us-east-1:000000000000:function:{function}"
    custom = {"Type": "Custom::Thing", "Properties": {"ServiceToken": token, **properties}}
    outputs = {"Seen": {"Value": {"Fn::GetAtt": ["Thing", "Seen"]}}}
    return json.dumps({**template(Thing=custom), "Outputs": outputs})


def test_scalars_are_texts_and_data_is_what_get_att_reads(server: ServerProcess, name: str):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=body(Number=1, Flag=True, Deep={"x": [2]}))
    assert settled(cfn, name) == "CREATE_COMPLETE"
    output = cfn.describe_stacks(StackName=name)["Stacks"][0]["Outputs"][0]["OutputValue"]
    seen = json.loads(output)
    assert (seen["Number"], seen["Flag"], seen["Deep"]) == ("1", "true", {"x": ["2"]})
    resource = cfn.describe_stack_resource(StackName=name, LogicalResourceId="Thing")
    assert resource["StackResourceDetail"]["PhysicalResourceId"] == "made-by-the-function"


def test_a_changed_resource_may_answer_with_attributes_that_it_did_not_have(
    server: ServerProcess, name: str
):
    # As CDK's crossRegionReferences does when another value is referred to.
    def asks(*answers: str) -> str:
        asked = json.loads(body(Answers={answer: f"is {answer}" for answer in answers}))
        read = ["Fn::GetAtt", ["Thing", "/new/one"]]
        asked["Resources"]["Reader"] = {
            "Type": "AWS::SSM::Parameter",
            "Properties": {
                "Type": "String",
                "Value": dict([read]) if "/new/one" in answers else "none",
            },
        }
        return json.dumps(asked)

    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=asks("old"))
    assert settled(cfn, name) == "CREATE_COMPLETE"
    cfn.create_change_set(StackName=name, ChangeSetName="c", TemplateBody=asks("old", "/new/one"))
    changes = cfn.describe_change_set(StackName=name, ChangeSetName="c")
    assert (changes["Status"], len(changes["Changes"])) == ("CREATE_COMPLETE", 2)
    cfn.execute_change_set(StackName=name, ChangeSetName="c")
    assert settled(cfn, name) == "UPDATE_COMPLETE"
    reader = cfn.describe_stack_resource(StackName=name, LogicalResourceId="Reader")
    parameter = reader["StackResourceDetail"]["PhysicalResourceId"]
    value = server.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    assert value == "is /new/one"
    # A resource that does not change has the attributes that it has.
    missing = asks("old", "/new/one").replace('"Thing", "/new/one"', '"Thing", "another"')
    with pytest.raises(ClientError, match="Requested attribute another does not exist in schema"):
        cfn.update_stack(StackName=name, TemplateBody=missing)


def test_a_failed_answer_fails_the_stack_with_its_reason(server: ServerProcess, name: str):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=body(Fail="Create"))
    assert settled(cfn, name) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("as it was told" in reason for reason in reasons)


def reasons(cfn: Any, name: str, status: str = "CREATE_FAILED") -> list[str]:
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return [e["ResourceStatusReason"] for e in events if e["ResourceStatus"] == status]


@pytest.mark.parametrize(
    ("function", "properties", "sentences"),
    [
        ("broken", {}, ["Runtime.ImportModuleError: Unable to import module 'nowhere'", "Its log ends: "]),
        ("custom", {"Raise": "Create"}, ["ValueError: as it was told", "about to raise"]),
        ("custom", {"Sleep": True}, ["Task timed out after 2.00 seconds"]),
        ("nobody", {}, ["Function not found"]),
    ],
)  # fmt: skip
def test_a_function_that_fails_before_it_answers_fails_the_stack(
    server: ServerProcess,
    name: str,
    function: str,
    properties: dict[str, Any],
    sentences: list[str],
):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=body(function, **properties))
    assert settled(cfn, name) == "ROLLBACK_COMPLETE"
    (reason,) = reasons(cfn, name)
    assert all(part in reason for part in sentences), reason
    assert "LAMBDA_WARNING" not in reason
    cfn.delete_stack(StackName=name)


@pytest.mark.parametrize(
    ("properties", "ended", "sentence"),
    [
        ({"Large": True}, "ROLLBACK_COMPLETE", "Response object is too long."),
        ({"Broken": True}, "ROLLBACK_COMPLETE", "nobody understood"),
        ({"Twice": True}, "CREATE_COMPLETE", ""),
        ({"Silent": True, "ServiceTimeout": 1}, "ROLLBACK_COMPLETE", "did not receive a response"),
    ],
)
def test_every_odd_answer_ends_the_operation(
    server: ServerProcess, name: str, properties: dict[str, Any], ended: str, sentence: str
):
    cfn = server.client("cloudformation")
    stack = cfn.create_stack(StackName=name, TemplateBody=body(**properties))["StackId"]
    assert settled(cfn, name) == ended
    assert all(sentence in reason for reason in reasons(cfn, name))
    cfn.delete_stack(StackName=name)
    assert settled(cfn, stack).startswith("DELETE")


def test_a_function_that_made_something_by_half_is_told_to_delete_it(
    server: ServerProcess, name: str
):
    told = server.data_dir.parent / f"{name}.told"
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=body(Fail="Create", Tell=str(told)))
    assert settled(cfn, name) == "ROLLBACK_COMPLETE"
    assert told.read_text().splitlines() == ["Create ", "Delete made-by-the-function"]


def test_a_function_that_fails_at_the_deletion_can_be_left_behind(server: ServerProcess, name: str):
    cfn = server.client("cloudformation")
    stack = cfn.create_stack(StackName=name, TemplateBody=body(Raise="Delete"))["StackId"]
    assert settled(cfn, name) == "CREATE_COMPLETE"
    cfn.delete_stack(StackName=name)
    assert settled(cfn, name) == "DELETE_FAILED"
    assert "ValueError: as it was told" in reasons(cfn, name, "DELETE_FAILED")[-1]
    cfn.delete_stack(StackName=name, RetainResources=["Thing"])
    assert settled(cfn, stack) == "DELETE_COMPLETE"


def test_a_stack_that_waits_for_an_answer_can_be_turned_round(server: ServerProcess, name: str):
    cfn = server.client("cloudformation")
    stack = cfn.create_stack(StackName=name, TemplateBody=body(Silent=True))["StackId"]
    assert cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "CREATE_IN_PROGRESS"
    cfn.delete_stack(StackName=name)
    assert settled(cfn, stack) == "DELETE_COMPLETE"
    cfn.create_stack(StackName=name, TemplateBody=body())
    assert settled(cfn, name) == "CREATE_COMPLETE"
    cfn.update_stack(StackName=name, TemplateBody=body(Silent=True))
    cfn.cancel_update_stack(StackName=name)
    # The rollback invokes the function too, and this time it answers.
    assert settled(cfn, name) == "UPDATE_ROLLBACK_COMPLETE"


def test_a_cloud_stops_although_a_custom_resource_never_answers(server: ServerProcess, name: str):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=body(Silent=True))
    assert cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "CREATE_IN_PROGRESS"
    server.stop()  # fails when the process does not end
    server.start()
    status = server.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    assert status["StackStatus"].startswith("ROLLBACK")


INLINE_PYTHON = """
import cfnresponse
def handler(event, context):
    cfnresponse.send(event, context, cfnresponse.SUCCESS, {"Answer": "42"}, "made")
"""
INLINE_NODE = """
var response = require('cfn-response');
exports.handler = function (event, context) {
  response.send(event, context, response.SUCCESS, { Answer: '42' }, 'made');
};
"""


@pytest.mark.parametrize(
    ("runtime", "code"), [("python3.12", INLINE_PYTHON), ("nodejs20.x", INLINE_NODE)]
)
def test_inline_code_answers_for_a_custom_resource(server: ServerProcess, runtime: str, code: str):
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": runtime,
            "Handler": "index.handler",
            "Role": "arn:aws:iam::000000000000:role/any",
            "Code": {"ZipFile": code},
        },
    }
    token = {"Fn::GetAtt": ["Function", "Arn"]}
    made = {"Type": "Custom::Made", "Properties": {"ServiceToken": token}}
    body = {
        **template(Function=function, Made=made),
        "Outputs": {"Answer": {"Value": {"Fn::GetAtt": ["Made", "Answer"]}}},
    }
    name = f"inline-{runtime.partition('.')[0]}"
    cfn: Any = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=json.dumps(body))
    assert settled(cfn, name) == "CREATE_COMPLETE"
    (stack,) = cfn.describe_stacks(StackName=name)["Stacks"]
    assert stack["Outputs"][0]["OutputValue"] == "42"
    resource = cfn.describe_stack_resource(StackName=name, LogicalResourceId="Made")
    assert resource["StackResourceDetail"]["PhysicalResourceId"] == "made"


PYTHON_CLIENTS = {
    "netloc": "c = http.client.HTTPSConnection(u.netloc); c.request('PUT', target, body); c.getresponse().read()",
    "hostname": "c = http.client.HTTPSConnection(u.hostname); c.request('PUT', target, body); c.getresponse().read()",
    "urllib": "urllib.request.urlopen(urllib.request.Request(url, body, method='PUT')).read()",
    "urllib3": "urllib3.PoolManager().request('PUT', url, body=body)",
    "urllib3-pool": "urllib3.HTTPSConnectionPool(u.hostname, u.port).request('PUT', target, body=body)",
    "requests": "requests.put(url, data=body).raise_for_status()",
    "curl": "subprocess.run(['curl', '-fsS', '-X', 'PUT', '--data-binary', '@-', url], input=body, check=True)",
}
PYTHON_ANSWER = """
import http.client, json, subprocess, urllib.parse, urllib.request, requests, urllib3
def handler(event, context):
    url = event["ResponseURL"]
    u = urllib.parse.urlsplit(url)
    target = u.path + ("?" + u.query if u.query else "")
    body = json.dumps({"Status": "SUCCESS", "PhysicalResourceId": "p", "Data": {"Scheme": u.scheme}}).encode()
    CALL
"""
NODE_CLIENTS = {
    "options": "send(https.request({hostname: u.hostname, path: u.pathname + u.search, method: 'PUT', headers}, done))",
    "options-port": "send(https.request({host: u.hostname, port: u.port, path: u.pathname, method, headers}, done))",
    "host": "send(https.request({host: u.hostname, path: u.pathname, method: 'PUT', headers}, done))",
    "host-with-port": "send(https.request({host: u.host, path: u.pathname, method: 'PUT', headers}, done))",
    "host-and-port": "send(https.request({host: u.host, port: u.port, path: u.pathname, method, headers}, done))",
    "port-443": "send(https.request({host: u.hostname, port: 443, path: u.pathname, method: 'PUT', headers}, done))",
    "text": "send(https.request(event.ResponseURL, {method: 'PUT', headers}, done))",
    "url": "send(https.request(u, {method: 'PUT', headers}, done))",
    "url-without-port": "send(https.request(`https://${u.hostname}${u.pathname}`, {method: 'PUT', headers}, done))",
    "agent": "send(https.request(u, {method: 'PUT', headers, agent: new https.Agent({keepAlive: true})}, done))",
    "fetch": "fetch(event.ResponseURL, {method: 'PUT', body}).then(done, fail)",
}
NODE_ANSWER = """
const https = require('https');
exports.handler = (event) => new Promise((done, fail) => {
  const u = new URL(event.ResponseURL);
  const body = JSON.stringify({Status: 'SUCCESS', PhysicalResourceId: 'p', Data: {Scheme: u.protocol.slice(0, -1)}});
  const method = 'PUT', headers = {'content-type': '', 'content-length': body.length};
  const send = (request) => { request.on('error', fail); request.end(body); };
  CALL;
});
"""


@pytest.mark.parametrize(
    ("runtime", "handler", "source", "call"),
    [
        pytest.param("python3.12", "index.handler", PYTHON_ANSWER, call, id=f"python-{name}")
        for name, call in PYTHON_CLIENTS.items()
    ]
    + [
        pytest.param("nodejs20.x", "index.handler", NODE_ANSWER, call, id=f"node-{name}")
        for name, call in NODE_CLIENTS.items()
    ],
)
def test_the_answer_s_url_works_with_any_client(
    server: ServerProcess,
    request: pytest.FixtureRequest,
    runtime: str,
    handler: str,
    source: str,
    call: str,
) -> None:
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": runtime,
            "Handler": handler,
            "Timeout": 30,
            "Role": "arn:aws:iam::000000000000:role/any",
            "Code": {"ZipFile": source.replace("CALL", call)},
        },
    }
    token = {"Fn::GetAtt": ["Function", "Arn"]}
    made = {"Type": "Custom::Made", "Properties": {"ServiceToken": token, "ServiceTimeout": 60}}
    body = {
        **template(Function=function, Made=made),
        "Outputs": {"Scheme": {"Value": {"Fn::GetAtt": ["Made", "Scheme"]}}},
    }
    name = f"any-{request.node.callspec.id}"
    cfn: Any = server.client("cloudformation")
    cfn.create_stack(StackName=name, TemplateBody=json.dumps(body))
    assert settled(cfn, name) == "CREATE_COMPLETE"
    (stack,) = cfn.describe_stacks(StackName=name)["Stacks"]
    # As on AWS: what looks at the scheme finds https.
    assert stack["Outputs"][0]["OutputValue"] == "https"
