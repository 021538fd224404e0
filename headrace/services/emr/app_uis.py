"""Clusters' persistent application UIs, and the URLs of application UIs in this cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from headrace.services.emr.state import Cluster, Step, StepState, Store
from headrace.services.emr.step_logs import application_of
from headrace.spark_submit.configuration import event_logs, live_url
from headrace.spark_submit.page_paths import HISTORY_PATH, STATUS_PATH, history_path
from headrace.store.database import Database


@dataclass(slots=True, kw_only=True)
class PersistentUi:
    """A persistent application UI; times are epoch milliseconds."""

    id: str
    account: str
    region: str
    cluster_id: str
    created_ms: int
    tags: dict[str, str] = field(default_factory=dict[str, str])


class AppUis:
    """The UIs of all applications. Thread-safe; a UI is durable when `add` returns.

    Args:
        folder: EMR's folder, with a folder for each cluster.
        endpoint_url: the cloud's URL.
    """

    def __init__(
        self, database: Database, store: Store, folder: Path, endpoint_url: Callable[[], str]
    ) -> None:
        self._documents = database.documents("emr_persistent_app_uis")
        self._store = store
        self._folder = folder
        self._endpoint_url = endpoint_url

    def add(self, ui: PersistentUi) -> None:
        """Store a persistent UI."""
        self._documents.put(ui.id, msgspec.to_builtins(ui))

    def find(self, ui_id: str, *, account: str, region: str) -> PersistentUi | None:
        """Return a persistent UI of an account and region, or None."""
        value = self._documents.get(ui_id)
        if value is None:
            return None
        ui = msgspec.convert(value, PersistentUi)
        return ui if (ui.account, ui.region) == (account, region) else None

    def history(self, cluster_id: str, application_id: str | None) -> str | None:
        """Return the URL of one application's history, or of all applications'; None for an unknown application."""
        if application_id is None:
            return f"{self._endpoint_url()}{HISTORY_PATH}"
        application = self._application(cluster_id, application_id)
        return (
            None if application is None else f"{self._endpoint_url()}{history_path(application[1])}"
        )

    def live(self, cluster_id: str, application_id: str) -> str | None:
        """Return the URL of a running application's UI; None when it does not run."""
        application = self._application(cluster_id, application_id)
        if application is None or application[0].state not in (
            StepState.RUNNING,
            StepState.CANCEL_PENDING,
        ):
            return None
        return live_url(self._step_folder(application[0]))

    def status(self, cluster_id: str) -> str:
        """Return the URL of the cluster's status page."""
        return f"{self._endpoint_url()}{STATUS_PATH}/{cluster_id}"

    def _application(self, cluster_id: str, application_id: str) -> tuple[Step, str] | None:
        """Return an application's step and Spark id. The given id is Spark's, or in cluster mode YARN's."""
        cluster = self._store.cluster(cluster_id)
        for step in reversed(self._store.steps(cluster_id)):
            names = [log.application_id for log in event_logs(self._step_folder(step))]
            if application_id in names:
                return step, application_id
            if names and _yarn_id(cluster, step) == application_id:
                return step, names[-1]
        return None

    def _step_folder(self, step: Step) -> Path:
        return self._folder / step.cluster_id / step.id


def _yarn_id(cluster: Cluster, step: Step) -> str | None:
    application = application_of(cluster, step)
    return None if application is None else application.id
