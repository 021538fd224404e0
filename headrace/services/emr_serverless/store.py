"""Stores applications and job runs: reads come from memory, and every write is in the database before it is visible."""

from __future__ import annotations

import threading

import msgspec

from headrace.services.emr_serverless.state import Application, JobRun
from headrace.store.database import Database


class Store:
    """All applications and job runs of all accounts and regions.

    Thread-safe. Hold `lock` for every change and for reads that must be consistent with each other. A change is
    durable when `save_*` returns.
    """

    def __init__(self, database: Database) -> None:
        self.lock = threading.RLock()
        self._application_documents = database.documents("emr_serverless_applications")
        self._run_documents = database.documents("emr_serverless_job_runs")
        self._applications: dict[str, Application] = {}
        self._runs: dict[str, JobRun] = {}

    def load(self) -> None:
        """Read everything from the database."""
        with self.lock:
            self._applications = {
                key: msgspec.convert(value, Application)
                for key, value in self._application_documents.items()
            }
            self._runs = {
                key: msgspec.convert(value, JobRun) for key, value in self._run_documents.items()
            }

    def applications(self) -> list[Application]:
        """Return all applications, oldest first."""
        with self.lock:
            return sorted(self._applications.values(), key=lambda found: found.created_ms)

    def application(self, application_id: str) -> Application | None:
        """Return an application, or None."""
        with self.lock:
            return self._applications.get(application_id)

    def save_application(self, application: Application) -> None:
        """Store a new or changed application."""
        with self.lock:
            self._application_documents.put(application.id, msgspec.to_builtins(application))
            self._applications[application.id] = application

    def runs(self, application_id: str | None = None) -> list[JobRun]:
        """Return the job runs of an application, or all, oldest first."""
        with self.lock:
            runs = [r for r in self._runs.values() if application_id in (None, r.application_id)]
            return sorted(runs, key=lambda run: run.number)

    def run(self, run_id: str) -> JobRun | None:
        """Return a job run, or None."""
        with self.lock:
            return self._runs.get(run_id)

    def next_number(self) -> int:
        """Return the number of the next job run. The caller holds the lock."""
        return max((run.number for run in self._runs.values()), default=0) + 1

    def save_run(self, run: JobRun) -> None:
        """Store a new or changed job run."""
        with self.lock:
            self._run_documents.put(run.id, msgspec.to_builtins(run))
            self._runs[run.id] = run
