"""An outbox: a DynamoDB table whose new items become events of a Kinesis stream, each at least once."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from pathlib import Path

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from cdk.parts.stream_function import BEHIND_MS, FAILURES_KEPT_DAYS, NAME_PATTERN

CODE = Path(__file__).resolve().parents[2] / "lambdas" / "outbox"
# Source: API_CreateEventSourceMapping; a DynamoDB stream keeps its records for a day.
MAX_BATCH = 1000
TIMEOUT_S = 60


class Outbox(Construct):
    """A table, its stream and a function (lambdas/outbox) that puts its new items into `target`.

    A service writes an item with `key` (the partition key), `id` (unique below it), `data` (a text or bytes) and
    perhaps `expires_at` (seconds since 1970) in the same TransactWriteItems as its own rows: either both are stored or
    neither, and no kill comes between storing and telling. An item without `data` is named in the log. Grant the
    service `table.grant_write_data`.

    Attributes:
        table: the outbox.
        function: the function.
        failures: the queue of batches that were refused for a day, which is as long as the table's stream keeps them.
        behind: the alarm for a function that is an hour behind; it has no action until you add one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        target: kinesis.IStream,
        batch_size: int = 100,
    ) -> None:
        super().__init__(scope, construct_id)
        check_name("An outbox's name", name, NAME_PATTERN)
        check_between("A batch", batch_size, 1, MAX_BATCH, "items")
        self.table = dynamodb.Table(
            self,
            "Table",
            table_name=name,
            partition_key=dynamodb.Attribute(name="key", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            stream=dynamodb.StreamViewType.NEW_IMAGE,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(role)
        self.failures = sqs.Queue(
            self,
            "Failures",
            retention_period=Duration.days(FAILURES_KEPT_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(CODE), exclude=["**/__pycache__", "**/*.pyc"]),
            environment={"STREAM": target.stream_name},
            timeout=Duration.seconds(TIMEOUT_S),
            role=role,
            log_group=log_group,
        )
        target.grant_write(role)
        self.function.add_event_source(
            sources.DynamoEventSource(
                self.table,
                starting_position=lambda_.StartingPosition.TRIM_HORIZON,
                batch_size=batch_size,
                # Order is kept by waiting: a refused event holds its shard until it is put or expires.
                retry_attempts=10_000,
                report_batch_item_failures=True,
                on_failure=sources.SqsDlq(self.failures),
            )
        )
        self.behind = self.function.metric(
            "IteratorAge", statistic="Maximum", period=Duration.minutes(1)
        ).create_alarm(
            self,
            "Behind",
            alarm_description=f"{name} is an hour behind its table.",
            threshold=BEHIND_MS,
            evaluation_periods=5,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
