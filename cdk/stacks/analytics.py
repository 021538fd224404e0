"""The Spark cluster, the jobs' files, and the bucket for their results, checkpoints and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_emr as emr
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from cdk.parts.spark_cluster import SparkCluster
from cdk.parts.spark_jobs import READS_STREAM, SparkJobs, Step, prefixes
from cdk.parts.workspace_bucket import WorkspaceBucket

JOB = Path(__file__).resolve().parents[2] / "spark_jobs" / "departures.py"
# The EMR release with Spark 4.0; 7.x has Spark 3.5.
RELEASE = "emr-spark-8.0.0"
INSTANCE_TYPE = "m5.xlarge"
RESULTS_PREFIX = "departures/"
CHECKPOINT_PREFIX = "checkpoints/departures/"


class AnalyticsStack(Stack):
    """The cluster on which the jobs of `spark_jobs/` run as steps: `departures.py`, and at deployment those of `steps`.

    `release` is the EMR release; a job that needs a newer Spark raises ValueError.

    Outputs: ClusterId, JobUri, SubmitOptions, ResultsUri, CheckpointUri, ResultsBucketName, ResultsPrefix.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        enriched: kinesis.IStream,
        subnet_id: str | None = None,
        release: str = RELEASE,
        steps: list[Step] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        bucket = WorkspaceBucket(self, "Results").bucket
        spark = SparkCluster(
            self,
            "Spark",
            name="headrace",
            bucket=bucket,
            prefixes=[
                RESULTS_PREFIX,
                CHECKPOINT_PREFIX,
                *prefixes(steps or []),
            ],
            release=release,
            instance_type=INSTANCE_TYPE,
            subnet_id=subnet_id,
        )
        enriched.grant(spark.role, *READS_STREAM)
        jobs = SparkJobs(
            self,
            "Jobs",
            folder=JOB.parent,
            role=spark.role,
            release=release,
            instance_type=INSTANCE_TYPE,
        )
        before: emr.CfnStep | None = None
        for step in steps or []:
            added = jobs.add_step(
                step,
                cluster_id=spark.cluster.ref,
                stream=enriched.stream_name,
                region=self.region,
                bucket=bucket.bucket_name,
            )
            # One after the other in the given order: `serve` reads the output of the view jobs before it.
            if before is not None:
                added.add_dependency(before)
            before = added
        job = jobs.script(JOB.stem)
        CfnOutput(self, "ClusterId", value=spark.cluster.ref)
        CfnOutput(self, "JobUri", value=job.s3_object_url, description="the step's script")
        CfnOutput(
            self,
            "SubmitOptions",
            value=" ".join(jobs.submit_options),
            description="the step's options of spark-submit: what it brings along",
        )
        CfnOutput(
            self,
            "ResultsUri",
            value=f"s3://{bucket.bucket_name}/{RESULTS_PREFIX}",
            description="the step's --output",
        )
        CfnOutput(self, "CheckpointUri", value=f"s3://{bucket.bucket_name}/{CHECKPOINT_PREFIX}")
        CfnOutput(self, "ResultsBucketName", value=bucket.bucket_name)
        CfnOutput(
            self,
            "ResultsPrefix",
            value=f"{RESULTS_PREFIX}windows/",
            description="where the step leaves its table",
        )
