"""The Spark cluster, the jobs' files, and the bucket for their results, checkpoints and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_emr as emr
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from cdk.parts.python_packages import INSTANCE_TYPE, RELEASE
from cdk.parts.spark_cluster import SparkCluster
from cdk.parts.spark_jobs import READS_STREAM, SparkJobs, Step, prefixes
from cdk.parts.workspace_bucket import WorkspaceBucket

JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"


class AnalyticsStack(Stack):
    """The cluster on which the jobs of `spark_jobs/` run as steps: `job`, and at deployment those of `steps`.

    `enriched` is the stream that they read, `table` the folder below the job's in which its rows lie. `release` is the
    EMR release; a job that needs a newer Spark raises ValueError.

    Outputs: ClusterId, JobUri, SubmitOptions, ResultsUri, CheckpointUri, ResultsBucketName, ResultsPrefix.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        enriched: kinesis.IStream,
        job: str = "departures",
        table: str = "windows/",
        subnet_id: str | None = None,
        release: str = RELEASE,
        steps: list[Step] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        bucket = WorkspaceBucket(self, "Results").bucket
        results, checkpoint = f"{job}/", f"checkpoints/{job}/"
        spark = SparkCluster(
            self,
            "Spark",
            name="headrace",
            bucket=bucket,
            prefixes=[
                results,
                checkpoint,
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
            folder=JOBS,
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
        script = jobs.script(job)
        CfnOutput(self, "ClusterId", value=spark.cluster.ref)
        CfnOutput(self, "JobUri", value=script.s3_object_url, description="the step's script")
        CfnOutput(
            self,
            "SubmitOptions",
            value=" ".join(jobs.submit_options),
            description="the step's options of spark-submit: what it brings along",
        )
        CfnOutput(
            self,
            "ResultsUri",
            value=f"s3://{bucket.bucket_name}/{results}",
            description="the step's --output",
        )
        CfnOutput(self, "CheckpointUri", value=f"s3://{bucket.bucket_name}/{checkpoint}")
        CfnOutput(self, "ResultsBucketName", value=bucket.bucket_name)
        CfnOutput(
            self,
            "ResultsPrefix",
            value=f"{results}{table}",
            description="where the step leaves its table",
        )
