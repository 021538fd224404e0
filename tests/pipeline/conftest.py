"""The CDK app, deployed by the CDK CLI to a cloud of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pipeline.run import ACCOUNT, REGION, ROOT, Run, command
from tests.support.server import ServerProcess

CDK = ROOT / "cdk" / "node_modules" / ".bin" / "cdk"


class Deployed:
    """A cloud with the four stacks in it."""

    def __init__(self, server: ServerProcess, run: Run) -> None:
        self.server = server
        self.run = run

    def cdk(self, *arguments: str) -> str:
        """Run the CDK CLI on the synthesised app; return all that it printed."""
        done = subprocess.run(
            [str(CDK), *arguments, "--app", str(self.run.data_dir / "cdk.out")],
            cwd=ROOT / "cdk", env=self.run.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder: Path = tmp_path_factory.mktemp("pipeline")
    with ServerProcess(folder / "data") as server:
        run = Run(server.endpoint_url, folder)
        command([str(CDK), "bootstrap", f"aws://{ACCOUNT}/{REGION}"], run, cwd=folder)
        outputs = folder / "outputs.json"
        # It leaves the synthesised app in `cdk.out`, for the commands that follow.
        command(
            [str(CDK), "deploy", "--all", "--require-approval", "never", "--output", str(folder / "cdk.out"),
             "--outputs-file", str(outputs)],
            run, cwd=ROOT / "cdk",
        )  # fmt: skip
        deployed = Deployed(server, run)
        run.outputs = json.loads(outputs.read_text())
        yield deployed
