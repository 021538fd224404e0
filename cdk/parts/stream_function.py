"""A Lambda function that processes a Kinesis stream, with a queue for records that it cannot process."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from pathlib import Path

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk.parts.checks import check_between, check_name

# Source: API_CreateFunction and API_CreateEventSourceMapping.
NAME_PATTERN = r"[a-zA-Z0-9_-]{1,64}"
MAX_BATCH = 10_000
MAX_WINDOW_S = 300
MAX_RETRIES = 10_000
MEMORY_MIB = (128, 10_240)
TIMEOUT_S = (1, 900)
MAX_PARALLEL = 10
MAX_TUMBLING_WINDOW_S = 900
FAILURES_KEPT_DAYS = 14
# For a function on the queue; AWS recommends a visibility timeout of six times the function's timeout.
REDRIVE_TIMEOUT_S = 30
# A stream keeps a day by default, so an alarm after an hour leaves time to act.
BEHIND_MS = 3_600_000


class StreamFunction(Construct):
    """A Python function on a stream: `handler.handler` in the folder `code`, packed unchanged.

    A failing batch is split and retried; in the end a message in the failure queue names it. The function may report
    failed records (`batchItemFailures`), and with a tumbling window must return its `state`. The role may write the
    function's log group, read `source` and send to the queue; grant everything else.

    Attributes:
        function: the function.
        role: its role.
        failures: the queue.
        behind: the alarm for a function that is an hour behind; it has no action until you add one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        code: Path,
        source: kinesis.IStream,
        environment: dict[str, str],
        batch_size: int,
        batching_window_s: int = 0,
        retry_attempts: int,
        parallel_batches_per_shard: int = 1,
        tumbling_window_s: int = 0,
        memory_mib: int = 256,
        timeout_s: int = 60,
    ) -> None:
        super().__init__(scope, construct_id)
        check_name("A function's name", name, NAME_PATTERN)
        check_between("A batch", batch_size, 1, MAX_BATCH, "records")
        check_between("A batching window", batching_window_s, 0, MAX_WINDOW_S, "seconds")
        # AWS's default, -1, retries without end: one bad record then stops its shard until the record expires.
        check_between("The retries of a batch", retry_attempts, 0, MAX_RETRIES)
        check_between(
            "The parallel batches of a shard", parallel_batches_per_shard, 1, MAX_PARALLEL
        )
        check_between("A tumbling window", tumbling_window_s, 0, MAX_TUMBLING_WINDOW_S, "seconds")
        check_between("A function's memory", memory_mib, *MEMORY_MIB, "MiB")
        check_between("A function's timeout", timeout_s, *TIMEOUT_S, "seconds")
        if not (code / "handler.py").is_file():
            raise ValueError(f"A function's folder must hold handler.py, and {code} does not.")

        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(self.role)
        self.failures = sqs.Queue(
            self,
            "Failures",
            retention_period=Duration.days(FAILURES_KEPT_DAYS),
            visibility_timeout=Duration.seconds(6 * REDRIVE_TIMEOUT_S),
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
            code=lambda_.Code.from_asset(str(code), exclude=["**/__pycache__", "**/*.pyc"]),
            environment=environment,
            memory_size=memory_mib,
            timeout=Duration.seconds(timeout_s),
            role=self.role,
            log_group=log_group,
        )
        self.function.add_event_source(
            sources.KinesisEventSource(
                source,
                starting_position=lambda_.StartingPosition.TRIM_HORIZON,
                batch_size=batch_size,
                max_batching_window=Duration.seconds(batching_window_s),
                retry_attempts=retry_attempts,
                parallelization_factor=parallel_batches_per_shard,
                tumbling_window=Duration.seconds(tumbling_window_s) if tumbling_window_s else None,
                bisect_batch_on_error=True,
                report_batch_item_failures=True,
                on_failure=sources.SqsDlq(self.failures),
            )
        )
        # Only this metric shows a function that is too slow or keeps failing; then records expire in the stream.
        self.behind = self.function.metric(
            "IteratorAge", statistic="Maximum", period=Duration.minutes(1)
        ).create_alarm(
            self,
            "Behind",
            alarm_description=f"{name} is an hour behind its stream.",
            threshold=BEHIND_MS,
            evaluation_periods=5,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
