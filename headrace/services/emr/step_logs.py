"""A step's folder, and its logs on their way to LogUri."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.clock import Clock
from headrace.services.emr.applications import Report, application_of
from headrace.services.emr.state import Cluster, Step, StepState
from headrace.spark_submit.commands import JobContext
from headrace.spark_submit.job_pages import STATUS_PATH
from headrace.spark_submit.logs import LOGS, LogKeeper, archive, log_location, remove_scratch

_PRINTED = ("stdout", "stderr")
_NOTES = ("controller", "syslog")
_CLIENT = "client"


class StepLogs:
    """The logs of one cluster's steps. Used by one thread at a time.

    A process writes to `stdout` and `stderr` of its step's folder. In cluster mode these are the logs of the driver's
    container; the step's own are the report of its client, in the folder `client`.
    """

    def __init__(self, clock: Clock, context: JobContext, folder: Path, cluster: Cluster) -> None:
        self._clock = clock
        self._context = context
        self._folder = folder
        self._cluster = cluster
        # By step, S3 prefix and first log: a step in cluster mode has several.
        self._keepers: dict[tuple[str, str, str], LogKeeper] = {}

    def folder(self, step: Step) -> Path:
        """Return where a step's files are."""
        return self._folder / step.cluster_id / step.id

    def make(self, step: Step) -> Path:
        """Make a step's folder, with empty logs."""
        folder = self.folder(step)
        # An attempt that a kill cut short has left nothing worth keeping.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in LOGS:
            (folder / name).touch()
        if application_of(self._cluster, step) is not None:
            client = folder / _CLIENT
            client.mkdir()
            for name in _PRINTED:
                (client / name).touch()
        return folder

    def location(self, step: Step) -> tuple[str, str] | None:
        """Return the bucket and key prefix of a step's logs; None when they go nowhere."""
        return self._location(step, f"steps/{step.id}")

    def driver_location(self, step: Step) -> tuple[str, str] | None:
        """Return the bucket and key prefix of what a step's program prints; None when it goes nowhere."""
        application = application_of(self._cluster, step)
        if application is None:
            return self.location(step)
        return self._location(step, f"containers/{application.id}/{application.container}")

    def note(self, step: Step, text: str) -> None:
        """Write a line to the step's controller log."""
        note(self.folder(step), self._clock, text)

    def begun(self, step: Step) -> None:
        """Have the client report, in cluster mode, that the driver runs."""
        report = self._report(step)
        if report is not None:
            location = self.driver_location(step)
            where = f"{location[0]}/{location[1]}" if location is not None else None
            log = str(self.folder(step)) if where is None else f"s3://{where}{{stdout,stderr}}.gz"
            report.begin(step.started_ms or 0, log)

    def refused(self, step: Step, message: str) -> None:
        """Write why no process could be started to the step's stderr."""
        folder = self.folder(step)
        if application_of(self._cluster, step) is not None:
            # No container was begun, so none has logs.
            for name in _PRINTED:
                (folder / name).unlink(missing_ok=True)
            folder /= _CLIENT
        if folder.is_dir():
            (folder / "stderr").write_text(f"{message}\n", errors="replace")

    def ended(self, step: Step, state: StepState, diagnostics: str) -> None:
        """Have the client report, in cluster mode, how the driver ended."""
        report = self._report(step)
        if report is not None:
            report.end(state, step.started_ms or 0, diagnostics)

    def keep(self, step: Step) -> None:
        """Put the logs of a running step where they belong, if it is time."""
        for folder, names, location in self._places(step):
            key = (step.id, location[1], names[0])
            keeper = self._keepers.get(key)
            if keeper is None:
                keeper = LogKeeper(self._clock, self._context.objects, names)
                self._keepers[key] = keeper
            keeper.keep(folder, location)

    def store(self, step: Step) -> None:
        """Put the logs of a step that has ended where they belong, and remove what it needed to run."""
        folder = self.folder(step)
        if folder.is_dir():
            for place, names, location in self._places(step):
                archive(self._context.objects, place, location, names)
                remove_scratch(place)
            remove_scratch(folder)
        for key in [key for key in self._keepers if key[0] == step.id]:
            del self._keepers[key]

    def _places(self, step: Step) -> list[tuple[Path, tuple[str, ...], tuple[str, str]]]:
        """Return the folders with logs, which logs these are, and where each goes."""
        folder, location, driver = (
            self.folder(step),
            self.location(step),
            self.driver_location(step),
        )
        if location is None or driver is None:
            return []
        if driver == location:
            return [(folder, LOGS, location)]
        # What is in `client` is put first: it says where the rest is.
        places = [(folder / _CLIENT, _PRINTED, location)]
        if (folder / "stdout").exists():
            places.append((folder, _PRINTED, driver))
        return [*places, (folder, _NOTES, location)]

    def _location(self, step: Step, below: str) -> tuple[str, str] | None:
        uri = step.log_uri_in(self._cluster)
        return None if uri is None else log_location(uri, f"{step.cluster_id}/{below}")

    def _report(self, step: Step) -> Report | None:
        application = application_of(self._cluster, step)
        if application is None or not self.folder(step).is_dir():
            return None
        path = self.folder(step) / _CLIENT / "stderr"
        # The step's status page stands for YARN's tracking URL.
        page = f"{STATUS_PATH}/{self._cluster.id}/{step.id}"
        tracking = f"{self._context.endpoint_url()}{page}"
        return Report(self._clock, path, application, tracking)


def note(folder: Path, clock: Clock, text: str) -> None:
    """Write a line to the controller log in a folder, if there is one."""
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    if folder.is_dir():
        with (folder / "controller").open("a", errors="replace") as file:
            file.write(f"{now:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")
