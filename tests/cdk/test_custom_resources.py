"""CDK's own custom resources on a cloud: made, changed and deleted; what their functions do is seen at the services.

The functions are CDK's, for Node.js and Python: they need the AWS SDK for JavaScript, which npm installs.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment
from aws_cdk import aws_s3_notifications as notifications
from aws_cdk import aws_sqs as sqs
from aws_cdk import custom_resources as cr
from aws_cdk import triggers

from headrace.services.lambda_.runtime import namespaces
from tests.support.server import ServerProcess, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"),
]

ASSETS = "cdk-hnb659fds-assets-000000000000-us-east-1"
ANSWERS = """
def handler(event, context):
    return {"PhysicalResourceId": "one", "Data": {"Said": "v" + event["ResourceProperties"]["Version"]}}
"""
COMPLETES = """
ASKED = []
def handler(event, context):
    ASKED.append(event["RequestType"])
    if event["RequestType"] == "Delete" or len(ASKED) > 2:
        return {"IsComplete": True}
    return {"IsComplete": False}
"""
TRIGGERED = """
import boto3, os
def handler(event, context):
    boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE"], MessageBody=os.environ["VERSION"])
"""


def build(outdir: Path, version: str, *, deploys: bool) -> None:
    """Write an app of one stack with a custom resource of each kind."""
    context = {"@aws-cdk/customresources:installLatestAwsSdkDefault": False}
    app = cdk.App(outdir=str(outdir), analytics_reporting=False, context=context)
    env = cdk.Environment(account="000000000000", region="us-east-1")
    stack = cdk.Stack(app, "custom", env=env)
    python = {"runtime": lambda_.Runtime.PYTHON_3_13, "handler": "index.handler"}
    bucket = s3.Bucket(
        stack,
        "Bucket",
        bucket_name="site",
        auto_delete_objects=True,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    queue = sqs.Queue(stack, "Queue", queue_name="told")
    bucket.add_event_notification(
        s3.EventType.OBJECT_CREATED,
        cast("Any", notifications.SqsDestination(queue)),
        s3.NotificationKeyFilter(prefix="in/"),
    )
    if deploys:
        source = deployment.Source.json_data("conf.json", {"version": version})
        deployment.BucketDeployment(
            stack, "Deployment", sources=[source], destination_bucket=bucket, prune=False
        )
    call = cr.AwsSdkCall(
        service="SSM",
        action="putParameter",
        parameters={"Name": "/v", "Value": version, "Type": "String", "Overwrite": True},
        physical_resource_id=cr.PhysicalResourceId.of("v"),
    )
    anything = cr.AwsCustomResourcePolicy.from_sdk_calls(resources=["*"])
    cr.AwsCustomResource(stack, "Sdk", on_update=call, policy=anything)
    answers = lambda_.Function(
        stack,
        "Answers",
        code=lambda_.Code.from_inline(ANSWERS),
        log_retention=logs.RetentionDays.ONE_WEEK,
        **python,
    )
    provider = cr.Provider(stack, "Provider", on_event_handler=cast("Any", answers))
    made = cdk.CustomResource(
        stack, "Made", service_token=provider.service_token, properties={"Version": version}
    )
    cdk.CfnOutput(stack, "Said", value=made.get_att_string("Said"))
    completes = lambda_.Function(
        stack, "Completes", code=lambda_.Code.from_inline(COMPLETES), **python
    )
    # Its waiter is a state machine, which asks until the function says that it is complete.
    waiting = cr.Provider(
        stack,
        "Waiting",
        on_event_handler=cast("Any", answers),
        is_complete_handler=cast("Any", completes),
        query_interval=cdk.Duration.seconds(1),
    )
    waited = cdk.CustomResource(
        stack, "Waited", service_token=waiting.service_token, properties={"Version": version}
    )
    cdk.CfnOutput(stack, "WaitedFor", value=waited.get_att_string("Said"))
    events = sqs.Queue(stack, "Events", queue_name="triggered")
    trigger = triggers.TriggerFunction(
        stack,
        "Trigger",
        code=lambda_.Code.from_inline(TRIGGERED),
        environment={"QUEUE": events.queue_url, "VERSION": version},
        **python,
    )
    events.grant_send_messages(trigger)
    app.synth()


class Deployer:
    """Publishes an app's assets and runs its stack, as the CDK CLI does, on one cloud."""

    def __init__(self, server: ServerProcess, place: Path) -> None:
        self.server, self.place = server, place
        self.cfn, self.s3 = server.client("cloudformation"), server.client("s3")
        self.s3.create_bucket(Bucket=ASSETS)
        server.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        probe = namespaces.Namespaces(place / "probe")
        # BucketDeployment's AWS CLI looks for Python where functions have it behind walls.
        self.deploys = probe.view() is not None
        probe.close()

    def deploy(self, version: str) -> str:
        outdir = self.place / f"out-{version}"
        build(outdir, version, deploys=self.deploys)
        for asset in json.loads((outdir / "custom.assets.json").read_text())["files"].values():
            self._publish(outdir, asset)
        run = self.cfn.create_stack if version == "1" else self.cfn.update_stack
        run(
            StackName="custom",
            TemplateURL=f"{self.server.endpoint_url}/{ASSETS}/template.json",
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        return self.settled()

    def _publish(self, outdir: Path, asset: dict[str, Any]) -> None:
        source = outdir / asset["source"]["path"]
        key = next(iter(asset["destinations"].values()))["objectKey"]
        if source.is_dir():
            buffer = BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for path in source.rglob("*"):
                    archive.write(path, path.relative_to(source))
            body = buffer.getvalue()
        else:
            body = source.read_bytes()
        if source.name == "custom.template.json":
            key = "template.json"
        self.s3.put_object(Bucket=ASSETS, Key=key, Body=body)

    def settled(self) -> str:
        def status() -> str:
            return str(self.cfn.describe_stacks(StackName="custom")["Stacks"][0]["StackStatus"])

        wait_until(lambda: not status().endswith("_IN_PROGRESS"), what="the stack", within_s=240)
        return status()

    def failures(self) -> list[str]:
        events = self.cfn.describe_stack_events(StackName="custom")["StackEvents"]
        return [
            e.get("ResourceStatusReason", "") for e in events if "FAILED" in e["ResourceStatus"]
        ]

    def received(self, queue: str) -> list[str]:
        sqs_client = self.server.client("sqs")
        url = sqs_client.get_queue_url(QueueName=queue)["QueueUrl"]
        found = sqs_client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in found.get("Messages", []):
            sqs_client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in found.get("Messages", [])]


@pytest.fixture
def deployer(tmp_path: Path) -> Iterator[Deployer]:
    with ServerProcess(tmp_path / "data") as server:
        yield Deployer(server, tmp_path)


def test_cdks_custom_resources_are_made_changed_and_deleted(deployer: Deployer) -> None:
    server = deployer.server
    for version in ("1", "2"):
        done = "CREATE_COMPLETE" if version == "1" else "UPDATE_COMPLETE"
        assert deployer.deploy(version) == done, deployer.failures()
        outputs = deployer.cfn.describe_stacks(StackName="custom")["Stacks"][0]["Outputs"]
        assert {one["OutputKey"]: one["OutputValue"] for one in outputs}["Said"] == f"v{version}"
        for machine in server.client("stepfunctions").list_state_machines()["stateMachines"]:
            waits = server.client("stepfunctions").list_executions(
                stateMachineArn=machine["stateMachineArn"]
            )["executions"]
            assert [each["status"] for each in waits] == ["SUCCEEDED"] * int(version)
        assert server.client("ssm").get_parameter(Name="/v")["Parameter"]["Value"] == version
        assert deployer.received("triggered") == [version]
        if deployer.deploys:
            stored = deployer.s3.get_object(Bucket="site", Key="conf.json")["Body"].read()
            assert json.loads(stored) == {"version": version}
    groups = server.client("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/")
    assert 7 in [group.get("retentionInDays") for group in groups["logGroups"]]
    deployer.received("told")
    deployer.s3.put_object(Bucket="site", Key="in/x", Body=b"1")
    wait_until(lambda: any("in/x" in body for body in deployer.received("told")), what="a notice")
    # The bucket is not empty: CDK's function empties it first.
    deployer.cfn.delete_stack(StackName="custom")
    stack_gone = deployer.cfn.get_waiter("stack_delete_complete")
    stack_gone.wait(StackName="custom", WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    assert "site" not in [one["Name"] for one in deployer.s3.list_buckets()["Buckets"]]
