"""Creates the folders and the environment variables that every job's process needs."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.spark_submit.access import MODE_VARIABLE
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.utf8 import utf8_environment


def make_folders(folder: Path) -> Path:
    """Create the folders that a job's process needs below the job's folder; return its working directory."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return work


def make_hdfs(cluster: Path) -> Path:
    """Create the folder of a cluster's `hdfs:///`, with the folders that EMR's has; return it."""
    for name in ("tmp", "user/hadoop"):
        (cluster / "hdfs" / name).mkdir(parents=True, exist_ok=True)
    return cluster / "hdfs"


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
    """Return every job's environment: credentials, region and endpoint, and no secrets of the cloud's own environment.

    `role` is the job's role in `JobCredentials`' form, `session` its session name, and the policies are the session
    policies that limit the role for this job.
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
