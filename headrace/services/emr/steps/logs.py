"""The logs of one step: files in its folder while it runs, and objects in S3.

A process writes to `stdout` and `stderr` in its step's folder. In cluster mode these are the logs of the driver's
container, and the step's own logs are its client's report, in the folder `client`.
"""

from __future__ import annotations

from pathlib import Path

from headrace.core.clock import Clock
from headrace.services.emr.clusters.actor import actor_of
from headrace.services.emr.state import Cluster, Step, StepState
from headrace.services.emr.steps.yarn import Report, application_of
from headrace.spark_submit.context import JobContext
from headrace.spark_submit.logs import LOGS, JobLogs, LogPlace, log_location
from headrace.spark_submit.page_paths import STATUS_PATH

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
        self._objects = context.as_role(cluster.account, role, session).objects
        self._step = step
        self.application = application
        uri, below = step.log_uri_in(cluster), f"{cluster.id}/steps/{step.id}"
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
