"""A stream of changes kept compact: the latest row of each key in S3 or Iceberg, by a Spark step on a schedule."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import Aws, Duration, RemovalPolicy, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from cdk.parts.delivery_config import GLUE_NAME_PATTERN
from cdk.parts.python_packages import INSTANCE_TYPE, RELEASE
from cdk.parts.spark_cluster import SparkCluster
from cdk.parts.spark_jobs import READS_STREAM, SparkJobs
from cdk.parts.workspace_bucket import WorkspaceBucket
from headrace.spark_submit.emr_releases import releases

FOLDER = Path(__file__).resolve().parents[2] / "spark_jobs"
ICEBERG_NEEDS_SPARK = (4, 0)
# A record must be folded while the stream has it, which is a day by default.
MAX_EVERY_HOURS = 12


class CompactedTable(Construct):
    """Folds the changes of `source` (of `headrace cdc`) into the latest row of each key, `every` so often.

    The job is spark_jobs/compact.py, a step of `cluster`, which is to run one step at a time, as EMR does by default;
    without `cluster` and `bucket` it has its own. `keys` names columns by table (`schema.table`); a table's key is the
    records' partition key otherwise. The nodes' role may read the stream and use the folders of rows and checkpoint
    alone, and the schedule's may add steps to this cluster. With `iceberg`, `(database, table)`, the rows are in an
    Iceberg table of Glue's catalogue, in a database of its own, whose location is the folder.

    Raises ValueError, with one sentence, for an interval, a name or a release that cannot work.

    Attributes:
        rows: the folder, whose `manifest.json` names the Parquet files of the newest table, or iceberg://DATABASE/TABLE.
        failures: the queue of runs that EMR did not take for a day.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        source: kinesis.IStream,
        every: Duration | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        cluster: SparkCluster | None = None,
        bucket: s3.IBucket | None = None,
        iceberg: tuple[str, str] | None = None,
        release: str = RELEASE,
    ) -> None:
        super().__init__(scope, construct_id)
        minutes = int((every or Duration.hours(1)).to_minutes())
        check_between("The time between two runs", minutes, 1, MAX_EVERY_HOURS * 60, "minutes")
        bucket = bucket or WorkspaceBucket(self, "Workspace").bucket
        rows, checkpoint = (f"{kind}/{self.node.addr}/" for kind in ("compacted", "checkpoints"))
        self.rows = f"s3://{bucket.bucket_name}/{rows}"
        if cluster is None:
            cluster = SparkCluster(
                self,
                "Spark",
                name=construct_id,
                bucket=bucket,
                prefixes=[rows, checkpoint],
                release=release,
                instance_type=INSTANCE_TYPE,
            )
        else:
            _allow_folders(cluster.role, bucket, [rows, checkpoint])
        if iceberg is not None:
            self.rows = self._in_database(iceberg, self.rows, release, cluster.role)
        source.grant(cluster.role, *READS_STREAM)
        if source.encryption_key is not None:
            source.encryption_key.grant_decrypt(cluster.role)
        jobs = SparkJobs(
            self,
            "Jobs",
            folder=FOLDER,
            role=cluster.role,
            release=release,
            instance_type=INSTANCE_TYPE,
        )
        words = [
            *("--stream", source.stream_name, "--region", Stack.of(self).region),
            *("--output", self.rows, "--checkpoint", f"s3://{bucket.bucket_name}/{checkpoint}"),
        ]
        for table, columns in (keys or {}).items():
            words += ["--key", f"{table}={','.join(columns)}"]
        step = {
            "Name": construct_id,
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": jobs.command("compact", words)},
        }
        self.failures = sqs.Queue(
            self,
            "Failures",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self._schedule(minutes, cluster, {"JobFlowId": cluster.cluster.ref, "Steps": [step]})

    def _in_database(
        self, names: tuple[str, str], folder: str, release: str, role: iam.Role
    ) -> str:
        """Make the table's database in a folder, and let the job use it; return the job's output."""
        database, table = names
        check_name("A Glue database's name", database, GLUE_NAME_PATTERN)
        check_name("A Glue table's name", table, GLUE_NAME_PATTERN)
        # A release that this list lacks is newer than the newest one.
        known = next((r for r in releases() if r.label == release), releases()[0])
        if known.spark_minor < ICEBERG_NEEDS_SPARK:
            raise ValueError(
                f"An Iceberg table needs a release with Spark 4, whose packages have pyiceberg, not {release}."
            )
        glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=database, location_uri=folder
            ),
        )
        resources = ("catalog", f"database/{database}", f"table/{database}/{table}")
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "glue:CreateTable",
                    "glue:GetDatabase",
                    "glue:GetTable",
                    "glue:UpdateTable",
                ],
                resources=[
                    Stack.of(self).format_arn(service="glue", resource=name) for name in resources
                ],
            )
        )
        return f"iceberg://{database}/{table}"

    def _schedule(self, minutes: int, cluster: SparkCluster, request: Mapping[str, object]) -> None:
        stack = Stack.of(self)
        principal = iam.ServicePrincipal("scheduler.amazonaws.com").with_conditions(
            {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        )
        role = iam.Role(self, "ScheduleRole", assumed_by=principal)
        arn = stack.format_arn(
            service="elasticmapreduce", resource="cluster", resource_name=cluster.cluster.ref
        )
        role.add_to_policy(
            iam.PolicyStatement(actions=["elasticmapreduce:AddJobFlowSteps"], resources=[arn])
        )
        self.failures.grant_send_messages(role)
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            schedule_expression=f"rate({minutes} minute{'s' if minutes > 1 else ''})",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:emr:addJobFlowSteps",
                role_arn=role.role_arn,
                input=stack.to_json_string(request),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self.failures.queue_arn
                ),
            ),
        )
        # What its roles may do must stand before the first run.
        schedule.node.add_dependency(role, cluster.role)


def _allow_folders(role: iam.Role, bucket: s3.IBucket, folders: Sequence[str]) -> None:
    statement = iam.PolicyStatement
    role.add_to_policy(statement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn]))
    role.add_to_policy(
        statement(
            actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resources=[bucket.arn_for_objects(f"{folder}*") for folder in folders],
        )
    )
