"""The Lambda functions on the flights: `enrich`, and optionally `aggregate` and `redrive`."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk.parts.stream_function import REDRIVE_TIMEOUT_S, StreamFunction

LAMBDAS = Path(__file__).resolve().parents[2] / "lambdas"
CODE = LAMBDAS / "enrich"
WINDOW_S = 300
KEPT_DAYS = 14


class ProcessingStack(Stack):
    """`enrich`, from `flights` to `enriched`. Outputs: EnrichFunctionName, FailureQueueUrl.

    With `aggregate`, a table has the departures per carrier and five minutes of arrival (output DeparturesTableName).
    With `redrive`, good records of failed batches go back into the stream, and a queue names the bad ones
    (BadRecordsQueueUrl).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        flights: kinesis.IStream,
        enriched: kinesis.IStream,
        aggregate: bool = False,
        redrive: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        enrich = StreamFunction(
            self,
            "Enrich",
            name="enrich",
            code=CODE,
            source=flights,
            environment={"OUTPUT_STREAM": enriched.stream_name},
            batch_size=500,
            # Full batches under load; at most a second's wait otherwise.
            batching_window_s=1,
            # Few retries: a record that can never succeed blocks its shard while it is retried.
            retry_attempts=3,
        )
        enriched.grant(enrich.role, "kinesis:PutRecords")
        CfnOutput(self, "EnrichFunctionName", value=enrich.function.function_name)
        CfnOutput(
            self,
            "FailureQueueUrl",
            value=enrich.failures.queue_url,
            description="what could not be enriched is named here",
        )
        if aggregate:
            self._add_aggregate(enriched)
        if redrive:
            self._add_redrive(flights, enrich.failures)

    def _add_aggregate(self, enriched: kinesis.IStream) -> None:
        table = dynamodb.Table(
            self,
            "Departures",
            partition_key=dynamodb.Attribute(name="window", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="carrier_shard", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=RemovalPolicy.DESTROY,
        )
        counting = StreamFunction(
            self,
            "Aggregate",
            name="aggregate",
            code=LAMBDAS / "aggregate",
            source=enriched,
            environment={"TABLE": table.table_name},
            batch_size=1000,
            batching_window_s=1,
            retry_attempts=3,
            tumbling_window_s=WINDOW_S,
        )
        table.grant(counting.role, "dynamodb:BatchWriteItem")
        CfnOutput(self, "DeparturesTableName", value=table.table_name)

    def _add_redrive(self, flights: kinesis.IStream, failures: sqs.IQueue) -> None:
        bad = sqs.Queue(
            self,
            "BadRecords",
            retention_period=Duration.days(KEPT_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        function = lambda_.Function(
            self,
            "Redrive",
            function_name="redrive",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="handler.handler",
            code=lambda_.Code.from_asset(
                str(LAMBDAS / "redrive"), exclude=["**/__pycache__", "**/*.pyc"]
            ),
            environment={"REPORT_QUEUE_URL": bad.queue_url},
            # A sixth of the failure queue's visibility timeout.
            timeout=Duration.seconds(REDRIVE_TIMEOUT_S),
        )
        function.add_event_source(
            sources.SqsEventSource(failures, batch_size=10, report_batch_item_failures=True)
        )
        flights.grant_read(function)
        flights.grant(function, "kinesis:PutRecords")
        bad.grant_send_messages(function)
        CfnOutput(self, "BadRecordsQueueUrl", value=bad.queue_url)
