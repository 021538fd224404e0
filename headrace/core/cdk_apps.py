"""Runs a CDK app as the CDK CLI does, but without the CLI: the app writes its templates and assets to a folder."""

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
# Each resource says which construct made it, unless cdk.json forbids it.
_PATHS = "aws:cdk:enable-path-metadata"


class AppFailed(Exception):
    """A CDK app did not synthesize; the message is one sentence without its full stop.

    Attributes:
        output: the output of the app, or empty.
    """

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output.strip()


def synthesise(
    folder: Path, out: Path, *, account: str, region: str, context: Mapping[str, str]
) -> None:
    """Run the app of `folder` (cdk.json) into `out`. Raises AppFailed.

    Args:
        folder: the app's folder; its cdk.context.json, in which the CDK CLI caches lookups, is read too.
        out: the folder for the cloud assembly.
        account: the account of environments that name none.
        region: the region of environments that name none.
        context: context values, which override those of the files.
    """
    settings = _read(folder / "cdk.json")
    kept = folder / "cdk.context.json"
    looked_up = _read(kept) if kept.is_file() else {}
    command = shlex.split(str(settings.get("app", "")))
    if not command:
        raise AppFailed(f"{folder / 'cdk.json'} names no app")
    environment = {
        **os.environ,
        # `python3 app.py` must run with headrace's own packages.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "CDK_OUTDIR": str(out),
        "CDK_DEFAULT_ACCOUNT": account,
        "CDK_DEFAULT_REGION": region,
        "CDK_CONTEXT_JSON": json.dumps(
            {
                _PATHS: settings.get("pathMetadata", True),
                **settings.get("context", {}),
                **looked_up,
                **context,
            }
        ),
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
        document: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AppFailed(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise AppFailed(f"{path} is not a JSON object")
    return cast("dict[str, Any]", document)
