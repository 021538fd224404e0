"""A function's log: its role makes the group and the stream, and needs the permissions of AWS's managed policies.

Source: docs.aws.amazon.com/lambda/latest/operatorguide/least-privilege.html and AWSLambdaBasicExecutionRole, which
grants all three (documented).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.permissions.decisions.explanations import policy_of
from tests.api.iam.test_services import make_function
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, make_role, refusal
from tests.support.server import wait_until

MANAGED = "arn:aws:iam::aws:policy/service-role/AWSLambda{}ExecutionRole"
GROUP, STREAM, PUT = "logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("logs"), iam="enforce") as cloud:
        yield cloud


def run(cloud: InProcessCloud, name: str, *actions: str) -> str:
    """Make a function with a role that may do these actions, invoke it, and return the role's ARN."""
    role = make_role(cloud, name, *([allow(list(actions), "*")] if actions else []))
    make_function(cloud, name, role)
    cloud.client("lambda").invoke(FunctionName=name)
    return role


def lines(cloud: InProcessCloud, name: str) -> list[str]:
    """Return the messages of a function's log, when its group exists."""
    logs = cloud.client("logs")
    groups = logs.describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{name}")["logGroups"]
    if not groups:
        return []
    found = logs.filter_log_events(logGroupName=groups[0]["logGroupName"])
    return [event["message"] for event in found["events"]]


def actions_of(cloud: InProcessCloud, role: str) -> set[str]:
    """Return the actions of the policy that `headrace iam policy` writes."""
    document = policy_of(cloud.cloud.decisions, role, ACCOUNT, REGION)["policy"]
    found: set[str] = set()
    for statement in document["Statement"]:
        action: Any = statement["Action"]
        found |= {action} if isinstance(action, str) else set(action)
    return found


def test_the_first_line_makes_the_group_and_the_stream_as_the_role(cloud: InProcessCloud):
    role = run(cloud, "all-three", GROUP, STREAM, PUT)
    wait_until(lambda: lines(cloud, "all-three"))
    assert actions_of(cloud, role) == {GROUP, STREAM, PUT}


def test_a_group_that_exists_needs_no_permission_to_make_one(cloud: InProcessCloud):
    cloud.client("logs").create_log_group(logGroupName="/aws/lambda/ready")
    role = run(cloud, "ready", STREAM, PUT)
    wait_until(lambda: lines(cloud, "ready"))
    assert actions_of(cloud, role) == {STREAM, PUT}


@pytest.mark.parametrize(
    ("name", "actions"),
    [("no-group", (STREAM, PUT)), ("no-stream", (GROUP, PUT)), ("no-put", (GROUP, STREAM))],
)
def test_without_one_of_the_three_nothing_is_logged(
    cloud: InProcessCloud, name: str, actions: tuple[str, ...]
):
    run(cloud, name, *actions)
    # What is logged later stands for the time that the lines had.
    run(cloud, f"after-{name}", GROUP, STREAM, PUT)
    wait_until(lambda: lines(cloud, f"after-{name}"))
    assert lines(cloud, name) == []
    denied = {entry.access.action for entry in cloud.cloud.decisions.entries() if entry.denied}
    assert {GROUP, STREAM, PUT} - set(actions) <= denied


@pytest.mark.parametrize("kind", ["Basic", "Kinesis", "SQSQueue", "DynamoDB"])
def test_the_written_policy_is_within_aws_s_managed_one_for_the_same_work(
    cloud: InProcessCloud, kind: str
):
    name, iam = f"managed-{kind.lower()}", cloud.client("iam")
    role = make_role(cloud, name)
    iam.attach_role_policy(RoleName=name, PolicyArn=MANAGED.format(kind))
    make_function(cloud, name, role)
    if source := make_source(cloud, kind, name):
        start = {} if kind == "SQSQueue" else {"StartingPosition": "TRIM_HORIZON"}
        cloud.client("lambda").create_event_source_mapping(
            FunctionName=name, EventSourceArn=source, **start
        )
    else:
        cloud.client("lambda").invoke(FunctionName=name)
    wait_until(lambda: lines(cloud, name))
    version = iam.get_policy(PolicyArn=MANAGED.format(kind))["Policy"]["DefaultVersionId"]
    found = iam.get_policy_version(PolicyArn=MANAGED.format(kind), VersionId=version)
    policy: Any = found["PolicyVersion"]["Document"]
    granted = set(policy["Statement"][0]["Action"])
    assert actions_of(cloud, role) <= granted
    assert granted - actions_of(cloud, role) <= NOT_NEEDED


# What the managed policies grant beside what polling asks for: consumers' permissions, and lists for Lambda's console.
NOT_NEEDED = {
    "kinesis:DescribeStreamSummary", "kinesis:ListShards", "kinesis:SubscribeToShard",
    "kinesis:ListStreams", "dynamodb:ListStreams",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reads", "may"),
    [
        ("stream", ["GetRecords", "GetShardIterator", "DescribeStream", "ListStreams"], True),
        ("consumer", ["GetRecords", "GetShardIterator", "DescribeStreamSummary", "ListShards"], True),
        ("stream", ["GetRecords", "DescribeStream", "ListStreams"], False),
        ("consumer", ["GetRecords", "GetShardIterator", "ListShards"], False),
    ],
)  # fmt: skip
def test_the_roles_of_the_serverless_framework_may_read_their_sources(
    cloud: InProcessCloud, name: str, reads: list[str], may: bool
):
    # Observed: lib/plugins/aws/package/compile/events/stream.js of serverless 3.
    own = f"{name}-{'may' if may else 'may-not'}"
    arn = make_source(cloud, "Kinesis", own)
    statements = [allow([f"kinesis:{action}" for action in reads], arn)]
    if name == "consumer":
        made = cloud.client("kinesis").register_stream_consumer(StreamARN=arn, ConsumerName="c")
        statements.append(allow("kinesis:SubscribeToShard", made["Consumer"]["ConsumerARN"]))
        arn = made["Consumer"]["ConsumerARN"]
    make_function(cloud, own, make_role(cloud, own, *statements))
    create = cloud.client("lambda").create_event_source_mapping
    asked = {"FunctionName": own, "EventSourceArn": arn, "StartingPosition": "LATEST"}
    if may:
        create(**asked)
    else:
        assert refusal(create, **asked)[0] == "InvalidParameterValueException"


def make_source(cloud: InProcessCloud, kind: str, name: str) -> str:
    """Make an event source with one record, and return its ARN; "" for a function without one."""
    if kind == "Kinesis":
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName=name, ShardCount=1)
        kinesis.put_record(StreamName=name, Data=b"x", PartitionKey="k")
        return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"
    if kind == "SQSQueue":
        sqs = cloud.client("sqs")
        sqs.send_message(QueueUrl=sqs.create_queue(QueueName=name)["QueueUrl"], MessageBody="m")
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    if kind == "DynamoDB":
        dynamodb = cloud.client("dynamodb")
        table = dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        dynamodb.put_item(TableName=name, Item={"k": {"S": "1"}})
        return str(table["TableDescription"]["LatestStreamArn"])
    return ""
