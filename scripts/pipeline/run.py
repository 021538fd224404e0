"""One run of the pipeline: its cloud, the outputs of its stacks, its checks, and the commands it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from rich.console import Console

from scripts.pipeline.options import FLIGHTS
from scripts.pipeline.targets import ACCOUNT, HEADRACE, REGION, Target

ROOT = Path(__file__).parents[2]

# The synthesised app, in the data directory: it stays, because the next run mostly needs the same.
ASSEMBLY = "cdk.out"
# The context that the CDK CLI gives an app.
CLI_CONTEXT = {
    "aws:cdk:enable-path-metadata": True,
    "aws:cdk:enable-asset-metadata": True,
    "aws:cdk:disable-version-reporting": True,
    "aws:cdk:bundling-stacks": ["**"],
}

# A log or a pipe has no width: the tables need this many columns.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


class StageError(RuntimeError):
    """A stage failed; the message is one sentence, or a command's last output."""


@dataclass
class Check:
    """One line of the summary: the output must equal the input."""

    stage: str
    what: str
    expected: Any
    found: Any
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether input equals output."""
        return bool(self.expected == self.found)


@dataclass
class Run:
    """The state of a run on one cloud; `endpoint_url` is empty on AWS."""

    endpoint_url: str
    data_dir: Path
    product: str = HEADRACE
    account: str = ACCOUNT
    region: str = REGION
    pipeline: str = FLIGHTS
    # The stages that the cloud cannot run: a stage's name, and the reason.
    not_here: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def target(self) -> Target:
        """The cloud."""
        return Target(self.product, self.endpoint_url)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point every AWS tool at the cloud; AWS_ENDPOINT_URL alone suffices."""
        return {
            **os.environ,
            # The app and the AWS CLI come from this environment, activated or not.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            **self.target.environment(),
            # The CDK's own check of templates takes eight seconds of a processor in every synthesis; templates for AWS
            # keep it, and so do those of tests/cdk.
            **({} if self.target.is_aws else {"CDK_VALIDATION": "false"}),
            # Unrelated to the cloud: no telemetry, no notices, and no cache of another account's keys.
            "CDK_HOME": str(self.data_dir / "cdk-home"),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "1",
            "NO_COLOR": "1",
            "AWS_PAGER": "",
        }

    def client(self, service: str) -> Any:
        """Return a boto3 client of the cloud."""
        make: Any = boto3.client
        # On AWS the region may be in AWS_REGION, which boto3 does not read.
        return make(service, **{"region_name": self.region, **self.target.client_options()})

    def producer_options(self) -> dict[str, Any]:
        """Return what a Producer takes to reach the cloud."""
        options = self.target.client_options()
        where = {"region": self.region, "endpoint_url": options.pop("endpoint_url", None)}
        options.pop("region_name", None)
        return {**where, "session": boto3.Session(**options)}

    def output(self, stack: str, name: str) -> str:
        """Return an output of a deployed stack."""
        return self.outputs[f"headrace-{stack}"][name]


def command(arguments: list[str], run: Run, *, cwd: Path = ROOT) -> str:
    """Run a command and return its output. Raises StageError with the end of its output."""
    done = subprocess.run(
        arguments, cwd=cwd, env=run.environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip().splitlines()[-25:]
        raise StageError(f"`{' '.join(arguments)}` failed:\n" + "\n".join(words))
    return done.stdout


def context_of(run: Run) -> dict[str, str]:
    """Return the CDK app's context: the pipeline, and the stages that are left out since the cloud cannot run them."""
    pipeline = {} if run.pipeline == FLIGHTS else {"pipeline": run.pipeline}
    left = {"leave_out": ",".join(run.not_here)} if run.not_here else {}
    return {**pipeline, **left}


class Synthesis:
    """The synthesis of the CDK app for a run, in a process of its own. A context manager that ends it.

    It needs no cloud, so it can begin before there is one; nor the CDK CLI, which takes a second of a processor to
    start, and then runs the app with these variables.

    Attributes:
        process: the app's.
    """

    def __init__(self, run: Run) -> None:
        folder = run.data_dir / ASSEMBLY
        folder.mkdir(parents=True, exist_ok=True)
        variables = {
            "CDK_OUTDIR": str(folder.absolute()),
            "CDK_CONTEXT_JSON": json.dumps({**CLI_CONTEXT, **context_of(run)}),
            "CDK_DEFAULT_ACCOUNT": run.account,
            "CDK_DEFAULT_REGION": run.region,
        }
        # Where the cloud is does not matter to the app: another port is no reason to synthesise it again.
        environment = {**run.environment, **variables}
        environment.pop("AWS_ENDPOINT_URL", None)
        self.process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT / "cdk", env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip

    def wait(self) -> None:
        """Wait for its end. Raises StageError with the end of its output."""
        printed, _ = self.process.communicate()
        if self.process.returncode != 0:
            words = printed.strip().splitlines()[-25:]
            raise StageError("the CDK app cannot be synthesised:\n" + "\n".join(words))

    def __enter__(self) -> Synthesis:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()
