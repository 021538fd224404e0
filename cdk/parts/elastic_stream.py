"""A Kinesis stream whose shards follow its load: a scheduled function splits and merges them (lambdas/autoscale)."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import (
    AssetHashType,
    BundlingOptions,
    DockerImage,
    Duration,
    ILocalBundling,
    RemovalPolicy,
)
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

import headrace
from cdk.parts.checks import check_between
from cdk.parts.event_stream import MAX_SHARDS, EventStream
from headrace.shards.loads import Settings

CODE = Path(__file__).resolve().parents[2] / "lambdas" / "autoscale"
METRICS = "Headrace/Shards"
PERIOD_S = (2, 60)
# A step may take a period longer than the minute that the schedule gives.
TIMEOUT_S = 150
# What the function imports of this repository; all of it is standard library.
_PACKAGE = Path(headrace.__file__).parent
_PACKED = (
    "__init__.py",
    "shards/*.py",
    *(f"client/{name}.py" for name in ("__init__", "aggregation", "clock", "hash_keys")),
)


class ElasticStream(EventStream):
    """An `EventStream` with `min_shards` at first, and up to `max_shards` when its load asks for them.

    The function reads `sample_s` seconds of each shard in every period, and may change this stream alone. With a period
    of seconds it runs, and costs, all the time. A deployment that changes `min_shards` sets the count of shards back to
    it.

    Attributes:
        function: the function.
        dashboard: load, throttles, shards and readers' age in one place.
        failing: the alarm for a function that fails; it has no action until you add one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        min_shards: int,
        max_shards: int,
        target_utilisation: float = 0.6,
        period_s: int = 60,
        cold_for_s: int = 600,
        sample_s: int = 2,
        retention_hours: int = 24,
    ) -> None:
        check_between("A stream's most shards", max_shards, min_shards, MAX_SHARDS)
        check_between("A period", period_s, *PERIOD_S, "seconds")
        check_between("A sample", sample_s, 1, period_s, "seconds")
        Settings(
            min_shards=min_shards,
            max_shards=max_shards,
            target_utilisation=target_utilisation,
            cold_for_s=cold_for_s,
        )
        super().__init__(
            scope,
            construct_id,
            name=name,
            shard_count=min_shards,
            retention_hours=retention_hours,
        )
        environment = {
            "STREAM": self.stream.stream_name,
            "MIN_SHARDS": str(min_shards),
            "MAX_SHARDS": str(max_shards),
            "TARGET_UTILISATION": str(target_utilisation),
            "PERIOD_S": str(period_s),
            "COLD_FOR_S": str(cold_for_s),
            "SAMPLE_S": str(sample_s),
            "METRICS": METRICS,
        }
        self.function = self._add_function(environment)
        events.Rule(
            self,
            "EveryMinute",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[
                # The next minute's invocation comes anyway.
                targets.LambdaFunction(
                    self.function, retry_attempts=0, max_event_age=Duration.minutes(1)
                )
            ],
        )
        self.failing = self.function.metric_errors(period=Duration.minutes(1)).create_alarm(
            self,
            "Failing",
            alarm_description=f"The shards of {name} do not follow its load.",
            threshold=1,
            evaluation_periods=5,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        self.dashboard = self._add_dashboard()

    def _add_function(self, environment: dict[str, str]) -> lambda_.Function:
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(role)
        self.stream.grant(
            role,
            "kinesis:DescribeStreamSummary",
            "kinesis:ListShards",
            "kinesis:GetShardIterator",
            "kinesis:GetRecords",
            "kinesis:SplitShard",
            "kinesis:MergeShards",
            "kinesis:UpdateShardCount",
        )
        # CloudWatch's metrics are no resources; the namespace is what can be named.
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": METRICS}},
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(actions=["cloudwatch:GetMetricData"], resources=["*"])
        )
        return lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="handler.handler",
            code=packed_code(),
            environment=environment,
            memory_size=256,
            timeout=Duration.seconds(TIMEOUT_S),
            role=role,
            log_group=log_group,
        )

    def _add_dashboard(self) -> cloudwatch.Dashboard:
        def stream(name: str, statistic: str = "Sum") -> cloudwatch.Metric:
            return self._metric("AWS/Kinesis", name, statistic)

        def own(name: str) -> cloudwatch.Metric:
            return self._metric(METRICS, name, "Maximum")

        dashboard = cloudwatch.Dashboard(self, "Dashboard")
        dashboard.add_widgets(
            cloudwatch.GraphWidget(
                title="Load", left=[stream("IncomingBytes")], right=[stream("IncomingRecords")]
            ),
            cloudwatch.GraphWidget(
                title="Throttled writes", left=[stream("WriteProvisionedThroughputExceeded")]
            ),
        )
        dashboard.add_widgets(
            cloudwatch.GraphWidget(
                title="Shards, and changes of them",
                left=[own("OpenShards")],
                right=[own("Reshards")],
            ),
            cloudwatch.GraphWidget(
                title="Used share of the hottest shard, and of all; advice in the function's log",
                left=[own("HottestShard"), own("MeanUtilisation")],
                right=[own("Advice")],
            ),
            cloudwatch.GraphWidget(
                title="Age of the slowest reader",
                left=[stream("GetRecords.IteratorAgeMilliseconds", "Maximum")],
            ),
        )
        return dashboard

    def _metric(self, namespace: str, name: str, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map={"StreamName": self.stream.stream_name},
            statistic=statistic,
            period=Duration.minutes(1),
        )


def pack(folder: Path) -> None:
    """Write the function's files, and those of headrace that it imports, into a folder."""
    shutil.copyfile(CODE / "handler.py", folder / "handler.py")
    for pattern in _PACKED:
        for file in sorted(_PACKAGE.glob(pattern)):
            target = folder / "headrace" / file.relative_to(_PACKAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


@jsii.implements(ILocalBundling)
class _Packing:
    def try_bundle(self, output_dir: str, options: Any = None, **_: Any) -> bool:
        """Pack here; no container is needed."""
        pack(Path(output_dir))
        return True


def packed_code() -> lambda_.Code:
    """Return the function's code as an asset."""
    return lambda_.Code.from_asset(
        str(CODE),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=_Packing()),
    )
