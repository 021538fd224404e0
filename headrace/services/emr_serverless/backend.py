"""EMR Serverless' state and rules: the applications of all accounts, and the workers of their job runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.services.emr_serverless.errors import not_found
from headrace.services.emr_serverless.idle import IdleWatch
from headrace.services.emr_serverless.runner import JobRunner, Ports
from headrace.services.emr_serverless.state import Application, JobRun
from headrace.services.emr_serverless.store import Store
from headrace.spark_submit.job_workers import JobWorkers
from headrace.spark_submit.page_paths import SERVERLESS_PATH


class EmrServerless:
    """All applications of all accounts and regions. Thread-safe once started.

    What an operation was given is in the database when it answers.
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
        """Recover applications from the database, and take over the processes of their job runs."""
        self.store.load()
        self._idle_watch.wake = self._supervisor.start(self._idle_watch).wake
        for run in self.store.runs():
            application = self.store.application(run.application_id)
            if application is not None and not run.ended:
                runner = JobRunner(self._ports, application, run)
                runner.recover()
                self._runners.start(run.id, runner)

    def stop(self) -> None:
        """End every job run's process; the run is FAILED with the reason. What has not begun waits."""
        self._runners.stop()

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

    def run(self, application: Application, run: JobRun) -> None:
        """Set a stored job run going."""
        self._runners.start(run.id, JobRunner(self._ports, application, run))

    def wake(self, run_id: str) -> None:
        """Have the job run's worker look at what has changed."""
        self._runners.wake(run_id)

    def wake_idle_watch(self) -> None:
        """Have the watch on idle applications look at what has changed."""
        self._idle_watch.wake()

    def remove_files(self, application: Application) -> None:
        """Remove what the job runs of a deleted application left on this machine."""
        shutil.rmtree(self._ports.folder / application.id, ignore_errors=True)

    def dashboard_url(self, run: JobRun) -> str:
        """Return the URL of a job run's page."""
        return f"{self._endpoint_url()}{SERVERLESS_PATH}/{run.application_id}/{run.id}"
