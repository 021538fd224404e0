"""How queues, topics, tables, roles and other resources of moto's services are read back."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules
from headrace.services.cloudformation.resources.readings.common import each_of, last_of, same


def _time_to_live(found: dict[str, Any]) -> dict[str, Any] | None:
    if "AttributeName" not in found:
        return None
    enabled = found["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
    return {"AttributeName": found["AttributeName"], "Enabled": enabled}


def _billing(table: dict[str, Any]) -> str:
    return str(table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"))


def _log_group_arn(group: dict[str, Any]) -> str:
    return str(group["arn"]).removesuffix(":*") + ":*"


READINGS = (
    ReadingRules(
        "AWS::SQS::Queue",
        "sqs",
        (
            ReadCall(
                "GetQueueAttributes",
                {"QueueUrl": "@id", "AttributeNames": ["All"]},
                "Attributes",
                same(
                    "ContentBasedDeduplication DeduplicationScope DelaySeconds "
                    "FifoQueue FifoThroughputLimit KmsDataKeyReusePeriodSeconds "
                    "KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod "
                    "ReceiveMessageWaitTimeSeconds RedriveAllowPolicy "
                    "RedrivePolicy SqsManagedSseEnabled VisibilityTimeout",
                    QueueName=last_of("QueueArn"),
                ),
            ),
        ),
        {"Arn": "QueueArn", "QueueName": last_of("QueueArn")},
    ),
    ReadingRules(
        "AWS::SNS::Topic",
        "sns",
        (
            ReadCall(
                "GetTopicAttributes",
                {"TopicArn": "@id"},
                "Attributes",
                same(
                    "ContentBasedDeduplication DisplayName FifoTopic KmsMasterKeyId",
                    TopicName=last_of("TopicArn"),
                ),
            ),
        ),
        {"TopicArn": "TopicArn", "TopicName": last_of("TopicArn")},
    ),
    ReadingRules(
        "AWS::SNS::Subscription",
        "sns",
        (
            ReadCall(
                "GetSubscriptionAttributes",
                {"SubscriptionArn": "@id"},
                "Attributes",
                same("Endpoint FilterPolicy Protocol RawMessageDelivery TopicArn"),
            ),
        ),
        {"Arn": "SubscriptionArn"},
    ),
    ReadingRules(
        "AWS::DynamoDB::Table",
        "dynamodb",
        (
            ReadCall(
                "DescribeTable",
                {"TableName": "@id"},
                "Table",
                same(
                    "AttributeDefinitions DeletionProtectionEnabled "
                    "GlobalSecondaryIndexes KeySchema LocalSecondaryIndexes "
                    "ProvisionedThroughput StreamSpecification TableName",
                    BillingMode=_billing,
                ),
            ),
            ReadCall(
                "DescribeTimeToLive",
                {"TableName": "@id"},
                "TimeToLiveDescription",
                {"TimeToLiveSpecification": _time_to_live},
            ),
        ),
        {"Arn": "TableArn", "StreamArn": "LatestStreamArn"},
    ),
    ReadingRules(
        "AWS::Logs::LogGroup",
        "logs",
        (
            ReadCall(
                "DescribeLogGroups",
                {"logGroupNamePrefix": "@id", "limit": 1},
                "logGroups.0",
                same(
                    "",
                    LogGroupName="logGroupName",
                    RetentionInDays="retentionInDays",
                    KmsKeyId="kmsKeyId",
                    LogGroupClass="logGroupClass",
                ),
            ),
        ),
        {"Arn": _log_group_arn},
    ),
    ReadingRules(
        "AWS::SSM::Parameter",
        "ssm",
        (
            ReadCall(
                "GetParameter",
                {"Name": "@id", "WithDecryption": True},
                "Parameter",
                same("Name Type Value"),
            ),
        ),
        same("Type Value"),
    ),
    ReadingRules(
        "AWS::IAM::Role",
        "iam",
        (
            ReadCall(
                "GetRole",
                {"RoleName": "@id"},
                "Role",
                same(
                    "AssumeRolePolicyDocument Description MaxSessionDuration Path RoleName",
                    PermissionsBoundary="PermissionsBoundary.PermissionsBoundaryArn",
                ),
            ),
            ReadCall(
                "ListAttachedRolePolicies",
                {"RoleName": "@id"},
                properties={"ManagedPolicyArns": each_of("AttachedPolicies", "PolicyArn")},
            ),
        ),
        same("Arn RoleId"),
    ),
    ReadingRules(
        "AWS::IAM::ManagedPolicy",
        "iam",
        (
            ReadCall(
                "GetPolicy",
                {"PolicyArn": "@id"},
                "Policy",
                same("Description Path", ManagedPolicyName="PolicyName"),
            ),
        ),
        {"PolicyArn": "Arn", "PolicyId": "PolicyId"},
    ),
    ReadingRules(
        "AWS::Events::Rule",
        "events",
        (
            ReadCall(
                "DescribeRule",
                {"Name": "@name", "EventBusName": "@EventBusName"},
                properties=same(
                    "Description EventBusName EventPattern Name RoleArn ScheduleExpression State"
                ),
            ),
            ReadCall(
                "ListTargetsByRule",
                {"Rule": "@name", "EventBusName": "@EventBusName"},
                properties=same("Targets"),
            ),
        ),
        same("Arn"),
        named=False,
    ),
    ReadingRules(
        "AWS::KMS::Key",
        "kms",
        (
            ReadCall(
                "DescribeKey",
                {"KeyId": "@id"},
                "KeyMetadata",
                same("Description KeySpec KeyUsage"),
            ),
            ReadCall(
                "GetKeyRotationStatus",
                {"KeyId": "@id"},
                properties={"EnableKeyRotation": "KeyRotationEnabled"},
            ),
            ReadCall(
                "GetKeyPolicy",
                {"KeyId": "@id", "PolicyName": "default"},
                properties={"KeyPolicy": "Policy"},
            ),
        ),
        same("Arn KeyId"),
        gone=lambda key: key["KeyState"] == "PendingDeletion",
    ),
    ReadingRules(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        (
            ReadCall(
                "DescribeAlarms",
                {"AlarmNames": ["@id"]},
                "MetricAlarms.0",
                same(
                    "ActionsEnabled AlarmActions AlarmDescription AlarmName "
                    "ComparisonOperator DatapointsToAlarm Dimensions "
                    "EvaluationPeriods ExtendedStatistic InsufficientDataActions "
                    "MetricName Metrics Namespace OKActions Period Statistic "
                    "Threshold TreatMissingData Unit"
                ),
            ),
        ),
        {"Arn": "AlarmArn"},
    ),
    ReadingRules(
        "AWS::CloudWatch::Dashboard",
        "cloudwatch",
        (
            ReadCall(
                "GetDashboard",
                {"DashboardName": "@id"},
                properties=same("DashboardBody DashboardName"),
            ),
        ),
    ),
    ReadingRules(
        "AWS::ECR::Repository",
        "ecr",
        (
            ReadCall(
                "DescribeRepositories",
                {"repositoryNames": ["@id"]},
                "repositories.0",
                same("", RepositoryName="repositoryName", ImageTagMutability="imageTagMutability"),
            ),
        ),
        {"Arn": "repositoryArn", "RepositoryUri": "repositoryUri"},
    ),
    ReadingRules(
        "AWS::Glue::Database",
        "glue",
        (ReadCall("GetDatabase", {"Name": "@id"}, "Database", {"DatabaseInput": "."}),),
    ),
    ReadingRules(
        "AWS::Glue::Table",
        "glue",
        (
            ReadCall(
                "GetTable",
                {"DatabaseName": "@DatabaseName", "Name": "@id"},
                "Table",
                same("DatabaseName", TableInput="."),
            ),
        ),
        named=False,
    ),
)
