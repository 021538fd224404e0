"""One run of the pipeline: its cloud, the outputs of its stacks, its checks, and the commands it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from rich.console import Console

from scripts.pipeline.targets import ACCOUNT, HEADRACE, REGION, Target

ROOT = Path(__file__).parents[2]

FLIGHTS, DEVICES = "flights", "devices"

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
