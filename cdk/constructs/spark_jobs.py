"""The jobs' files as assets: each script, and all of them as the package that `--py-files` takes."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import zipfile
from pathlib import Path

from aws_cdk import CfnOutput, Stage
from aws_cdk import aws_emr as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

# Zip files know no time before; a fixed one keeps the asset's hash the same until a job changes.
LONG_AGO = (1980, 1, 1, 0, 0, 0)
# The jobs that need one stream and no argument of their own: these may be steps.
STEPS = ("rolling_delays", "aircraft_days", "airport_board", "cascades", "speed_view")


class SparkJobs(Construct):
    """Uploads the scripts of `folder`, and adds steps for them.

    Attributes:
        package: the package's asset.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, folder: Path, role: iam.Role
    ) -> None:
        super().__init__(scope, construct_id)
        self._folder, self._role = folder, role
        self._scripts: dict[str, assets.Asset] = {}
        # Beside what the CDK writes itself: an asset must lie somewhere until it is taken up.
        stage = Stage.of(self)
        assert stage is not None  # a construct lies in an app
        outdir = Path(stage.outdir)
        self.package = assets.Asset(self, "Package", path=str(_zipped(folder, outdir)))
        self.package.grant_read(role)
        CfnOutput(self, "PackageUri", value=self.package.s3_object_url, description="--py-files")

    def script(self, name: str) -> assets.Asset:
        """Return the asset of a job's script. Raises ValueError for a job that is none."""
        if name not in self._scripts:
            path = self._folder / f"{name}.py"
            if not path.is_file():
                raise ValueError(f"There is no job {name!r} in {self._folder.name}.")
            self._scripts[name] = assets.Asset(self, f"Script{name}", path=str(path))
            self._scripts[name].grant_read(self._role)
        return self._scripts[name]

    def add_step(
        self, name: str, *, cluster_id: str, stream: str, region: str, bucket: str
    ) -> None:
        """Run the job `name` on `stream`, with its results and checkpoint in `bucket`."""
        if name not in STEPS:
            raise ValueError(f"A step by context is one of {', '.join(STEPS)}, not {name!r}.")
        arguments = [
            *("spark-submit", "--py-files", self.package.s3_object_url),
            *(self.script(name).s3_object_url, "--stream", stream, "--region", region),
            *("--output", f"s3://{bucket}/{name}/"),
            *("--checkpoint", f"s3://{bucket}/checkpoints/{name}/"),
        ]
        emr.CfnStep(
            self,
            f"Step{name}",
            name=name,
            action_on_failure="CONTINUE",
            job_flow_id=cluster_id,
            hadoop_jar_step=emr.CfnStep.HadoopJarStepConfigProperty(
                jar="command-runner.jar", args=arguments
            ),
        )


def _zipped(folder: Path, outdir: Path) -> Path:
    path = outdir / "spark_jobs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(folder.glob("*.py")):
            archive.writestr(
                zipfile.ZipInfo(f"{folder.name}/{source.name}", LONG_AGO), source.read_bytes()
            )
    return path
