"""Checks whether a job's role may access S3: for the files that EMR transfers, and for the job's own accesses.

A job accesses `s3://` as plain files, without requests. `S3OfRole` (`java/S3OfRole.java`), the FileSystem of a job
with a role, reports each access to headrace before it happens, with the role's credentials.

The records with which jobs start: how they reach this cloud, and the command of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from headrace.core.ports import JobCredentials, ObjectInfo, ObjectStore, any_credentials
from headrace.spark_submit import JobRefused
from headrace.spark_submit.sparks import Sparks

# The class, and the folder of headrace's classes on each job's class path.
FILE_SYSTEM = "S3OfRole"
CLASSES = Path(__file__).parent / "java"
# The setting that tells the class whether to wait for an answer: `report` or `enforce`.
MODE_VARIABLE = "HEADRACE_IAM"


class JobAccess(Protocol):
    """Decides what the roles of jobs may do. Thread-safe.

    Attributes:
        mode: `off`, `report` or `enforce`.
    """

    mode: str

    def denial(self, account: str, role: str, session: str, action: str, resource: str) -> str:
        """Return AWS's sentence if a role, in `JobCredentials`' form, may not do an action; empty if it may."""
        ...

    def role_arn(self, account: str, role: str) -> str:
        """Return the ARN of a role in `JobCredentials`' form; empty for none."""
        ...


class AnyAccess:
    """Allows everything, for services that are built without a cloud."""

    mode: str = "off"

    def denial(self, account: str, role: str, session: str, action: str, resource: str) -> str:
        """See `JobAccess.denial`."""
        return ""

    def role_arn(self, account: str, role: str) -> str:
        """See `JobAccess.role_arn`."""
        return ""


class AccessDenied(JobRefused):
    """The job's role may not do an action in S3. The message is that of the exception on EMR's nodes."""

    def __init__(self, what: str, uri: str, sentence: str) -> None:
        # S3A's form, which EMR uses from 7.10 on (assumed: written from Hadoop's S3A documentation).
        super().__init__(
            f"java.nio.file.AccessDeniedException: {uri}: {what} on {uri}:"
            f" software.amazon.awssdk.services.s3.model.S3Exception: {sentence}"
            " (Service: S3, Status Code: 403):AccessDenied"
        )


class RoleObjects:
    """An `ObjectStore` with a role's permissions. `file`, `get`, `put`, `list` and `delete` raise AccessDenied."""

    def __init__(
        self, objects: ObjectStore, access: JobAccess, account: str, role: str, session: str
    ) -> None:
        self._objects = objects
        self._access = access
        self._who = (account, role, session)

    def _ask(self, what: str, action: str, bucket: str, key: str) -> None:
        below = "" if action == "s3:ListBucket" else f"/{key}"
        sentence = self._access.denial(*self._who, action, f"arn:aws:s3:::{bucket}{below}")
        if sentence:
            raise AccessDenied(what, f"s3://{bucket}/{key}", sentence)

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
        kms_key: str = "",
    ) -> str:
        """See `ObjectStore.put`."""
        self._ask("create", "s3:PutObject", bucket, key)
        return self._objects.put(
            bucket,
            key,
            body,
            content_type=content_type,
            content_encoding=content_encoding,
            metadata=metadata,
            kms_key=kms_key,
        )

    def get(self, bucket: str, key: str) -> bytes:
        """See `ObjectStore.get`."""
        self._ask("open", "s3:GetObject", bucket, key)
        return self._objects.get(bucket, key)

    def delete(self, bucket: str, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._ask("delete", "s3:DeleteObject", bucket, key)
        self._objects.delete(bucket, key)

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        self._ask("listStatus", "s3:ListBucket", bucket, prefix)
        return self._objects.list(bucket, prefix)

    def file(self, bucket: str, key: str) -> Path:
        """See `ObjectStore.file`."""
        self._ask("open", "s3:GetObject", bucket, key)
        return self._objects.file(bucket, key)

    def buckets(self) -> Mapping[str, Path]:
        """See `ObjectStore.buckets`. The job's own accesses to files in the buckets' folders are checked one by one."""
        return self._objects.buckets()


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
