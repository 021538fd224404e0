"""A file or folder of streaming SQL as a step of an EMR cluster, with the streams that its queries write."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Annotations, Aws, RemovalPolicy, Stack, Stage
from aws_cdk import aws_emr as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from cdk.parts import python_packages
from cdk.parts.spark_cluster import SparkCluster
from cdk.parts.spark_jobs import READS_STREAM
from cdk.parts.workspace_bucket import WorkspaceBucket
from headrace.sql.analysis import Analysis
from headrace.sql.inference import Folder
from headrace.sql.parsing import parse
from headrace.sql.plan import KSQL, Script
from headrace.sql.pyspark_job import compile_script
from headrace.sql.types import SqlError

# EMR's own source and sink, in its images from 7.1.0 on.
CONNECTOR = "/usr/share/aws/kinesis/spark-sql-kinesis/lib/spark-streaming-sql-kinesis-connector.jar"
WRITES_STREAM = (
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:PutRecord",
    "kinesis:PutRecords",
)
REQUIREMENTS = Path(__file__).resolve().parents[2] / "spark_jobs" / "requirements"


class StreamingSql(Construct):
    """Runs the queries of `sql`, which is checked and compiled when the app is; the step goes on until it is cancelled.

    `source` is the stream that the queries read, or the streams by the names that the SQL gives them. A stream that
    they write is one of `targets`, by its name in the SQL, or is made, on demand. The nodes' role may read the former,
    write the latter, and use the checkpoint's folder. Without `cluster` and `bucket` it has its own. `packages` is an
    archive (.zip, .tgz) of Python packages for the job; without it the packages that row patterns (MATCH_RECOGNIZE)
    need, pandas and PyArrow, are fetched for the cluster's Python.

    Raises ValueError, with one sentence, for SQL that has a mistake, and for a stream that is missing.

    Attributes:
        targets: the streams that the queries write, by their names in the SQL.
        checkpoint: the folder of the queries' progress and of the tables' states, for `headrace sql query`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        sql: str | Path,
        source: kinesis.IStream | Mapping[str, kinesis.IStream],
        targets: Mapping[str, kinesis.IStream] | None = None,
        cluster: SparkCluster | None = None,
        bucket: s3.IBucket | None = None,
        dialect: str = KSQL,
        packages: str | Path | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        script = read_queries(Path(sql), dialect)
        for location, text in script.warnings():
            Annotations.of(self).add_warning_v2(
                "headrace:sql", f"{sql}, line {location.line}: {text}"
            )
        writes = sorted(
            q.target.stream
            for q in script.queries
            if q.target is not None and not script.is_internal(q.target)
        )
        writes += sorted(script.streams_aside())
        self.targets = {
            name: (targets or {}).get(name) or self._stream(name) for name in dict.fromkeys(writes)
        }
        streams = {**_sources(script, source, self.targets), **self.targets}
        bucket = bucket or WorkspaceBucket(self, "Workspace").bucket
        folder = f"checkpoints/{self.node.addr}/"
        self.checkpoint = f"s3://{bucket.bucket_name}/{folder}"
        if cluster is None:
            cluster = SparkCluster(
                self,
                "Spark",
                name=construct_id,
                bucket=bucket,
                prefixes=[folder],
                release=python_packages.RELEASE,
            )
        else:
            _allow(cluster.role, ["s3:ListBucket"], [bucket.bucket_arn])
            actions = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
            _allow(cluster.role, actions, [bucket.arn_for_objects(f"{folder}*")])
        for name, stream in streams.items():
            if name in self.targets:
                stream.grant(cluster.role, *WRITES_STREAM)
            if any(name in (s.relation.stream for s in q.inputs()) for q in script.queries):
                stream.grant(cluster.role, *READS_STREAM)
            if stream.encryption_key is not None:
                stream.encryption_key.grant_encrypt_decrypt(cluster.role)
        read = {s.relation for query in script.queries for s in query.inputs()}
        for url in sorted(one.stream for one in read if one.is_object):
            bucket_name, _, key = url.removeprefix("s3://").partition("/")
            arn = f"arn:{Aws.PARTITION}:s3:::{bucket_name}"
            _allow(cluster.role, ["s3:ListBucket"], [arn])
            _allow(cluster.role, ["s3:GetObject"], [f"{arn}/{key}*"])
        if packages is None and any(query.match is not None for query in script.queries):
            packages = python_packages.archive_for(
                REQUIREMENTS, cluster.release, cluster.instance_type
            )
        self._step(script, Path(sql), cluster, streams, packages)

    def _stream(self, name: str) -> kinesis.Stream:
        return kinesis.Stream(
            self,
            f"Stream{name}",
            stream_mode=kinesis.StreamMode.ON_DEMAND,
            encryption=kinesis.StreamEncryption.MANAGED,
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _step(
        self,
        script: Script,
        sql: Path,
        cluster: SparkCluster,
        streams: Mapping[str, kinesis.IStream],
        packages: str | Path | None,
    ) -> None:
        stage = Stage.of(self)
        assert stage is not None  # every construct is in an app
        # In the CDK's output folder: an asset needs a place until the CDK copies it.
        path = Path(stage.outdir) / f"{self.node.addr}.py"
        path.write_text(compile_script(script, f"Made of {sql.name} by the CDK."), encoding="utf-8")
        job = assets.Asset(self, "Job", path=str(path))
        options: list[str] = []
        fetched = [job]
        if packages is not None:
            fetched.append(assets.Asset(self, "Packages", path=str(packages)))
            options = python_packages.options(fetched[-1].s3_object_url)
        for asset in fetched:
            key = asset.bucket.arn_for_objects(asset.s3_object_key)
            _allow(cluster.role, ["s3:GetObject"], [key])
            buckets = ["s3:GetBucketLocation", "s3:ListBucket"]
            _allow(cluster.role, buckets, [asset.bucket.bucket_arn])
        names = [
            word
            for name, stream in streams.items()
            for word in ("--stream", f"{name}={stream.stream_name}")
        ]
        step = emr.CfnStep(
            self,
            "Step",
            name=self.node.id,
            action_on_failure="CONTINUE",
            job_flow_id=cluster.cluster.ref,
            hadoop_jar_step=emr.CfnStep.HadoopJarStepConfigProperty(
                jar="command-runner.jar",
                args=[
                    *("spark-submit", "--jars", CONNECTOR, *options, job.s3_object_url),
                    *("--region", Stack.of(self).region, "--checkpoint", self.checkpoint, *names),
                ],
            ),
        )
        # What its role may do must stand before it begins.
        step.node.add_dependency(cluster.role)


def read_queries(path: Path, dialect: str) -> Script:
    """Return the plans of a file, or of a folder's .sql files by their names; raises ValueError with the place."""
    files = sorted(path.glob("*.sql")) if path.is_dir() else [path]
    analysis = Analysis(dialect, Folder(path if path.is_dir() else path.parent))
    for file in files:
        try:
            for statement in parse(file.read_text(encoding="utf-8"), analysis.words):
                analysis.take(statement)
        except SqlError as error:
            raise ValueError(f"{file}: {error}") from None
        except OSError as error:
            raise ValueError(f"{file}: {error.strerror}") from None
    if not analysis.queries:
        raise ValueError(f"{path} has no query: CREATE STREAM .. AS SELECT makes one")
    return analysis.script()


def _sources(
    script: Script,
    source: kinesis.IStream | Mapping[str, kinesis.IStream],
    targets: Mapping[str, kinesis.IStream],
) -> dict[str, kinesis.IStream]:
    """Return the streams that the queries read and do not write themselves, by their names in the SQL."""
    read = {s.relation for query in script.queries for s in query.inputs()}
    names = {one.stream for one in read if one.stream and not one.is_object} - set(targets)
    if not isinstance(source, Mapping):
        if len(names) != 1:
            raise ValueError(
                f"the queries read {len(names)} streams, {', '.join(sorted(names))}: source names each"
            )
        return {names.pop(): source}
    if missing := sorted(names - set(source)):
        raise ValueError(f"the queries read {missing[0]}, which source does not name")
    if unknown := sorted(set(source) - names):
        raise ValueError(f"the queries do not read {unknown[0]}")
    return dict(source)


def _allow(role: iam.Role, actions: list[str], resources: list[str]) -> None:
    role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
