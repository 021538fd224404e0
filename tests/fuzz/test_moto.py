"""moto's services under random requests, through headrace: AWS's refusals, never a 500.

The operations that pipelines use; 1,000 requests each with `--nightly`, none in the default suite, where
`tests/unit/moto/test_refusals.py` has an example of each kind of refusal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpResponse
from tests.fuzz.conftest import cloud_scope
from tests.fuzz.requests import Requests
from tests.fuzz.sending import check_answer, model_of, request_of
from tests.fuzz.upkeep import Caller, Upkeep
from tests.support.clock import FakeClock
from tests.support.moto_lab import MotoLab

REQUESTS = 10
NIGHTLY_REQUESTS = 1_000
PUT_RIGHT_EVERY = 50
AT = "us-east-1:000000000000"
QUEUE = f"arn:aws:sqs:{AT}:q"
TOPIC = f"arn:aws:sns:{AT}:t"
ROLE = "arn:aws:iam::000000000000:role/r"
TRUST = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}]}'
ALLOW = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'

# Service -> what signatures call it, and its operations; those that wait for something are not among them.
USED: dict[str, tuple[str, str]] = {
    "sqs": (
        "sqs",
        ("CreateQueue DeleteQueue GetQueueAttributes SetQueueAttributes GetQueueUrl ListQueues SendMessage"
        " SendMessageBatch ReceiveMessage DeleteMessage DeleteMessageBatch ChangeMessageVisibility PurgeQueue TagQueue"
        " UntagQueue ListQueueTags ListDeadLetterSourceQueues AddPermission RemovePermission"),
    ),
    "sns": (
        "sns",
        ("CreateTopic DeleteTopic GetTopicAttributes SetTopicAttributes ListTopics Subscribe Unsubscribe Publish"
        " PublishBatch ListSubscriptions ListSubscriptionsByTopic SetSubscriptionAttributes GetSubscriptionAttributes"
        " TagResource UntagResource ListTagsForResource ConfirmSubscription"),
    ),
    "dynamodb": (
        "dynamodb",
        ("CreateTable DeleteTable DescribeTable UpdateTable ListTables PutItem GetItem UpdateItem DeleteItem Query Scan"
        " BatchGetItem BatchWriteItem TransactGetItems TransactWriteItems UpdateTimeToLive DescribeTimeToLive"
        " TagResource UntagResource ListTagsOfResource ExecuteStatement DescribeContinuousBackups"),
    ),
    "dynamodbstreams": ("dynamodb", "ListStreams DescribeStream GetShardIterator GetRecords"),
    "iam": (
        "iam",
        ("CreateRole GetRole DeleteRole UpdateRole ListRoles PutRolePolicy GetRolePolicy DeleteRolePolicy"
        " ListRolePolicies AttachRolePolicy DetachRolePolicy ListAttachedRolePolicies CreatePolicy GetPolicy"
        " DeletePolicy CreatePolicyVersion GetPolicyVersion ListPolicies CreateUser GetUser DeleteUser CreateAccessKey"
        " ListAccessKeys DeleteAccessKey CreateInstanceProfile AddRoleToInstanceProfile SimulateCustomPolicy"
        " UpdateAssumeRolePolicy TagRole UntagRole"),
    ),
    "sts": (
        "sts",
        "AssumeRole AssumeRoleWithWebIdentity AssumeRoleWithSAML GetCallerIdentity GetSessionToken GetFederationToken",
    ),
    "events": (
        "events",
        ("PutRule DeleteRule DescribeRule ListRules EnableRule DisableRule PutTargets RemoveTargets ListTargetsByRule"
        " PutEvents CreateEventBus DeleteEventBus DescribeEventBus ListEventBuses TestEventPattern CreateArchive"
        " TagResource UntagResource ListTagsForResource PutPermission"),
    ),
    "logs": (
        "logs",
        ("CreateLogGroup DeleteLogGroup DescribeLogGroups CreateLogStream DeleteLogStream DescribeLogStreams"
        " PutLogEvents GetLogEvents FilterLogEvents PutRetentionPolicy DeleteRetentionPolicy PutSubscriptionFilter"
        " DescribeSubscriptionFilters PutMetricFilter DescribeMetricFilters TagLogGroup"),
    ),
    "ssm": (
        "ssm",
        ("PutParameter GetParameter GetParameters GetParametersByPath DeleteParameter DeleteParameters"
        " DescribeParameters GetParameterHistory LabelParameterVersion AddTagsToResource ListTagsForResource"),
    ),
    "glue": (
        "glue",
        ("CreateDatabase GetDatabase GetDatabases UpdateDatabase DeleteDatabase CreateTable GetTable GetTables"
        " UpdateTable DeleteTable CreatePartition GetPartition GetPartitions UpdatePartition DeletePartition"
        " BatchCreatePartition BatchGetPartition BatchDeletePartition GetTableVersions CreateRegistry CreateSchema"),
    ),
    "secretsmanager": (
        "secretsmanager",
        ("CreateSecret GetSecretValue PutSecretValue UpdateSecret DeleteSecret DescribeSecret ListSecrets RestoreSecret"
        " TagResource"),
    ),
    "kms": (
        "kms",
        ("CreateKey DescribeKey ListKeys Encrypt Decrypt GenerateDataKey CreateAlias ListAliases DeleteAlias"
        " EnableKey DisableKey ScheduleKeyDeletion PutKeyPolicy GetKeyPolicy"),
    ),
    "cloudwatch": (
        "monitoring",
        ("PutMetricData GetMetricData GetMetricStatistics ListMetrics PutMetricAlarm DescribeAlarms DeleteAlarms"
        " SetAlarmState PutDashboard GetDashboard"),
    ),
    "stepfunctions": (
        "states",
        ("CreateStateMachine DescribeStateMachine DeleteStateMachine ListStateMachines UpdateStateMachine"
        " StartExecution DescribeExecution ListExecutions StopExecution GetExecutionHistory"),
    ),
    "scheduler": (
        "scheduler",
        ("CreateSchedule GetSchedule UpdateSchedule DeleteSchedule ListSchedules CreateScheduleGroup GetScheduleGroup"
        " DeleteScheduleGroup ListScheduleGroups"),
    ),
    "pipes": ("pipes", "CreatePipe DescribePipe UpdatePipe DeletePipe ListPipes StartPipe StopPipe"),
}  # fmt: skip
CASES = [(service, name) for service in USED for name in sorted(USED[service][1].split())]


def one_of(*values: Any) -> Callable[[Random], Any]:
    """Return what chooses one of `values`."""
    return lambda random: random.choice(values)


_KEY = {"k": {"S": "a"}}
KNOWN: dict[str, Callable[[Random], Any]] = {
    "QueueName": one_of("q", "none", "x.fifo"),
    "QueueUrl": one_of("http://127.0.0.1:4566/000000000000/q", "http://none/1/none"),
    "TopicArn": one_of(TOPIC, "no ARN"),
    "TargetArn": one_of(None, TOPIC),
    "PhoneNumber": one_of(None),
    "Protocol": one_of("sqs", "none"),
    "Endpoint": one_of(QUEUE, "x"),
    "TableName": one_of("t", "t", "none"),
    "Key": one_of(_KEY, {"k": {"N": "x"}}, {"z": {"S": "a"}}),
    "Item": one_of(_KEY, {"k": {"S": "a"}, "n": {"N": "1"}}, {"n": {"N": "x"}}),
    "KeyConditionExpression": one_of("k = :a", "k = ", "begins_with(k, :a)"),
    "FilterExpression": one_of("n > :a", "n >", "((("),
    "UpdateExpression": one_of("SET n = :a", "ADD n :a", "SET", "REMOVE #n"),
    "ConditionExpression": one_of("attribute_not_exists(k)", "k <> :a", "(", "a IN ()"),
    "ProjectionExpression": one_of("k", "k, #n", ",", "a[x]"),
    "ExpressionAttributeValues": one_of({":a": {"S": "a"}}, {":a": {"N": "1"}}, {}, {"a": {"S": "a"}}),
    "ExpressionAttributeNames": one_of({"#n": "n"}, {}, {"n": "n"}),
    "Statement": one_of('select * from "t"', "no PartiQL", "insert into t value {'k': 'b'}"),
    "RoleName": one_of("r", "none"),
    "RoleArn": one_of(ROLE, "no ARN"),
    "PolicyName": one_of("p"),
    "PolicyArn": one_of("arn:aws:iam::000000000000:policy/p", "arn:aws:iam::aws:policy/ReadOnlyAccess"),
    "PolicyDocument": one_of(ALLOW, "{}", "no JSON", "[]"),
    "AssumeRolePolicyDocument": one_of(TRUST, "{}", "no JSON", "[]"),
    "PolicyInputList": one_of([ALLOW], ["{}"]),
    "Policy": one_of(ALLOW, "{}", "no JSON"),
    "UserName": one_of("u", "none"),
    "RoleSessionName": one_of("s", "a b"),
    "SAMLAssertion": one_of(base64.b64encode(b"<a/>").decode(), "aaaa", "<"),
    "EventPattern": one_of('{"source":["a"]}', "{", "[]", '{"a":1}', '{"a":[{"x":1}]}'),
    "Event": one_of('{"source":"a"}', "{", "[]"),
    "ScheduleExpression": one_of("rate(1 minute)", "cron(0 0 * * ? *)", "rate(x)", "at(2030-01-01T00:00:00)", ""),
    "Rule": one_of("rule", "none"),
    "EventBusName": one_of("default", "none"),
    "Detail": one_of("{}", "no JSON", "[]"),
    "logGroupName": one_of("g", "none"),
    "logStreamName": one_of("s", "none"),
    "filterPattern": one_of("", "error", "{ $.a = 1 }", "{ $.", "[a, b"),
    "logEvents": one_of([], [{"timestamp": 1_700_000_000_000, "message": "m"}]),
    "Name": one_of("a", "/a/b", "rule", "none"),
    "Names": one_of(["a"], []),
    "Path": one_of("/", "/a", "a"),
    "DatabaseName": one_of("d", "none"),
    "Expression": one_of("p = 'a'", "p >", "(", "p in ('a')", "p between 1 and 2"),
    "PartitionValues": one_of(["a"], []),
    "SecretId": one_of("secret", "none"),
    "KeyId": one_of("alias/a", "none", "arn:aws:kms:us-east-1:000000000000:key/none"),
    "CiphertextBlob": one_of(b"", b"x", b"\0" * 60),
    "MetricName": one_of("m"),
    "Namespace": one_of("n", "AWS/n"),
    "Period": one_of(60, 0, 61),
    "definition": one_of('{"StartAt":"A","States":{"A":{"Type":"Pass","End":true}}}', "{", "[]", '{"States":1}'),
    "stateMachineArn": one_of(f"arn:aws:states:{AT}:stateMachine:m", "no ARN"),
    "executionArn": one_of(f"arn:aws:states:{AT}:execution:m:e", "no ARN"),
    "roleArn": one_of(ROLE, "no ARN"),
    "input": one_of("{}", "no JSON"),
    "WaitTimeSeconds": one_of(0),
    "NextToken": one_of(None, "x", "MQ=="),
    "nextToken": one_of(None, "x", "MQ=="),
    "ResourceArn": one_of(TOPIC, QUEUE, f"arn:aws:dynamodb:{AT}:table/t", "no ARN"),
    "ResourceARN": one_of(f"arn:aws:events:{AT}:rule/rule", "no ARN"),
    "StreamArn": one_of(f"arn:aws:dynamodb:{AT}:table/t/stream/x", "no ARN"),
    "ShardIterator": one_of("x", f"arn:aws:dynamodb:{AT}:table/t/stream/x|1|x"),
}  # fmt: skip


class Target:
    """moto's services with something of each kind, made again after requests that deleted it."""

    def __init__(self, lab: MotoLab) -> None:
        self.lab = lab
        self._callers = {
            service: Caller(service, scope, lab.handle) for service, (scope, _) in USED.items()
        }

    def put_right(self) -> None:
        """Make what is not there."""
        client = self._callers.__getitem__
        for make in (
            lambda: client("sqs").create_queue(QueueName="q"),
            lambda: client("sns").create_topic(Name="t"),
            lambda: client("dynamodb").create_table(
                TableName="t",
                AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            ),
            lambda: client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST),
            lambda: client("iam").create_policy(PolicyName="p", PolicyDocument=ALLOW),
            lambda: client("iam").create_user(UserName="u"),
            lambda: client("events").put_rule(Name="rule", EventPattern='{"source":["a"]}'),
            lambda: client("logs").create_log_group(logGroupName="g"),
            lambda: client("logs").create_log_stream(logGroupName="g", logStreamName="s"),
            lambda: client("ssm").put_parameter(Name="a", Value="v", Type="String"),
            lambda: client("glue").create_database(DatabaseInput={"Name": "d"}),
            lambda: client("glue").create_table(
                DatabaseName="d",
                TableInput={"Name": "a", "PartitionKeys": [{"Name": "p", "Type": "string"}]},
            ),
            lambda: client("secretsmanager").create_secret(Name="secret", SecretString="s"),
            lambda: client("stepfunctions").create_state_machine(
                name="m", definition=KNOWN["definition"](Random(1)), roleArn=ROLE
            ),
        ):
            try:
                make()
            except ClientError:
                continue  # it is there

    def send(
        self, service: str, operation: str, params: dict[str, Any], random: Random
    ) -> HttpResponse | None:
        """Send an input; None for what no client can send."""
        sent = request_of(service, operation, params, random, USED[service][0])
        return None if sent is None else self.lab.handle(sent)


@pytest.fixture(scope=cloud_scope)
def target(place: Path) -> Iterator[Target]:
    with MotoLab(Path(mkdtemp(dir=place)) / "data", clock=FakeClock()) as lab:
        yield Target(lab)


@pytest.mark.slow
@pytest.mark.parametrize(("service", "operation"), CASES)
def test_no_request_breaks_an_operation(
    target: Target, service: str, operation: str, how_many: Callable[[int, int], int], seed: int
):
    upkeep = Upkeep(operation, PUT_RIGHT_EVERY, target.put_right)
    made = Requests(f"{service}-{operation}-{seed}", KNOWN)
    for number in range(how_many(REQUESTS, NIGHTLY_REQUESTS)):
        upkeep.before(number)
        params = made.of(model_of(service).operation_model(operation))
        answer = (
            target.send(service, operation, params, made.random)
            if isinstance(params, dict)
            else None
        )
        if answer is not None:
            upkeep.after(answer.status)
        if answer is None:
            continue
        try:
            check_answer(service, operation, answer)
        except Exception as error:
            raise AssertionError(
                f"{operation} {number}: {json.dumps(params, default=str)}"
            ) from error
