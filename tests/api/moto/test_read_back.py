"""Of services that stacks use and moto runs: every member that a call takes is read back, or it is said why not.

What moto drops is in the table that `scripts/dropped_members.py` writes. See `tests.support.read_back`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.iam.answers import moto_tables
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.read_back import Case, Read, check

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
EVERYBODY = {"Effect": "Allow", "Principal": "*", "Action": "kms:*", "Resource": "*"}
TRUST = {
    "Effect": "Allow",
    "Principal": {"Service": "lambda.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
TOKEN = {"ClientToken": "an idempotency token"}
QUEUE = {"QueueUrl": f"http://127.0.0.1:4566/{ACCOUNT}/q"}


def policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))


def of_key(operation: str, **more: Any) -> Read:
    """Return a read of the only key."""
    return operation, lambda client: {"KeyId": client.list_keys()["Keys"][0]["KeyId"], **more}


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


CASES: list[tuple[str, Case]] = [
    (
        "sns",
        Case(
            "CreateTopic",
            [
                ("GetTopicAttributes", {"TopicArn": TOPIC}),
                ("ListTagsForResource", {"ResourceArn": TOPIC}),
            ],
            given={
                "Name": "t",
                "Attributes": {"DisplayName": "d", "KmsMasterKeyId": "alias/aws/sns"},
            },
            unseen={"Name": "the end of its ARN"},
        ),
    ),
    (
        "sqs",
        Case(
            "CreateQueue",
            [
                ("GetQueueAttributes", {**QUEUE, "AttributeNames": ["All"]}),
                ("ListQueueTags", QUEUE),
            ],
            given={"QueueName": "q", "Attributes": {"DelaySeconds": "7", "VisibilityTimeout": "9"}},
            unseen={"QueueName": "the end of its URL"},
        ),
    ),
    (
        "logs",
        Case(
            "CreateLogGroup",
            [("DescribeLogGroups", {}), ("ListTagsLogGroup", {"logGroupName": "g"})],
            given={"logGroupName": "g"},
            without={"kmsKeyId": "the key must allow it: tests of keys"},
        ),
    ),
    (
        "events",
        Case(
            "PutRule",
            [
                ("DescribeRule", {"Name": "r"}),
                ("ListTagsForResource", {"ResourceARN": arn("events", "rule/r")}),
            ],
            given={
                "Name": "r",
                "EventBusName": "default",
                "ScheduleExpression": "rate(1 day)",
                "EventPattern": '{"source":["a"]}',
                "State": "DISABLED",
            },
        ),
    ),
    (
        "events",
        Case(
            "CreateEventBus",
            [
                ("DescribeEventBus", {"Name": "b"}),
                ("ListTagsForResource", {"ResourceARN": arn("events", "event-bus/b")}),
            ],
            given={"Name": "b"},
            without={"EventSourceName": "of partners only"},
        ),
    ),
    (
        "kms",
        Case(
            "CreateKey",
            [
                of_key("DescribeKey"),
                of_key("GetKeyPolicy", PolicyName="default"),
                of_key("ListResourceTags"),
            ],
            given={
                "Policy": policy(EVERYBODY),
                "KeyUsage": "ENCRYPT_DECRYPT",
                "KeySpec": "SYMMETRIC_DEFAULT",
                "CustomerMasterKeySpec": "SYMMETRIC_DEFAULT",
                "Origin": "AWS_KMS",
                "Tags": [{"TagKey": "a", "TagValue": "b"}],
            },
        ),
    ),
    (
        "ssm",
        Case(
            "PutParameter",
            [
                ("GetParameter", {"Name": "p"}),
                ("DescribeParameters", {}),
                ("ListTagsForResource", {"ResourceType": "Parameter", "ResourceId": "p"}),
            ],
            given={
                "Name": "p",
                "Type": "String",
                "AllowedPattern": ".*",
                "Tier": "Advanced",
                "DataType": "text",
                "Overwrite": False,
            },
            without={"Policies": "tests of parameters' policies"},
            named={"Tags": "TagList"},
            unseen={"Overwrite": "says what may be replaced"},
        ),
    ),
    (
        "secretsmanager",
        Case(
            "CreateSecret",
            [("DescribeSecret", {"SecretId": "s"}), ("GetSecretValue", {"SecretId": "s"})],
            given={"Name": "s", "SecretString": "x"},
            without={
                "KmsKeyId": "the key must be there",
                "SecretBinary": "SecretString is given",
                "AddReplicaRegions": "there is one Region",
                "ForceOverwriteReplicaSecret": "there is one Region",
                "ClientRequestToken": "an idempotency token",
            },
        ),
    ),
    (
        "cloudwatch",
        Case(
            "PutMetricAlarm",
            [
                ("DescribeAlarms", {}),
                ("ListTagsForResource", {"ResourceARN": arn("cloudwatch", "alarm:a")}),
            ],
            given={
                "AlarmName": "a",
                "MetricName": "m",
                "Namespace": "n",
                "Statistic": "Sum",
                "Period": 60,
                "ComparisonOperator": "GreaterThanThreshold",
                "Threshold": 1.0,
                "EvaluationPeriods": 2,
                "DatapointsToAlarm": 1,
                "EvaluateLowSampleCountPercentile": "ignore",
                "TreatMissingData": "breaching",
                "AlarmActions": [TOPIC],
                "OKActions": [TOPIC],
                "InsufficientDataActions": [TOPIC],
            },
            without={"Metrics": "one metric is given", "ExtendedStatistic": "Statistic is given"},
        ),
    ),
    (
        "dynamodb",
        Case(
            "CreateTable",
            [
                ("DescribeTable", {"TableName": "t"}),
                ("ListTagsOfResource", {"ResourceArn": arn("dynamodb", "table/t")}),
            ],
            given={
                "TableName": "t",
                "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
                "BillingMode": "PROVISIONED",
                "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
                "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
                "SSESpecification.KMSMasterKeyId": arn("kms", "key/1"),
            },
            without={
                "GlobalSecondaryIndexes": "tests of tables",
                "LocalSecondaryIndexes": "tests of tables",
                "ResourcePolicy": "tests/api/moto/test_resource_policies.py",
            },
            named={"SSESpecification.KMSMasterKeyId": "KMSMasterKeyArn"},
            unseen={
                "SSESpecification.Enabled": "shown as a status",
                "BillingMode": "PROVISIONED: a summary is shown on demand only; tests of tables",
            },
        ),
    ),
    (
        "ecr",
        Case(
            "CreateRepository",
            [
                ("DescribeRepositories", {}),
                ("ListTagsForResource", {"resourceArn": arn("ecr", "repository/r")}),
            ],
            given={"repositoryName": "r", "encryptionConfiguration": {"encryptionType": "AES256"}},
            without={"registryId": "the account's own"},
        ),
    ),
    (
        "iam",
        Case(
            "CreateRole",
            [("GetRole", {"RoleName": "r"})],
            given={
                "RoleName": "r",
                "Path": "/p/",
                "AssumeRolePolicyDocument": policy(TRUST),
                "PermissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess",
                "MaxSessionDuration": 3700,
            },
            named={"PermissionsBoundary": "PermissionsBoundaryArn"},
            unseen={"AssumeRolePolicyDocument": "boto3 shows it parsed"},
        ),
    ),
    (
        "stepfunctions",
        Case(
            "CreateStateMachine",
            [
                ("DescribeStateMachine", {"stateMachineArn": arn("states", "stateMachine:m")}),
                ("DescribeStateMachine", {"stateMachineArn": arn("states", "stateMachine:m:1")}),
                ("ListTagsForResource", {"resourceArn": arn("states", "stateMachine:m")}),
            ],
            given={
                "name": "m",
                "definition": '{"StartAt":"A","States":{"A":{"Type":"Succeed"}}}',
                "roleArn": ROLE,
                "type": "STANDARD",
            },
            without={"loggingConfiguration": "its log group must be there"},
            named={"versionDescription": "description"},
            unseen={"publish": "there is version 1"},
        ),
    ),
    (
        "scheduler",
        Case(
            "CreateSchedule",
            [("GetSchedule", {"Name": "s"})],
            given={
                "Name": "s",
                "GroupName": "default",
                "ScheduleExpression": "rate(1 day)",
                "ScheduleExpressionTimezone": "UTC",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {"Arn": arn("sqs", "q"), "RoleArn": ROLE, "Input": "x"},
            },
            unseen=TOKEN,
        ),
    ),
    (
        "apigatewayv2",
        Case(
            "CreateApi",
            [("GetApis", {})],
            given={"ProtocolType": "HTTP"},
            without=dict.fromkeys(
                ("Target", "RouteKey", "CredentialsArn"),
                "tests/api/apigateway/test_quick_create.py",
            ),
        ),
    ),
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("moto") / "data") as cloud:
        yield cloud


@pytest.mark.parametrize(
    ("service", "case"), CASES, ids=[f"{service} {case.operation}" for service, case in CASES]
)
def test_what_a_call_takes_is_read_back(cloud: InProcessCloud, service: str, case: Case):
    table = moto_tables().get(service, {})
    assert check(service, case, cloud.client(service), table) == []


def test_an_update_says_what_follows_the_end_of_a_schedule(cloud: InProcessCloud):
    client = cloud.client("scheduler")
    asked = {
        "Name": "ends",
        "ScheduleExpression": "rate(1 day)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": arn("sqs", "q"), "RoleArn": ROLE},
    }
    client.create_schedule(**asked)
    shown = [client.get_schedule(Name="ends")["ActionAfterCompletion"]]
    for more in ({"ActionAfterCompletion": "DELETE"}, {}):
        client.update_schedule(**asked, **more)
        shown.append(client.get_schedule(Name="ends")["ActionAfterCompletion"])
    assert shown == ["NONE", "DELETE", "NONE"]


def test_what_moto_keeps_is_shown(cloud: InProcessCloud):
    cloudfront = cloud.client("cloudfront")
    config = {"CallerReference": "r", "Name": "k", "EncodedKey": "e\n", "Comment": "of a key"}
    key = cloudfront.create_public_key(PublicKeyConfig=config)["PublicKey"]
    config = {"Name": "g", "Items": [key["Id"]], "Comment": "of a group"}
    group = cloudfront.create_key_group(KeyGroupConfig=config)["KeyGroup"]
    key = cloudfront.get_public_key(Id=key["Id"])["PublicKey"]
    group = cloudfront.get_key_group(Id=group["Id"])["KeyGroup"]
    comments = [key["PublicKeyConfig"]["Comment"], group["KeyGroupConfig"]["Comment"]]
    assert comments == ["of a key", "of a group"]

    cache = cloud.client("elasticache")
    cache.create_cache_cluster(
        CacheClusterId="c",
        Engine="redis",
        CacheNodeType="cache.t3.micro",
        NumCacheNodes=1,
        CacheParameterGroupName="p",
        SecurityGroupIds=["sg-1"],
        NotificationTopicArn=TOPIC,
    )
    (cluster,) = cache.describe_cache_clusters(CacheClusterId="c")["CacheClusters"]
    assert cluster["CacheParameterGroup"]["CacheParameterGroupName"] == "p"
    assert cluster["SecurityGroups"] == [{"SecurityGroupId": "sg-1", "Status": "active"}]
    assert cluster["NotificationConfiguration"] == {"TopicArn": TOPIC, "TopicStatus": "active"}

    iam = cloud.client("iam")
    iam.create_user(UserName="u")
    asked = {"UserName": "u", "Password": "Passw0rd!", "PasswordResetRequired": True}
    assert iam.create_login_profile(**asked)["LoginProfile"]["PasswordResetRequired"] is True
    assert iam.get_login_profile(UserName="u")["LoginProfile"]["PasswordResetRequired"] is True

    glue = cloud.client("glue")
    glue.create_connection(
        ConnectionInput={
            "Name": "c",
            "ConnectionType": "JDBC",
            "ConnectionProperties": {},
            "MatchCriteria": ["a"],
            "AuthenticationConfiguration": {
                "AuthenticationType": "BASIC",
                "BasicAuthenticationCredentials": {"Username": "u", "Password": "p"},
            },
        }
    )
    connection = glue.get_connection(Name="c")["Connection"]
    assert (connection["ConnectionType"], connection["MatchCriteria"]) == ("JDBC", ["a"])
    assert connection["AuthenticationConfiguration"] == {"AuthenticationType": "BASIC"}
    federated = {"Identifier": "i", "ConnectionName": "c"}
    glue.create_database(DatabaseInput={"Name": "d", "FederatedDatabase": federated})
    assert glue.get_database(Name="d")["Database"]["FederatedDatabase"] == federated


def test_strict_refuses_what_moto_drops(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("strict") / "data"
    with InProcessCloud(folder, strict=True) as cloud:
        pools = cloud.client("cognito-identity")
        pool = {"IdentityPoolName": "p", "AllowUnauthenticatedIdentities": True}
        with pytest.raises(pools.exceptions.ClientError, match="AllowClassicFlow"):
            pools.create_identity_pool(**pool, AllowClassicFlow=True)
        pools.create_identity_pool(**pool, AllowClassicFlow=False)
