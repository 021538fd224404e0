"""Runs a CDK app as the CDK's command line does, without it: the app leaves its templates and assets in a folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

_WITHIN_S = 600.0


class AppFailed(Exception):
    """A CDK app has left nothing; the text is one sentence without its full stop.

    Attributes:
        output: what the app has said, or nothing.
    """

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output.strip()


def synthesise(
    folder: Path, out: Path, *, account: str, region: str, context: Mapping[str, str]
) -> None:
    """Run the app of `folder` (cdk.json) into `out`. Raises AppFailed.

    Args:
        folder: its cdk.context.json, where the CDK's command line keeps what it looked up, is read too.
        out: becomes the cloud assembly.
        account: of environments that name none.
        region: of environments that name none.
        context: goes before what the files say.
    """
    settings = _read(folder / "cdk.json")
    kept = folder / "cdk.context.json"
    looked_up = _read(kept) if kept.is_file() else {}
    command = shlex.split(str(settings.get("app", "")))
    if not command:
        raise AppFailed(f"{folder / 'cdk.json'} names no app")
    environment = {
        **os.environ,
        # `python3 app.py` is to have the packages that headrace has.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "CDK_OUTDIR": str(out),
        "CDK_DEFAULT_ACCOUNT": account,
        "CDK_DEFAULT_REGION": region,
        "CDK_CONTEXT_JSON": json.dumps({**settings.get("context", {}), **looked_up, **context}),
    }
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AppFailed(f"The CDK app of {folder} does not run: {error}") from error
    if "No module named 'aws_cdk'" in run.stderr:
        raise AppFailed(
            f"The CDK app of {folder} needs the CDK: pip install aws-cdk-lib constructs"
        )
    if run.returncode or not (out / "manifest.json").is_file():
        last = (run.stderr.strip() or "it left no manifest.json").splitlines()[-1]
        raise AppFailed(
            f"The CDK app of {folder} failed with exit code {run.returncode}: {last}", run.stderr
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AppFailed(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise AppFailed(f"{path} is not a JSON object")
    return cast("dict[str, Any]", found)
