"""EMR Serverless whole: its applications, the workers of its job runs, and the one that stops idle applications."""

from __future__ import annotations

import logging
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.aws.service import ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ObjectStore, any_secret
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.emr_serverless.errors import not_found, translate
from headrace.services.emr_serverless.model import Application, ApplicationState, JobRun
from headrace.services.emr_serverless.pages import PATH
from headrace.services.emr_serverless.runner import JobRunner, RunnerPorts
from headrace.services.emr_serverless.store import Store
from headrace.spark_submit.commands import Workshop
from headrace.spark_submit.limits import POLL_S, STOP_GRACE_S
from headrace.store.database import Database

log = logging.getLogger(__name__)

FOLDER = "emr-serverless"


class IdleWatch:
    """The worker that stops applications which have had no job for as long as their autoStop says."""

    name = "emr-serverless-idle"

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    def step(self) -> float:
        """Stop what is due; return the seconds until something may be. Woken by every change."""
        with self._store.lock:
            waits = [self._look_at(application) for application in self._store.applications()]
        return min(waits, default=math.inf)

    def _look_at(self, application: Application) -> float:
        timeout_s = application.idle_timeout_s
        if application.state is not ApplicationState.STARTED or timeout_s is None:
            return math.inf
        runs = self._store.runs(application.id)
        if any(not run.ended for run in runs):
            return math.inf
        now_ms = self._clock.now_ms()
        since_ms = max([application.started_ms, *(run.ended_ms or 0 for run in runs)])
        left_s = timeout_s - (now_ms - since_ms) / 1000
        if left_s > 0:
            return left_s
        application.state, application.updated_ms = ApplicationState.STOPPED, now_ms
        application.details = (
            f"The application was stopped after {timeout_s / 60:g} minutes without a job."
        )
        self._store.save_application(application)
        log.info("application %s is STOPPED: it was idle", application.id)
        return math.inf


class EmrServerless:
    """The service. Thread-safe. What an operation was told is in the database when it answers."""

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        database: Database,
        supervisor: Supervisor,
        objects: ObjectStore,
        endpoint_url: Callable[[], str],
        secret_of: Callable[[str], str] = any_secret,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.endpoint_url = endpoint_url
        self.store = Store(database)
        self.wake_idle_watch: Callable[[], None] = lambda: None
        self._supervisor = supervisor
        self._folder = (data_dir / FOLDER).absolute()
        self._ports = RunnerPorts(
            clock=clock,
            store=self.store,
            workshop=Workshop(objects, endpoint_url, os.cpu_count() or 1, secret_of),
            folder=self._folder,
            ended=lambda: self.wake_idle_watch(),
        )
        self._lock = threading.Lock()
        self._runners: dict[str, tuple[JobRunner, WorkerHandle]] = {}

    def start(self) -> None:
        """Recover applications from the database, and take over the processes of their job runs."""
        self.store.load()
        self.wake_idle_watch = self._supervisor.start(IdleWatch(self.clock, self.store)).wake
        for run in self.store.runs():
            application = self.store.application(run.application_id)
            if application is not None and not run.ended:
                self.run(application, run, recover=True)

    def stop(self) -> None:
        """End every job run's process; the run is FAILED with the reason. What has not begun waits."""
        with self._lock:
            runners, self._runners = self._runners, {}
        for _, handle in runners.values():
            handle.stop()
        for runner, handle in runners.values():
            handle.join(STOP_GRACE_S)
            runner.shut_down()
        deadline_s = self.clock.monotonic_s() + STOP_GRACE_S
        never = threading.Event()
        while self.clock.monotonic_s() < deadline_s and any(r.busy for r, _ in runners.values()):
            self.clock.wait(never, POLL_S)
        for runner, _ in runners.values():
            runner.abandon()

    # --- for actions --------------------------------------------------------------------------

    def application(self, application_id: str, *, account: str, region: str) -> Application:
        """Return an application. Raises AwsError ResourceNotFoundException."""
        found = self.store.application(application_id)
        if found is None or (found.account, found.region) != (account, region):
            raise not_found(f"Application {application_id}")
        return found

    def job_run(self, application_id: str, run_id: str, *, account: str, region: str) -> JobRun:
        """Return a job run of an application. Raises AwsError ResourceNotFoundException."""
        application = self.application(application_id, account=account, region=region)
        found = self.store.run(run_id)
        if found is None or found.application_id != application.id:
            raise not_found(f"JobRun {run_id}")
        return found

    def run(self, application: Application, run: JobRun, *, recover: bool = False) -> None:
        """Set a stored job run going."""
        runner = JobRunner(self._ports, application, run)
        if recover:
            runner.recover()
        with self._lock:
            self._runners = {k: v for k, v in self._runners.items() if v[1].alive}
            self._runners[run.id] = (runner, self._supervisor.start(runner))

    def wake(self, run_id: str) -> None:
        """Have the job run's worker look at what has changed."""
        with self._lock:
            entry = self._runners.get(run_id)
        if entry is not None:
            entry[1].wake()

    def remove_files(self, application: Application) -> None:
        """Remove what the job runs of a deleted application left on this machine."""
        shutil.rmtree(self._folder / application.id, ignore_errors=True)

    # --- pages --------------------------------------------------------------------------------

    def dashboard_url(self, run: JobRun) -> str:
        """Return the URL of a job run's page."""
        return f"{self.endpoint_url()}{PATH}/{run.application_id}/{run.id}"


def emr_serverless_api(emr_serverless: EmrServerless) -> ServiceApi:
    """Return the service for the gateway."""
    from headrace.services.emr_serverless.actions import ACTIONS

    return ServiceApi(
        name="emr-serverless", backend=emr_serverless, actions=ACTIONS, translate=translate
    )
