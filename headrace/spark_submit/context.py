"""What this cloud gives to every job, and what a job's process is started with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.core.ports import JobCredentials, ObjectStore, any_credentials
from headrace.spark_submit.access import FILE_SYSTEM, AnyAccess, JobAccess, RoleObjects
from headrace.spark_submit.sparks import Sparks


@dataclass(frozen=True, slots=True)
class Command:
    """What a job's process is started with: its arguments, its environment, and the folder it starts in.

    `notes` are what the job's log says of it before it is started.
    """

    arguments: list[str]
    environment: dict[str, str]
    cwd: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobContext:
    """What this cloud gives to every job.

    Attributes:
        objects: where `s3://` URIs lead.
        endpoint_url: this cloud's.
        cores: how many tasks a Spark job runs at a time.
        credentials: gives what a job signs with when it asks something of this cloud.
        sparks: chooses the Spark of each job.
        access: says what the job's role may do.
        file_system: the class that answers for the job's `s3://`; empty for Hadoop's own, which nobody judges.
    """

    objects: ObjectStore
    endpoint_url: Callable[[], str]
    cores: int
    credentials: JobCredentials = any_credentials
    sparks: Sparks = field(default_factory=Sparks)
    access: JobAccess = field(default_factory=AnyAccess)
    file_system: str = ""

    def as_role(self, account: str, role: str, session: str) -> JobContext:
        """Return what the cloud gives to a job of this role: what it does in S3 is judged."""
        if not role or self.access.mode == "off":
            return self
        objects = RoleObjects(self.objects, self.access, account, role, session)
        return replace(self, objects=objects, file_system=FILE_SYSTEM)
