"""A step's folder, and its logs on their way to LogUri."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import ObjectStore
from headrace.services.emr.model import Cluster, Step
from headrace.spark_submit.logs import LOGS, LogKeeper, archive, log_location, remove_scratch


class StepLogs:
    """The logs of one cluster's steps. Used by one thread at a time."""

    def __init__(self, clock: Clock, objects: ObjectStore, folder: Path, cluster: Cluster) -> None:
        self._clock = clock
        self._objects = objects
        self._folder = folder
        self._cluster = cluster
        self._keepers: dict[str, LogKeeper] = {}

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
        return folder

    def location(self, step: Step) -> tuple[str, str] | None:
        """Return the bucket and key prefix of a step's logs; None when they go nowhere."""
        uri = self._cluster.log_uri
        return None if uri is None else log_location(uri, f"{step.cluster_id}/steps/{step.id}")

    def note(self, step: Step, text: str) -> None:
        """Write a line to the step's controller log."""
        note(self.folder(step), self._clock, text)

    def keep(self, step: Step) -> None:
        """Put the logs of a running step where they belong, if it is time."""
        location = self.location(step)
        if location is not None:
            keeper = self._keepers.setdefault(step.id, LogKeeper(self._clock, self._objects))
            keeper.keep(self.folder(step), location)

    def store(self, step: Step) -> None:
        """Put the logs of a step that has ended where they belong, and remove what it needed to run."""
        folder, location = self.folder(step), self.location(step)
        if folder.is_dir():
            if location is not None:
                archive(self._objects, folder, location)
            remove_scratch(folder)
        self._keepers.pop(step.id, None)


def note(folder: Path, clock: Clock, text: str) -> None:
    """Write a line to the controller log in a folder, if there is one."""
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    if folder.is_dir():
        with (folder / "controller").open("a") as file:
            file.write(f"{now:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")
