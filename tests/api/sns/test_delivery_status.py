"""A topic's feedback attributes are shown, and deliveries are logged by them.

Documented: https://docs.aws.amazon.com/sns/latest/dg/topics-attrib.html.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/feedback"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
NO_FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:none"
GROUP = f"sns/{REGION}/{ACCOUNT}/t"


def test_deliveries_are_logged_as_the_topic_says(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        sns, logs = cloud.client("sns"), cloud.client("logs")
        cloud.client("sqs").create_queue(QueueName="q")
        given = {"SQSSuccessFeedbackRoleArn": ROLE, "SQSSuccessFeedbackSampleRate": "100"}
        topic = sns.create_topic(Name="t", Attributes=given)["TopicArn"]
        failing = {"LambdaFailureFeedbackRoleArn": ROLE}
        sns.set_topic_attributes(
            TopicArn=topic, AttributeName="LambdaFailureFeedbackRoleArn", AttributeValue=ROLE
        )
        shown = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
        assert shown.items() >= {**given, **failing}.items()
        for protocol, endpoint in (("sqs", QUEUE), ("lambda", NO_FUNCTION)):
            sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
        message_id = sns.publish(TopicArn=topic, Message="m")["MessageId"]

        def logged(group: str) -> Any:
            try:
                events = logs.filter_log_events(logGroupName=group)["events"]
            except ClientError:
                return None
            return [json.loads(event["message"]) for event in events]

        (success,) = wait_until(lambda: logged(GROUP), what="the success")
        assert success["status"] == "SUCCESS"
        assert success["notification"]["messageId"] == message_id
        assert success["delivery"]["destination"] == QUEUE
        assert json.loads(success["delivery"]["providerResponse"]).keys() == {"sqsRequestId"}
        (failure,) = wait_until(lambda: logged(f"{GROUP}/Failure"), what="the failure")
        assert (failure["status"], failure["delivery"]["destination"]) == ("FAILURE", NO_FUNCTION)
        assert "does not exist" in failure["delivery"]["providerResponse"]


@pytest.mark.parametrize("attributes", [{}, {"SQSSuccessFeedbackRoleArn": ROLE}])
def test_nothing_is_logged_that_nobody_asks_for(tmp_path: Path, attributes: dict[str, str]):
    with InProcessCloud(tmp_path / "data") as cloud:
        sns, logs = cloud.client("sns"), cloud.client("logs")
        cloud.client("sqs").create_queue(QueueName="q")
        asked = {"SQSSuccessFeedbackRoleArn": ROLE, "SQSSuccessFeedbackSampleRate": "100"}
        topics = [
            sns.create_topic(Name=name, Attributes=given)["TopicArn"]
            for name, given in (("silent", attributes), ("t", asked))
        ]
        for topic in topics:
            sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE)
            sns.publish(TopicArn=topic, Message="m")
        groups = wait_until(lambda: logs.describe_log_groups()["logGroups"], what="the log")
        assert [group["logGroupName"] for group in groups] == [GROUP]


def test_a_stack_says_what_is_logged(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        stacks, sns = cloud.client("cloudformation"), cloud.client("sns")

        def deploy(call: Any, logging: list[dict[str, str]]) -> dict[str, str]:
            properties = {"TopicName": "t", "DeliveryStatusLogging": logging}
            topic = {"Type": "AWS::SNS::Topic", "Properties": properties}
            call(StackName="s", TemplateBody=json.dumps({"Resources": {"T": topic}}))
            wait_until(lambda: status() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), what="the stack")
            arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
            shown = sns.get_topic_attributes(TopicArn=arn)["Attributes"]
            return {name: value for name, value in shown.items() if "Feedback" in name}

        def status() -> str:
            return stacks.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"]

        both = {"SuccessFeedbackRoleArn": ROLE, "SuccessFeedbackSampleRate": "5"}
        assert deploy(stacks.create_stack, [{"Protocol": "http/s", **both}]) == {
            "HTTPSuccessFeedbackRoleArn": ROLE,
            "HTTPSuccessFeedbackSampleRate": "5",
        }
        failures = {"Protocol": "sqs", "FailureFeedbackRoleArn": ROLE}
        assert deploy(stacks.update_stack, [failures]) == {"SQSFailureFeedbackRoleArn": ROLE}
