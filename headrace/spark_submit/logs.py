"""A job's logs: finds the cause of a failure in them, and stores them in S3.

Writes a job's log `controller`, which has one line for each event of the job, in EMR's format.
"""

from __future__ import annotations

import gzip
import logging
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import BucketNotFound, ObjectStore
from headrace.core.values import moment
from headrace.spark_submit.job_context import AccessDenied

CONTROLLER = "controller"
# How often a running job's logs are copied to S3. AWS: "every 5 minutes" (EMR on EC2), which is long for a laptop.
KEEP_LOGS_EVERY_S = 2.0
# How much of the end of stderr is searched for the cause of a failure.
STDERR_TAIL_BYTES = 64 * 1024
LONGEST_MESSAGE = 1024


def note(controller: Path, now_ms: int, text: str) -> None:
    """Add a line to a controller log, in EMR's format. Raises OSError."""
    with controller.open("a", errors="replace") as file:
        file.write(f"{moment(now_ms):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")


def note_in(folder: Path, now_ms: int, text: str) -> None:
    """Add a line to the log `controller` of the job in a folder, if it has one. Raises OSError."""
    controller = folder / CONTROLLER
    if controller.is_file():
        note(controller, now_ms, text)


log = logging.getLogger(__name__)

LOGS = (CONTROLLER, "stdout", "stderr", "syslog")
# A Python or Java exception at the start of a line: its name, then its message.
_EXCEPTION = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" |Caused by: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)$"
)

# What the JVM and Spark's logger say of themselves, not of the program: never the cause while there is another line.
_OF_MACHINE = re.compile(
    r"WARNING: |OpenJDK .* warning: |Picked up \w+: |(?:[\d/: -]+ )?(?:TRACE|DEBUG|INFO|WARN) \w+: "
)


def failure_cause(stderr: str, stdout: str, exit_code: int | None) -> tuple[str, str]:
    """Return the log and the sentence that best explain why a command failed, from the ends of its output.

    The sentence is the last exception that the program printed, else the last line of stderr that is the program's. Of
    Spark's stderr nothing is, when a Python driver wrote it: that goes to stdout. Else it is the exit code.
    """
    logs = {
        name: [line.rstrip() for line in text.splitlines() if line.strip()]
        for name, text in (("stderr", stderr), ("stdout", stdout))
    }
    for name, lines in logs.items():
        for line in reversed(lines):
            match = _EXCEPTION.match(line)
            if match:
                return name, match[1][:LONGEST_MESSAGE]
    own = [line for line in logs["stderr"] if not _OF_MACHINE.match(line)]
    of_driver = logs["stdout"] if logs["stderr"] else []
    for name, lines in (("stderr", own), ("stdout", of_driver), ("stderr", logs["stderr"])):
        if lines:
            return name, lines[-1].strip()[:LONGEST_MESSAGE]
    return "stderr", f"The command ended with exit code {exit_code} and wrote nothing to stderr."


def tail(path: Path, most_bytes: int = STDERR_TAIL_BYTES) -> str:
    """Return the end of a text file; empty when there is none."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - most_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def log_location(log_uri: str, below: str) -> tuple[str, str] | None:
    """Return the bucket and the key prefix for logs under `below/` at an S3 URI; None for an invalid URI."""
    scheme, _, rest = log_uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme not in ("s3", "s3n", "s3a") or not bucket:
        return None
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return bucket, f"{prefix}{below}/"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The logs in one folder, and their place in S3: each is stored as `<prefix><name>.gz`."""

    folder: Path
    names: Sequence[str]
    bucket: str
    prefix: str


class JobLogs:
    """Copies the logs of one job to S3. Used by one thread at a time.

    Args:
        folder: the job's folder.
        places: its logs that go to S3; empty when they stay on this machine.
    """

    def __init__(
        self, clock: Clock, objects: ObjectStore, folder: Path, places: Sequence[LogPlace]
    ) -> None:
        self._objects = objects
        self._folder = folder
        self._places = places
        self._keepers = [_LogKeeper(clock, objects, location) for location in places]

    def keep(self) -> None:
        """Put the running job's logs that have grown, if they are due."""
        for keeper in self._keepers:
            keeper.keep()

    def store(self, *also: LogPlace) -> None:
        """Put the ended job's logs, `also` to other places; remove the files that it needed only while it ran."""
        if not self._folder.is_dir():
            return
        for location in (*self._places, *also):
            _archive(self._objects, location)
            _remove_scratch(location.folder)
        _remove_scratch(self._folder)


class _LogKeeper:
    """Puts the logs of one place to S3 at intervals.

    A log that has not grown is not put again. Compression takes at most a twentieth of the time, even for long logs.
    """

    def __init__(self, clock: Clock, objects: ObjectStore, location: LogPlace) -> None:
        self._clock = clock
        self._objects = objects
        self._place = location
        self._sizes: dict[str, int] = {}
        self._next_s = clock.monotonic_s() + KEEP_LOGS_EVERY_S

    def keep(self) -> None:
        begun_s = self._clock.monotonic_s()
        if begun_s < self._next_s:
            return
        names = self._place.names
        sizes = {name: (self._place.folder / name).stat().st_size for name in names}
        grown = [name for name in names if sizes[name] != self._sizes.get(name)]
        took_s = 0.0
        if grown:
            # They cannot be put there. Do not try again until the job ends, when the error is reported once more.
            if not _archive(self._objects, replace(self._place, names=grown)):
                self._next_s = math.inf
                return
            self._sizes = sizes
            took_s = self._clock.monotonic_s() - begun_s
        self._next_s = begun_s + max(KEEP_LOGS_EVERY_S, 20 * took_s)


def _archive(objects: ObjectStore, location: LogPlace) -> bool:
    """Put compressed logs in S3; return False, and report it, if the bucket is missing."""
    folder = location.folder
    for name in location.names:
        plain, packed = folder / name, folder / "packed" / f"{name}.gz"
        plain.touch()
        packed.parent.mkdir(exist_ok=True)
        # With mtime 0 the same log gives the same bytes, so putting it again after a crash changes nothing.
        with (
            plain.open("rb") as source,
            packed.open("wb") as file,
            gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as target,
        ):
            shutil.copyfileobj(source, target)
        try:
            objects.put(
                location.bucket,
                f"{location.prefix}{name}.gz",
                packed,
                content_type="application/x-gzip",
            )
        except BucketNotFound:
            log.warning(
                "logs of %s stay in %s: there is no bucket %s",
                location.prefix,
                folder,
                location.bucket,
            )
            return False
        except AccessDenied as error:
            log.warning("logs of %s stay in %s: %s", location.prefix, folder, error)
            return False
        finally:
            packed.unlink()
    return True


def _remove_scratch(folder: Path) -> None:
    """Remove the files that a job needed only while it ran; keep its logs."""
    for name in ("work", "archives", "tmp", "conf", "packed"):
        shutil.rmtree(folder / name, ignore_errors=True)
