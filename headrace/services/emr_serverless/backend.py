"""EMR Serverless' state and rules: the applications of all accounts, and the workers of their job runs.

Stops applications that have had no job run for as long as their autoStopConfiguration says.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.services.emr_serverless.errors import not_found
from headrace.services.emr_serverless.runner import JobRunner, Ports
from headrace.services.emr_serverless.state import Application, ApplicationState, JobRun, Store
from headrace.spark_submit import SERVERLESS_PATH
from headrace.spark_submit.job_workers import JobWorkers


class EmrServerless:
    """All applications of all accounts and regions. Thread-safe once started.

    Every change is in the database before the operation answers.
    """

    def __init__(
        self,
        *,
        ids: Ids,
        ports: Ports,
        idle_watch: IdleWatch,
        supervisor: Supervisor,
        endpoint_url: Callable[[], str],
    ) -> None:
        self.ids = ids
        self.store: Store = ports.store
        self._ports = ports
        self._idle_watch = idle_watch
        self._supervisor = supervisor
        self._endpoint_url = endpoint_url
        self._runners = JobWorkers[JobRunner](ports.clock, supervisor)

    def start(self) -> None:
        """Load applications from the database, and take over the processes of their job runs."""
        self.store.load()
        self._idle_watch.wake = self._supervisor.start(self._idle_watch).wake
        for run in self.store.runs():
            application = self.store.application(run.application_id)
            if application is not None and not run.ended:
                runner = JobRunner(self._ports, application, run)
                runner.recover()
                self._runners.start(run.id, runner)

    def stop(self) -> None:
        """End every job run's process; the run is FAILED with the reason. Runs that have not started stay queued."""
        self._runners.stop()

    # --- for actions --------------------------------------------------------------------------

    def application(self, application_id: str, *, account: str, region: str) -> Application:
        """Return an application. Raises AwsError ResourceNotFoundException."""
        application = self.store.application(application_id)
        if application is None or (application.account, application.region) != (account, region):
            raise not_found(f"Application {application_id}")
        return application

    def job_run(self, application_id: str, run_id: str, *, account: str, region: str) -> JobRun:
        """Return a job run of an application. Raises AwsError ResourceNotFoundException."""
        application = self.application(application_id, account=account, region=region)
        run = self.store.run(run_id)
        if run is None or run.application_id != application.id:
            raise not_found(f"JobRun {run_id}")
        return run

    def run(self, application: Application, run: JobRun) -> None:
        """Start the worker of a stored job run."""
        self._runners.start(run.id, JobRunner(self._ports, application, run))

    def wake(self, run_id: str) -> None:
        """Wake the job run's worker after a change."""
        self._runners.wake(run_id)

    def wake_idle_watch(self) -> None:
        """Wake the worker that stops idle applications."""
        self._idle_watch.wake()

    def remove_files(self, application: Application) -> None:
        """Remove the files of a deleted application's job runs from this machine."""
        shutil.rmtree(self._ports.folder / application.id, ignore_errors=True)

    def dashboard_url(self, run: JobRun) -> str:
        """Return the URL of a job run's page."""
        return f"{self._endpoint_url()}{SERVERLESS_PATH}/{run.application_id}/{run.id}"


log = logging.getLogger(__name__)


class IdleWatch:
    """The worker that stops idle applications. `step` is called by one thread at a time.

    `wake` does nothing at first; the code that starts the worker replaces it with the handle's `wake`.
    """

    name = "emr-serverless-idle"

    def __init__(self, clock: Clock, store: Store) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._clock = clock
        self._store = store

    def step(self) -> float:
        """Stop idle applications; return the seconds until one may be due. Every change wakes this worker."""
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
