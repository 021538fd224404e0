"""What the process of every job is given: its folders, and its environment."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.spark_submit.access import MODE_VARIABLE
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.utf8 import utf8_environment


def make_folders(folder: Path) -> Path:
    """Make the folders that a job's process needs below the job's own; return the one it starts in."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return work


def job_environment(
    context: JobContext,
    folder: Path,
    *,
    account: str,
    region: str,
    role: str,
    session: str,
    policy: str = "",
    policy_arns: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return what every job's environment holds: credentials, region and endpoint; nothing of the cloud's own.

    `role` is the job's, as `JobCredentials` takes it, `session` the name under which it acts, and the policies those
    that limit the role for this job.
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TZ", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        "PATH": os.defpath,
        **kept,
        **utf8_environment(os.environ),
        **context.credentials(account, role, session, policy, policy_arns),
        "AWS_ENDPOINT_URL": context.endpoint_url(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        **({MODE_VARIABLE: context.access.mode} if context.file_system else {}),
        "TMPDIR": str(folder / "tmp"),
    }
