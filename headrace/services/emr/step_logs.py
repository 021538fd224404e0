"""What a step leaves to be seen: its logs, and the report of YARN's client.

A process writes to `stdout` and `stderr` in its step's folder; at its end the files become objects in S3. With
`--deploy-mode cluster` the driver runs in a container: these are then the container's logs, and the step's own are the
report of the client that waits for it, in the folder `client`. headrace has no YARN: it derives ids from the cluster
and the step, so that they are the same after a restart, and writes the report in the form of Spark's YARN client (Spark
3.5 and 4, `org.apache.spark.deploy.yarn.Client`).

Here too: the job that a step asks for, which is its `spark-submit` command and the cluster's configuration
classifications.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.core.clock import Clock
from headrace.core.values import get_list, get_mapping
from headrace.services.emr.state import Cluster, Step, StepState, actor_of
from headrace.spark_submit import STATUS_PATH, JobRefused
from headrace.spark_submit.arguments import (
    Submission,
    deploy_mode,
    parse_submission,
    with_file_options,
)
from headrace.spark_submit.job_context import JobContext
from headrace.spark_submit.logs import LOGS, JobLogs, LogPlace, log_location

_PRINTED = ("stdout", "stderr")
_NOTES = ("controller", "syslog")
_CLIENT = "client"


class StepLogs:
    """The logs of one step. Used by one thread at a time.

    Args:
        root: EMR's folder, with a folder for each cluster.

    Attributes:
        folder: the step's folder.
        application: the step's YARN application; None unless it runs in cluster mode.
        in_s3: copies the step's logs to S3, while it runs and when it has ended.
    """

    def __init__(
        self,
        clock: Clock,
        context: JobContext,
        root: Path,
        cluster: Cluster,
        step: Step,
    ) -> None:
        application = application_of(cluster, step)
        self.folder = root / cluster.id / step.id
        self._clock = clock
        # On EMR, the node's agent writes them with the instance profile, not with a step's runtime role.
        role, session = actor_of(cluster)
        uri, below = step.log_uri_in(cluster), f"{cluster.id}/steps/{step.id}"
        self._objects = context.as_role(cluster.account, role, session).objects
        self._step = step
        self.application = application
        self._location = None if uri is None else log_location(uri, below)
        self._driver_location = self._location
        self._report: Report | None = None
        if application is not None:
            below = f"{cluster.id}/containers/{application.id}/{application.container}"
            self._driver_location = None if uri is None else log_location(uri, below)
            # The step's status page replaces YARN's tracking URL.
            tracking = f"{context.endpoint_url()}{STATUS_PATH}/{cluster.id}/{step.id}"
            self._report = Report(clock, self.folder / _CLIENT / "stderr", application, tracking)
        self._places: list[LogPlace] = []
        self._driver_place: LogPlace | None = None
        if self._location is not None and self._driver_location is not None:
            if application is None:
                self._places = [LogPlace(self.folder, LOGS, *self._location)]
            else:
                # The client's logs come first: they tell where the driver's logs are.
                client = LogPlace(self.folder / _CLIENT, _PRINTED, *self._location)
                notes = LogPlace(self.folder, _NOTES, *self._location)
                self._driver_place = LogPlace(self.folder, _PRINTED, *self._driver_location)
                self._places = [client, self._driver_place, notes]
        self.in_s3 = JobLogs(clock, self._objects, self.folder, self._places)

    def make_client_folder(self) -> None:
        """Create the folder for the client's report, with empty logs."""
        client = self.folder / _CLIENT
        client.mkdir()
        for name in _PRINTED:
            (client / name).touch()

    def uri(self, name: str) -> str | None:
        """Return where one of the step's logs goes in S3; None when it stays on this machine."""
        return _uri(self._location, name)

    def driver_uri(self, name: str) -> str | None:
        """Return where a log of the step's program goes in S3; None when it stays on this machine."""
        return _uri(self._driver_location, name)

    def report_start(self) -> None:
        """In cluster mode, write to the client's report that the driver runs."""
        if self._report is not None:
            driver_location = self._driver_location
            log = str(self.folder)
            if driver_location is not None:
                log = f"s3://{driver_location[0]}/{driver_location[1]}{{stdout,stderr}}.gz"
            self._report.begin(self._step.started_ms or 0, log)

    def write_refusal(self, message: str) -> None:
        """Write to the step's stderr why its process could not start."""
        folder = self.folder
        if self.application is not None:
            # No container started, so there are no container logs.
            for name in _PRINTED:
                (folder / name).unlink(missing_ok=True)
            places = [location for location in self._places if location is not self._driver_place]
            self.in_s3 = JobLogs(self._clock, self._objects, folder, places)
            folder /= _CLIENT
        if folder.is_dir():
            (folder / "stderr").write_text(f"{message}\n", errors="replace")

    def report_end(self, state: StepState, diagnostics: str) -> None:
        """In cluster mode, write to the client's report how the driver ended."""
        if self._report is not None and self.folder.is_dir():
            self._report.end(state, self._step.started_ms or 0, diagnostics)


def _uri(location: tuple[str, str] | None, name: str) -> str | None:
    return None if location is None else f"s3://{location[0]}/{location[1]}{name}.gz"


_FINAL = {
    StepState.COMPLETED: ("FINISHED", "SUCCEEDED"),
    StepState.FAILED: ("FINISHED", "FAILED"),
    StepState.CANCELLED: ("KILLED", "KILLED"),
}
_AT = "org.apache.spark.deploy.yarn.Client.run(Client.scala)"


@dataclass(frozen=True, slots=True)
class Application:
    """The YARN application of a step.

    Attributes:
        id: `application_<creation time of the cluster, epoch milliseconds>_<number of the step>`.
        container: the id of the container with the driver.
        in_python: whether the driver's program is Python, which Spark starts as a separate process.
    """

    id: str
    container: str
    in_python: bool

    @property
    def failure(self) -> str:
        """The client's exception for a failed application."""
        return (
            'Exception in thread "main" org.apache.spark.SparkException: '
            f"Application {self.id} finished with failed status"
        )

    def diagnostics(self, exit_code: int, cause: str) -> str:
        """YARN's diagnostics of a failed driver (from Spark's ApplicationMaster)."""
        if self.in_python:
            return f"User application exited with status {exit_code}"
        return f"User class threw exception: {cause}"


def application_of(cluster: Cluster, step: Step) -> Application | None:
    """Return the application of a step in cluster mode; None for any other step."""
    try:
        submitted = spark_submission(cluster, step)
        if submitted is None or deploy_mode(*submitted) != "cluster":
            return None
    except JobRefused:
        return None
    number = f"{cluster.created_ms}_{step.number:04d}"
    in_python = not submitted[0].application.endswith(".jar")
    return Application(f"application_{number}", f"container_{number}_01_000001", in_python)


class Report:
    """The file with the stderr of one application's client. Used by one thread at a time."""

    def __init__(self, clock: Clock, path: Path, application: Application, tracking: str) -> None:
        self._clock = clock
        self._path = path
        self._application = application
        self._tracking = tracking

    def begin(self, started_ms: int, driver_log: str | None) -> None:
        """Write that the application was submitted and runs, and where the driver's log is."""
        name = self._application.id
        self._write(
            f"INFO Client: Submitting application {name} to ResourceManager",
            f"INFO YarnClientImpl: Submitted application {name}",
        )
        if driver_log is not None:
            self._write(f"INFO headrace: what the driver prints goes to {driver_log}")
        self._write(*self._report("ACCEPTED", "UNDEFINED", started_ms, "N/A"))
        self._write(*self._report("RUNNING", "UNDEFINED", started_ms, "N/A"))

    def end(self, state: StepState, started_ms: int, diagnostics: str) -> None:
        """Write how the application ended. A repeated call, after a kill of the cloud, writes nothing."""
        if not self._path.is_file() or "final status: " not in self._path.read_text():
            return
        yarn, final = _FINAL[state]
        if f"(state: {yarn})" in self._path.read_text():
            return
        self._write(*self._report(yarn, final, started_ms, diagnostics or "N/A"))
        if state is StepState.FAILED:
            self._write(f"ERROR Client: Application diagnostics message: {diagnostics}")
            self._plain(f"{self._application.failure}\n\tat {_AT}\n")
        elif state is StepState.CANCELLED:
            killed = f"Application {self._application.id} is killed"
            self._plain(
                f'Exception in thread "main" org.apache.spark.SparkException: {killed}\n\tat {_AT}\n'
            )
        self._write("INFO ShutdownHookManager: Shutdown hook called")

    def _report(self, yarn: str, final: str, started_ms: int, diagnostics: str) -> list[str]:
        running = yarn != "ACCEPTED"
        details = {
            "client token": "N/A",
            "diagnostics": diagnostics,
            "ApplicationMaster host": "127.0.0.1" if running else "N/A",
            "ApplicationMaster RPC port": "0" if running else "-1",
            "queue": "default",
            "start time": str(started_ms),
            "final status": final,
            "tracking URL": self._tracking,
            "user": "hadoop",
        }
        lines = "".join(f"\n\t {name}: {value}" for name, value in details.items())
        return [
            f"INFO Client: Application report for {self._application.id} (state: {yarn})",
            f"INFO Client: {lines}",
        ]

    def _write(self, *lines: str) -> None:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        self._plain("".join(f"{now:%y/%m/%d %H:%M:%S} {line}\n" for line in lines))

    def _plain(self, text: str) -> None:
        with self._path.open("a") as file:
            file.write(text)


def spark_submission(cluster: Cluster, step: Step) -> tuple[Submission, dict[str, str]] | None:
    """Return a step's `spark-submit`, whose options name all its files, and the spark-defaults.

    None for other commands. Raises JobRefused.
    """
    if step.jar.rpartition("/")[2] != "command-runner.jar":
        return None
    program, *arguments = runner_arguments(step) or [""]
    if program not in ("spark-submit", "spark-example"):
        return None
    defaults = classification(cluster, "spark-defaults")
    return with_file_options(parse_submission(arguments), defaults, yarn=True), defaults


def runner_arguments(step: Step) -> list[str]:
    """Return the command that command-runner.jar runs: it leaves out empty arguments (observed: Yelp/mrjob #2070)."""
    return [argument for argument in step.args if argument]


def classification(cluster: Cluster, *path: str) -> dict[str, str]:
    """Return the properties of a nested classification of the cluster's Configurations."""
    configurations: list[Any] = cluster.request.get("Configurations") or []
    properties: dict[str, str] = {}
    for name in path:
        matching = [c for c in configurations if c.get("Classification") == name]
        properties = {k: str(v) for c in matching for k, v in get_mapping(c, "Properties").items()}
        configurations = [n for c in matching for n in get_list(c, "Configurations")]
    return properties
