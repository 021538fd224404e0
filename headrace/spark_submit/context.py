"""The records with which jobs start: how they reach this cloud, and the command of a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.core.ports import JobCredentials, ObjectStore, any_credentials
from headrace.spark_submit.access import FILE_SYSTEM, AnyAccess, JobAccess, RoleObjects
from headrace.spark_submit.sparks import Sparks


@dataclass(frozen=True, slots=True)
class Command:
    """The command of a job's process: its arguments, its environment, and its working directory.

    `notes` are lines that go to the job's log before it starts.
    """

    arguments: list[str]
    environment: dict[str, str]
    cwd: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobContext:
    """How jobs reach this cloud.

    Attributes:
        objects: the object store behind `s3://` URIs.
        endpoint_url: this cloud's URL.
        cores: how many tasks a Spark job runs at a time.
        credentials: provides the credentials for a job's requests to this cloud.
        sparks: chooses the Spark of each job.
        access: decides what the job's role may do.
        file_system: the job's class for `s3://`; empty for Hadoop's own class, whose accesses are not checked.
    """

    objects: ObjectStore
    endpoint_url: Callable[[], str]
    cores: int
    credentials: JobCredentials = any_credentials
    sparks: Sparks = field(default_factory=Sparks)
    access: JobAccess = field(default_factory=AnyAccess)
    file_system: str = ""

    def as_role(self, account: str, role: str, session: str) -> JobContext:
        """Return the context of a job with this role, whose accesses to S3 are checked."""
        if not role or self.access.mode == "off":
            return replace(self, access=AnyAccess(), file_system=FILE_SYSTEM)
        objects = RoleObjects(self.objects, self.access, account, role, session)
        return replace(self, objects=objects, file_system=FILE_SYSTEM)
