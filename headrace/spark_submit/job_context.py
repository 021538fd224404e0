"""What a job gets of this cloud: how it reaches it, what its role may access in S3, its folders and its environment.

A job accesses `s3://` as plain files, without requests. `S3OfRole` (`java/S3OfRole.java`), the FileSystem of a job
with a role, reports each access to headrace before it happens, with the role's credentials.

Java encodes file names by the locale (`sun.jnu.encoding`): with `LC_ALL=C` it replaces letters outside ASCII by
question marks, and Spark does not find its own classes in such a folder. So a job's environment has a UTF-8 locale: the
cloud's own if it is one, else another one of the machine. Only the encoding changes; language and formats stay.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
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


# The variables that set the locale: all of it, its encoding, the rest. The first one that is set has priority.
VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
# Every system except macOS has C.UTF-8; with glibc before 2.35 only if the distribution adds it.
_UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8", "UTF-8")
_PROBE_WITHIN_S = 30

# Prints the index of the first of several settings that exists on this machine and is UTF-8. It runs in a separate
# process, because trying a locale means setting it for all threads.
_PROBE = """
import json, locale, os, sys
variables, settings = json.loads(sys.argv[1])
for place, setting in enumerate(settings):
    for name in variables:
        os.environ.pop(name, None)
    os.environ.update(setting)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        continue
    if locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8":
        print(place)
        break
"""


def utf8_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a job's locale variables for this environment; unchanged if the machine has no UTF-8 locale."""
    locale = _read_locale(environment)
    utf8_setting = _utf8_setting(tuple(locale.items()))
    return locale if utf8_setting is None else dict(utf8_setting)


def require_utf8(environment: Mapping[str, str], *paths: Path) -> None:
    """Raise JobRefused when Java cannot open one of the paths in the job's locale."""
    beyond = next((path for path in paths if not str(path).isascii()), None)
    if beyond is not None and _utf8_setting(tuple(_read_locale(environment).items())) is None:
        raise JobRefused(
            f"Java cannot name the folder {beyond}: it has letters outside ASCII, and this machine has no UTF-8 locale "
            "(see `locale -a`); install one, such as C.UTF-8, or use a folder with a name in ASCII."
        )


def _read_locale(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in VARIABLES if environment.get(name)}


@functools.cache
def _utf8_setting(
    variables_given: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, str], ...] | None:
    """Return the available UTF-8 setting that is closest to the given one; None if there is none."""
    settings = [dict(variables_given), *_others(dict(variables_given))]
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _PROBE, json.dumps([VARIABLES, settings])],
            # Keep Python from choosing a locale by itself.
            env={"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PATH": os.defpath},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    chosen = done.stdout.strip()
    return tuple(settings[int(chosen)].items()) if chosen else None


def _others(variables_given: Mapping[str, str]) -> list[dict[str, str]]:
    """Return other settings to try, first those that keep the given language and formats."""
    # LC_ALL would override LC_CTYPE, so its value moves to LANG, which sets the rest.
    rest = variables_given.get("LC_ALL") or variables_given.get("LANG") or "C"
    return [
        *({"LANG": rest, "LC_CTYPE": name} for name in _UTF8_LOCALES),
        *({"LANG": "C", "LC_CTYPE": name} for name in _UTF8_LOCALES),
    ]
