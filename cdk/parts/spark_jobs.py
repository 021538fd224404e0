"""Uploads the Spark jobs: each job's script, `spark_jobs/` as a package for `--py-files`, and their dependencies."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aws_cdk import Aws, Stage
from aws_cdk import aws_emr as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from cdk.parts import python_packages
from headrace.spark.package import build
from headrace.spark_submit.emr_releases import ReleaseTooOld, check_release

# The earliest time of the zip format; a fixed time keeps the asset's hash until a job changes.
LONG_AGO = (1980, 1, 1, 0, 0, 0)
READS_STREAM = (
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
)


@dataclass(frozen=True, slots=True)
class Job:
    """The options of a job's step.

    Attributes:
        required: the options that the user must give when naming the job.
        folders: the folder in the bucket for each option; only for a job that reads no stream.
    """

    required: tuple[str, ...] = ()
    folders: dict[str, str] | None = None


JOBS = {
    "departures": Job(),
    "rolling_delays": Job(),
    "aircraft_days": Job(),
    "weather_delays": Job(required=("--weather-stream",)),
    "fleet_enrich": Job(required=("--planes",)),
    "airport_board": Job(),
    "cascades": Job(),
    "sketches": Job(),
    "speed_view": Job(),
    "replay": Job(),
    "live_view": Job(),
    "batch_view": Job(required=("--archive", "--before"), folders={"--output": "batch_view"}),
    "serve": Job(
        folders={"--batch": "batch_view", "--speed": "speed_view", "--output": "serve"},
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A job by name, and its options beside those of every step."""

    name: str
    options: tuple[str, ...] = ()

    def option(self, name: str) -> str | None:
        """Return the value of `--name value` or `--name=value`, or None."""
        for at, word in enumerate(self.options):
            if word == name and at + 1 < len(self.options):
                return self.options[at + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return None


def parse_steps(text: str) -> list[Step]:
    """Return the steps of `name --option value, name, ...`, split as a shell splits words.

    Raises ValueError, with one sentence, for an unknown job, one named twice, or one without its required options.
    """
    steps: list[Step] = []
    for part in text.split(","):
        words = shlex.split(part)
        if not words:
            continue
        step = Step(words[0], tuple(words[1:]))
        if step.name not in JOBS:
            raise ValueError(f"A step by context is one of {', '.join(JOBS)}, not {step.name!r}.")
        if step.name in (other.name for other in steps):
            raise ValueError(f"The step {step.name!r} is named twice.")
        for needed in JOBS[step.name].required:
            if step.option(needed) is None:
                raise ValueError(f"The step {step.name!r} needs {needed}.")
        steps.append(step)
    return steps


def prefixes(steps: list[Step]) -> list[str]:
    """Return the bucket's prefixes that `steps` use by default."""
    found: dict[str, None] = {}
    for step in steps:
        folders = JOBS[step.name].folders
        for folder in folders.values() if folders else (step.name, f"checkpoints/{step.name}"):
            found[f"{folder}/"] = None
    return list(found)


class SparkJobs(Construct):
    """Uploads the scripts of `folder`, and adds steps for them.

    Attributes:
        package: the package's asset.
        source: the asset of `headrace.spark`, with `format("kinesis")`, which EMR does not have.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        folder: Path,
        role: iam.Role,
        release: str,
        instance_type: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._folder, self._role, self._release = folder, role, release
        self._scripts: dict[str, assets.Asset] = {}
        # In the CDK's output folder: an asset needs a place until the CDK copies it.
        stage = Stage.of(self)
        assert stage is not None  # every construct is in an app
        outdir = Path(stage.outdir)
        self.package = assets.Asset(self, "Package", path=str(_zipped(folder, outdir)))
        self._may_fetch(self.package)
        self.source = assets.Asset(self, "Source", path=str(_kinesis_source(outdir)))
        self._may_fetch(self.source)
        self._instance_type = instance_type

    @cached_property
    def packages(self) -> assets.Asset:
        """The asset of the Python packages that EMR's image lacks, fetched on first use; see `python_packages`."""
        path = python_packages.archive_for(
            self._folder / "requirements", self._release, self._instance_type
        )
        packages = assets.Asset(self, "Packages", path=str(path))
        self._may_fetch(packages)
        return packages

    @property
    def submit_options(self) -> list[str]:
        """The options of `spark-submit` that give a job the jobs' package, the source and the Python packages."""
        return [
            *python_packages.options(self.packages.s3_object_url),
            *("--py-files", f"{self.package.s3_object_url},{self.source.s3_object_url}"),
        ]

    def script(self, name: str) -> assets.Asset:
        """Return the asset of a job's script.

        Raises ValueError for an unknown job, and for a job that needs a newer Spark than the release's.
        """
        if name not in self._scripts:
            path = self._folder / f"{name}.py"
            if not path.is_file():
                raise ValueError(f"There is no job {name!r} in {self._folder.name}.")
            try:
                check_release(path, self._release)
            except ReleaseTooOld as error:
                raise ValueError(str(error)) from None
            self._scripts[name] = assets.Asset(self, f"Script{name}", path=str(path))
            self._may_fetch(self._scripts[name])
        return self._scripts[name]

    def _may_fetch(self, asset: assets.Asset) -> None:
        """Let the nodes read one object: `grant_read` would allow every asset of the account."""
        statement = iam.PolicyStatement
        key = asset.bucket.arn_for_objects(asset.s3_object_key)
        self._role.add_to_policy(statement(actions=["s3:GetObject"], resources=[key]))
        self._role.add_to_policy(
            statement(
                actions=["s3:GetBucketLocation", "s3:ListBucket"],
                resources=[asset.bucket.bucket_arn],
            )
        )

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """Return the arguments of `command-runner.jar` that run a job with its options; raises as `script` does."""
        # First, since it refuses a release before packages are fetched for it.
        script = self.script(name).s3_object_url
        return ["spark-submit", *self.submit_options, script, *words]

    def add_step(
        self, step: Step, *, cluster_id: str, stream: str, region: str, bucket: str
    ) -> emr.CfnStep:
        """Run `step` on `stream`, with results and checkpoint in `bucket`, unless its own options override this.

        The role may use the resources that the options name: another stream to read or write, a table in S3.
        """
        name = step.name
        folders = JOBS[name].folders
        if folders is None:
            folder_options = [
                *("--stream", stream, "--region", region, "--output", f"s3://{bucket}/{name}/"),
                *("--checkpoint", f"s3://{bucket}/checkpoints/{name}/"),
            ]
        else:
            folder_options = [
                w for o, folder in folders.items() for w in (o, f"s3://{bucket}/{folder}/")
            ]
        self._grant(step)
        return emr.CfnStep(
            self,
            f"Step{name}",
            name=name,
            action_on_failure="CONTINUE",
            job_flow_id=cluster_id,
            hadoop_jar_step=emr.CfnStep.HadoopJarStepConfigProperty(
                jar="command-runner.jar",
                # If an option is given twice, the last one counts.
                args=self.command(name, [*folder_options, *step.options]),
            ),
        )

    def _grant(self, step: Step) -> None:
        for option in ("--stream", "--weather-stream"):
            if (stream := step.option(option)) is not None:
                self._allow(list(READS_STREAM), [_stream_arn(stream)])
        for option in ("--planes", "--archive", "--batch", "--speed"):
            if (uri := step.option(option)) is not None:
                self._allow_folder(uri, ["s3:GetObject"])
        for option in ("--output", "--checkpoint", "--quarantine"):
            uri = step.option(option) or ""
            if uri.startswith("kinesis://"):
                arn = _stream_arn(uri.removeprefix("kinesis://").rstrip("/"))
                self._allow(["kinesis:PutRecords", "kinesis:DescribeStreamSummary"], [arn])
            elif uri:
                self._allow_folder(uri, ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"])

        if (namespace := step.option("--metrics")) is not None:
            # CloudWatch's metrics are no resources; the namespace is what can be named.
            in_namespace = {"StringEquals": {"cloudwatch:namespace": namespace}}
            self._allow(["cloudwatch:PutMetricData"], ["*"], in_namespace)

    def _allow_folder(self, uri: str, actions: list[str]) -> None:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        arn = f"arn:{Aws.PARTITION}:s3:::{bucket}"
        self._allow(["s3:ListBucket"], [arn])
        self._allow(actions, [f"{arn}/{prefix.rstrip('/')}/*" if prefix else f"{arn}/*"])

    def _allow(
        self, actions: list[str], resources: list[str], conditions: dict[str, Any] | None = None
    ) -> None:
        self._role.add_to_policy(
            iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
        )


def _stream_arn(name: str) -> str:
    return f"arn:{Aws.PARTITION}:kinesis:{Aws.REGION}:{Aws.ACCOUNT_ID}:stream/{name}"


def _zipped(folder: Path, outdir: Path) -> Path:
    path = outdir / "spark_jobs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(folder.rglob("*.py")):
            name = source.relative_to(folder.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), source.read_bytes())
    return path


def _kinesis_source(outdir: Path) -> Path:
    return build(outdir / "headrace_spark.zip")
