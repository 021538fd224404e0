"""Spark's history server for all event logs of a cloud, and the bounds of these logs.

Runs Spark's history server for all event logs of a cloud, as a process that ends with its parent.

The server lists one folder, so `<data directory>/spark-history/logs` has a link to each event log of each job.

Limits the size of Spark's event logs: of each running job's log, and of all logs of a cloud together.

A log that is too long loses files from its middle, oldest first: its first file describes the application, and its last
ones the current state. Files are emptied, not deleted, because Spark's history server refuses a log with a missing
file. When all logs together are too large, the logs of the jobs that ended first are deleted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.core.clock import Clock
from headrace.core.extras import minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit.configuration import (
    EventLog,
    build_logging_file,
    event_logs_in,
    properties_file,
)
from headrace.spark_submit.emr_releases import traits_of
from headrace.spark_submit.environments import version_at
from headrace.spark_submit.job import STOP_GRACE_S, JobProcess
from headrace.spark_submit.job_context import require_utf8, utf8_environment
from headrace.spark_submit.logs import failure_cause, tail
from headrace.spark_submit.sparks import find_java, find_newest_spark_home

log = logging.getLogger(__name__)

# About a day of a micro-batch each second.
MOST_APPLICATION_BYTES = 64 * 1024 * 1024
MOST_TOTAL_BYTES = 1024 * 1024 * 1024
LOOK_EVERY_S = 30.0
# The file that Spark writes to, and the one before, which may still be open.
_NEWEST_KEPT = 2
# The content of an empty file, by suffix; for zstd (RFC 8878) a frame with one empty raw block.
_EMPTY = {".zstd": bytes.fromhex("28b52ffd2000010000"), "": b""}


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    job: Path
    bytes: int
    changed_ns: int


class EventLogBounds:
    """The worker that enforces the limits, and updates the links that the history server lists."""

    name = "spark-event-logs"

    def __init__(
        self,
        data_dir: Path,
        *,
        most_application_bytes: int = MOST_APPLICATION_BYTES,
        most_total_bytes: int = MOST_TOTAL_BYTES,
    ) -> None:
        self._data_dir = data_dir
        self._most_application_bytes = most_application_bytes
        self._most_total_bytes = most_total_bytes

    def step(self) -> float:
        """Shorten and remove logs until they are within the limits; see `Worker.step`."""
        logs: list[_Found] = []
        for events in event_log_folders(self._data_dir):
            for event_log in event_logs_in(events):
                # A job may be removed meanwhile, together with its log.
                with contextlib.suppress(FileNotFoundError):
                    shorten(event_log.path, self._most_application_bytes)
                    size_bytes, changed_ns = _size(event_log.path)
                    logs.append(_Found(event_log.path, events.parent, size_bytes, changed_ns))
        self._remove_oldest(logs)
        link_event_logs(self._data_dir)
        return LOOK_EVERY_S

    def _remove_oldest(self, logs: list[_Found]) -> None:
        total_bytes = sum(one.bytes for one in logs)
        for one in sorted(logs, key=lambda one: one.changed_ns):
            if total_bytes <= self._most_total_bytes:
                return
            process = JobProcess.find(one.job)
            if process is not None and process.exit_code is None and process.alive:
                continue
            log.info(
                "event log %s is removed: all are over %d bytes", one.path, self._most_total_bytes
            )
            if one.path.is_dir():
                shutil.rmtree(one.path, ignore_errors=True)
            else:
                one.path.unlink(missing_ok=True)
            total_bytes -= one.bytes


def shorten(event_log: Path, most_bytes: int) -> None:
    """Empty the oldest files, except the first, of a rolled log until the rest is within the limit."""
    if not event_log.is_dir():
        return
    files = sorted(event_log.glob("events_*"), key=_index)
    total_bytes = sum(file.stat().st_size for file in files)
    for file in files[1:-_NEWEST_KEPT]:
        empty, size_bytes = _EMPTY.get(file.suffix), file.stat().st_size
        if total_bytes <= most_bytes:
            return
        if empty is None or size_bytes <= len(empty):
            continue
        # Atomically: a history server may be reading.
        partial = file.with_name(f".{file.name}.partial")
        partial.write_bytes(empty)
        partial.replace(file)
        total_bytes -= size_bytes - len(empty)


def _index(file: Path) -> int:
    """Return the number of a rolled file: `events_<number>_<application>[.<codec>]`."""
    number = file.name.split("_")[1]
    return int(number) if number.isdigit() else 0


def _size(event_log: Path) -> tuple[int, int]:
    """Return a log's size in bytes, and its last change in nanoseconds."""
    files = [event_log, *event_log.iterdir()] if event_log.is_dir() else [event_log]
    stats = [file.stat() for file in files]
    return sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)


FOLDER = "spark-history"
START_WITHIN_S = 60.0
# How long the server may take to list a new log; it scans its folder at intervals.
LIST_WITHIN_S = 15.0
_LOOK_EVERY_S = 0.1
# How much of the server's output is searched for its port.
_HEAD_CHARS = 256 * 1024
# The event log folders of EMR's steps and EMR Serverless's attempts.
_EVENT_FOLDERS = ("emr/*/*/events", "emr-serverless/*/*/*/events")
_MAIN = "org.apache.spark.deploy.history.HistoryServer"
_STARTED = re.compile(r"Successfully started service 'HistoryServerUI' on port (\d+)\.")

# The standard input is a pipe from the parent process. When the parent ends for any reason, also kill -9, `cat` reaches
# the pipe's end and the shell ends the server. This works without prctl.
_WRAPPER = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
(cat <&3 >/dev/null; kill -TERM $server 2>/dev/null) &
watcher=$!
wait $server
kill $watcher 2>/dev/null
"""

_LOGGING = """\
logger.port.name = org.apache.spark.util.Utils
logger.port.level = info
"""


def event_log_folders(data_dir: Path) -> Iterator[Path]:
    """Return the folders that hold jobs' event logs."""
    for pattern in _EVENT_FOLDERS:
        yield from data_dir.glob(pattern)


def link_event_logs(data_dir: Path) -> dict[str, EventLog]:
    """Update the history server's folder to have a link to each event log; return the links by application id.

    Processes may call this concurrently.
    """
    logs = data_dir.absolute() / FOLDER / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    by_name = {
        log.path.name: log
        for events in event_log_folders(data_dir.absolute())
        for log in event_logs_in(events)
    }
    for link in logs.iterdir():
        log = by_name.get(link.name)
        with contextlib.suppress(OSError):
            if log is None or link.readlink() != _target(log, logs):
                link.unlink()
    for name, log in by_name.items():
        with contextlib.suppress(FileExistsError):
            (logs / name).symlink_to(_target(log, logs))
    return {log.application_id: log for log in by_name.values()}


def _target(log: EventLog, logs: Path) -> Path:
    # Relative links, because a data directory may be moved.
    return Path(os.path.relpath(log.path, logs))


class HistoryServer:
    """One history server. Used by one thread at a time; `url` and `alive` by any.

    Args:
        data_dir: the cloud's data directory.
        folder: for the server's settings and output.
        port: the port on 127.0.0.1; 0 for any free one.
    """

    def __init__(self, clock: Clock, data_dir: Path, folder: Path, *, port: int = 0) -> None:
        self._clock = clock
        self._logs = data_dir.absolute() / FOLDER / "logs"
        self._folder = folder.absolute()
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._url: str | None = None

    @property
    def output(self) -> Path:
        """The file with the server's output."""
        return self._folder / "output"

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        # Read once, because another thread may be ending it.
        process = self._process
        return process is not None and process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Whether the process was started, and has ended by itself."""
        return self._process is not None and not self.alive

    @property
    def url(self) -> str | None:
        """The server's URL; None until it listens."""
        if not self.alive:
            return None
        if self._url is None:
            with self.output.open(errors="replace") as output:
                started = _STARTED.search(output.read(_HEAD_CHARS))
            self._url = f"http://127.0.0.1:{started[1]}" if started else None
        return self._url

    def start(self) -> None:
        """Start the process. Raises JobRefused when Spark or Java is missing, or the port is taken."""
        home, java_home = find_newest_spark_home(), find_java()
        if not (home / "bin" / "spark-class").is_file():
            raise JobRefused(
                f"{home} has no bin/spark-class: the history server cannot be started."
            )
        require_utf8(os.environ, self._folder, self._logs, home)
        _require_free(self._port)
        conf = self._folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        (conf / "spark-defaults.conf").write_text(
            properties_file(self._properties()), encoding="ascii"
        )
        version = version_at(home)
        name, logging = build_logging_file(
            traits_of((4, 0) if version is None else minor_of(version))
        )
        (conf / name).write_text(logging + _LOGGING)
        self._url = None
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    _WRAPPER,
                    "headrace-history",
                    str(home / "bin" / "spark-class"),
                    _MAIN,
                ],
                env=self._environment(home, java_home),
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait(self, stop: threading.Event | None = None) -> str:
        """Wait until the server listens; return its URL.

        Args:
            stop: ends the wait when it is set.

        Raises:
            JobRefused: the server ends, takes too long, or `stop` is set.
        """
        stop = stop or threading.Event()
        deadline_s = self._clock.monotonic_s() + START_WITHIN_S
        while self._clock.monotonic_s() < deadline_s:
            url = self.url
            if url is not None:
                return url
            if not self.alive:
                printed = tail(self.output)
                cause = failure_cause(printed, "", None)[1] if printed else "it said nothing"
                raise JobRefused(f"Spark's history server ended: {cause}")
            if self._clock.wait(stop, _LOOK_EVERY_S):
                raise JobRefused("The wait for Spark's history server was cancelled.")
        # The sentence quotes the output, because `headrace history` removes the folder in which it is.
        lines = tail(self.output).strip().splitlines()
        said = f"its last line: {lines[-1]}" if lines else "it said nothing"
        raise JobRefused(
            f"Spark's history server does not listen after {START_WITHIN_S:.0f} s; {said}"
        )

    def stop(self) -> None:
        """End the process, and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _properties(self) -> dict[str, str]:
        return {
            "spark.history.fs.logDirectory": "file://" + quote(str(self._logs)),
            "spark.history.ui.port": str(self._port),
            # The user would not find the server on another port.
            "spark.port.maxRetries": "0",
            "spark.history.fs.update.interval": "2s",
            # headrace itself limits the logs, whether or not a server runs.
            "spark.history.fs.cleaner.enabled": "false",
        }

    def _environment(self, home: Path, java_home: Path | None) -> dict[str, str]:
        kept = ("PATH", "HOME", "TZ", "USER", "LD_LIBRARY_PATH")
        environment = {
            "PATH": os.defpath,
            **{name: os.environ[name] for name in kept if name in os.environ},
            **utf8_environment(os.environ),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            # The address that it binds to.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
        }
        if java_home is not None:
            environment["JAVA_HOME"] = str(java_home)
        return environment


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise JobRefused(
                f"Spark's history server cannot listen on 127.0.0.1:{port}: {error.strerror}."
            ) from None


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LIST_WITHIN_S):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


class HistoryOnDemand:
    """The history server of a running cloud, which starts at its first use. Thread-safe."""

    def __init__(self, clock: Clock, data_dir: Path) -> None:
        self._clock = clock
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._server = HistoryServer(clock, data_dir, data_dir / FOLDER / "server")

    @property
    def url(self) -> str | None:
        """The URL of the server if it listens now."""
        return self._server.url

    def begin(self) -> bool:
        """Start the server unless it runs, and wait for nothing; return whether it is still starting.

        Raises JobRefused when it cannot be started. What has ended by itself is for `ensure` to start, and to explain.
        """
        if not self._lock.acquire(blocking=False):
            return self.url is None
        try:
            if self._stopped.is_set() or self._server.has_ended or self.url is not None:
                return False
            if not self._server.alive:
                self._server.start()
            return True
        finally:
            self._lock.release()

    def ensure(self, application_id: str | None = None) -> str:
        """Start the server unless it runs, and wait until it lists the application; return the page's URL.

        Args:
            application_id: an application whose event log is linked; None for the list of all.

        Raises:
            JobRefused: the server cannot run, or does not list the application in time.
        """
        with self._lock:
            if self._stopped.is_set():
                raise JobRefused("The cloud is being stopped.")
            if not self._server.alive:
                self._server.stop()
                self._server.start()
            url = self._server.wait(self._stopped)
        if application_id is None:
            return f"{url}/"
        name = quote(application_id, safe="")
        deadline_s = self._clock.monotonic_s() + LIST_WITHIN_S
        while not _answers(f"{url}/api/v1/applications/{name}"):
            if self._clock.monotonic_s() > deadline_s or self._stopped.is_set():
                raise JobRefused(
                    f"Spark's history server cannot read the event log of {application_id}; "
                    f"see {self._server.output}"
                )
            self._clock.wait(self._stopped, _LOOK_EVERY_S)
        return f"{url}/history/{name}/jobs/"

    def stop(self) -> None:
        """End the server if it runs; it cannot start again."""
        # A request that waits for the server holds the lock; this ends its wait.
        self._stopped.set()
        with self._lock:
            self._server.stop()
