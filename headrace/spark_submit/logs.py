"""A job's logs: what it printed, why it failed, and their way to S3."""

from __future__ import annotations

import gzip
import logging
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import BucketNotFound, ObjectStore
from headrace.spark_submit.limits import KEEP_LOGS_EVERY_S, LONGEST_MESSAGE, STDERR_TAIL_BYTES

log = logging.getLogger(__name__)

LOGS = ("controller", "stdout", "stderr", "syslog")
# A Python or Java exception at the start of a line: its name, then what it says.
_EXCEPTION = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" |Caused by: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)$"
)


def failure_cause(stderr: str, stdout: str, exit_code: int | None) -> tuple[str, str]:
    """Return the log and the sentence that best say why a command failed, from the ends of what it wrote.

    The last exception that the program printed (Spark sends a Python driver's traceback to stdout); else the last
    line of stderr; else the exit code.
    """
    logs = {
        name: [line.rstrip() for line in text.splitlines() if line.strip()]
        for name, text in (("stderr", stderr), ("stdout", stdout))
    }
    for name, lines in logs.items():
        for line in reversed(lines):
            found = _EXCEPTION.match(line)
            if found:
                return name, found[1][:LONGEST_MESSAGE]
    if logs["stderr"]:
        return "stderr", logs["stderr"][-1].strip()[:LONGEST_MESSAGE]
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
    """Return the bucket and the key prefix of the logs in `below/` of an S3 URI; None when it is none."""
    scheme, _, rest = log_uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme not in ("s3", "s3n", "s3a") or not bucket:
        return None
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return bucket, f"{prefix}{below}/"


class LogKeeper:
    """Puts the logs of one running job where they belong, now and then. Used by one thread at a time.

    A log that has not grown is not put again, and packing takes a twentieth of the time at most, however long
    the logs are.
    """

    def __init__(self, clock: Clock, objects: ObjectStore, names: Sequence[str] = LOGS) -> None:
        self._clock = clock
        self._objects = objects
        self._names = names
        self._sizes: dict[str, int] = {}
        self._next_s = clock.monotonic_s() + KEEP_LOGS_EVERY_S

    def keep(self, folder: Path, location: tuple[str, str]) -> None:
        """Put the logs that have grown, if it is time."""
        begun_s = self._clock.monotonic_s()
        if begun_s < self._next_s:
            return
        sizes = {name: (folder / name).stat().st_size for name in self._names}
        grown = [name for name in self._names if sizes[name] != self._sizes.get(name)]
        took_s = 0.0
        if grown:
            # Without its bucket, the end of the job says so once more; until then there is nothing to try.
            if not archive(self._objects, folder, location, grown):
                self._next_s = math.inf
                return
            self._sizes = sizes
            took_s = self._clock.monotonic_s() - begun_s
        self._next_s = begun_s + max(KEEP_LOGS_EVERY_S, 20 * took_s)


def archive(
    objects: ObjectStore, folder: Path, location: tuple[str, str], names: Sequence[str] = LOGS
) -> bool:
    """Put a job's logs, compressed, where they belong; return False, and report it, if the bucket is missing."""
    bucket, prefix = location
    for name in names:
        plain, packed = folder / name, folder / "packed" / f"{name}.gz"
        plain.touch()
        packed.parent.mkdir(exist_ok=True)
        # mtime 0: the same log gives the same bytes, so putting it again after a crash changes nothing.
        with (
            plain.open("rb") as source,
            packed.open("wb") as file,
            gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as target,
        ):
            shutil.copyfileobj(source, target)
        try:
            objects.put(bucket, f"{prefix}{name}.gz", packed, content_type="application/x-gzip")
        except BucketNotFound:
            log.warning("logs of %s stay in %s: there is no bucket %s", prefix, folder, bucket)
            return False
        finally:
            packed.unlink()
    return True


def remove_scratch(folder: Path) -> None:
    """Remove what a job needed only while it ran; its logs stay."""
    for name in ("work", "tmp", "conf", "packed"):
        shutil.rmtree(folder / name, ignore_errors=True)
