"""The YARN application of a step in cluster mode, and the report that Spark's YARN client prints about it.

With `--deploy-mode cluster` the driver runs in a container, and its output is the container's log; the step's own log
is the report of the client that waits for it. headrace has no YARN: it derives ids from the cluster and the step, so
that they are the same after a restart, and writes the report in the form of Spark's YARN client (Spark 3.5 and 4,
`org.apache.spark.deploy.yarn.Client`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.clock import Clock
from headrace.services.emr.state import Cluster, Step, StepState
from headrace.services.emr.steps.submission import spark_submission
from headrace.spark_submit.arguments import deploy_mode
from headrace.spark_submit.errors import JobRefused

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
