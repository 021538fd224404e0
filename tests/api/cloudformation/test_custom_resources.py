"""Custom resources: told by an invocation, heard through a PUT to the cloud."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import settled, template
from tests.support.server import ServerProcess

HANDLER = """
import json, urllib.request

def handler(event, context):
    if event["ResourceProperties"].get("Silent") == "true":
        return
    failed = event["ResourceProperties"].get("Fail") == event["RequestType"]
    answer = {
        "Status": "FAILED" if failed else "SUCCESS",
        "Reason": "as it was told",
        "PhysicalResourceId": "made-by-the-function",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {"Seen": json.dumps(event["ResourceProperties"], sort_keys=True)},
    }
    request = urllib.request.Request(
        event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=10).read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", HANDLER)
        server.client("lambda").create_function(
            FunctionName="custom",
            Runtime="python3.13",
            Handler="index.handler",
            Role="arn:aws:iam::000000000000:role/r",
            Code={"ZipFile": packed.getvalue()},
        )
        yield server


def body(**properties: Any) -> str:
    token = "arn:aws:lambda:us-east-1:000000000000:function:custom"
    custom = {"Type": "Custom::Thing", "Properties": {"ServiceToken": token, **properties}}
    outputs = {"Seen": {"Value": {"Fn::GetAtt": ["Thing", "Seen"]}}}
    return json.dumps({**template(Thing=custom), "Outputs": outputs})


def test_scalars_are_texts_and_data_is_what_get_att_reads(server: ServerProcess):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName="s", TemplateBody=body(Number=1, Flag=True, Deep={"x": [2]}))
    assert settled(cfn, "s") == "CREATE_COMPLETE"
    output = cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"][0]["OutputValue"]
    seen = json.loads(output)
    assert (seen["Number"], seen["Flag"], seen["Deep"]) == ("1", "true", {"x": ["2"]})
    resource = cfn.describe_stack_resource(StackName="s", LogicalResourceId="Thing")
    assert resource["StackResourceDetail"]["PhysicalResourceId"] == "made-by-the-function"


def test_a_failed_answer_fails_the_stack_with_its_reason(server: ServerProcess):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName="s", TemplateBody=body(Fail="Create"))
    assert settled(cfn, "s") == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("as it was told" in reason for reason in reasons)


def test_a_cloud_stops_although_a_custom_resource_never_answers(server: ServerProcess):
    cfn = server.client("cloudformation")
    cfn.create_stack(StackName="s", TemplateBody=body(Silent=True))
    assert cfn.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"] == "CREATE_IN_PROGRESS"
    server.stop()  # fails when the process does not end
    server.start()
    status = server.client("cloudformation").describe_stacks(StackName="s")["Stacks"][0]
    assert status["StackStatus"].startswith("ROLLBACK")
