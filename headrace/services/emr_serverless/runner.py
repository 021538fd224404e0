"""One job run at work: a worker that takes it through its states and attempts.

Every change of state is in the database before the next thing happens, in an order such that a cloud killed at any
point goes on rightly: a run is SCHEDULED before its process starts, and one that has left no pid is started again.
"""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.workers import WorkerDone
from headrace.services.emr_serverless.commands import log_uri, prepare
from headrace.services.emr_serverless.limits import LONGEST_DETAILS
from headrace.services.emr_serverless.state import ENDED, Application, Attempt, JobRun, JobState
from headrace.services.emr_serverless.store import Store
from headrace.spark_submit.commands import JobContext
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.limits import CANCEL_GRACE_S, POLL_S
from headrace.spark_submit.logs import (
    LogKeeper,
    archive,
    failure_cause,
    log_location,
    remove_scratch,
    tail,
)
from headrace.spark_submit.process import JobProcess

log = logging.getLogger(__name__)

LOGS = ("stdout", "stderr")
STOPPED_DETAILS = "The local cloud was stopped while the job was running."
LOST_DETAILS = "The job's process ended without an exit code while the local cloud was not running."
KILLED_DETAILS = "The job's process was killed."
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Ports:
    """What all runners share. `ended` is called after each run's end."""

    clock: Clock
    store: Store
    context: JobContext
    folder: Path
    ended: Callable[[], None]


class JobRunner:
    """The worker of one job run. `step` is called by one thread at a time."""

    def __init__(self, ports: Ports, application: Application, run: JobRun) -> None:
        self.name = f"emr-serverless-{run.id}"
        self._ports = ports
        self._application = application
        self._run = run
        self._process: JobProcess | None = None
        self._keeper: LogKeeper | None = None
        self._signalled_at_s: float | None = None
        self._signalled_twice = False

    @property
    def folder(self) -> Path:
        """Where the newest attempt's files are."""
        return attempt_folder(self._ports.folder, self._run, self._run.attempt)

    def recover(self) -> None:
        """Find the process of a run that was under way when the last cloud ended."""
        if self._run.state in (JobState.SCHEDULED, JobState.RUNNING, JobState.CANCELLING):
            self._process = JobProcess.find(self.folder)
            if self._process is not None:
                self._change(JobState.RUNNING)

    # --- Worker -------------------------------------------------------------------------------

    def step(self) -> float:
        """Start the run when it may start, and look after its process."""
        if self._run.ended:
            raise WorkerDone
        if self._process is not None:
            self._look_after(self._process)
        elif self._run.cancelled:
            self._end(JobState.CANCELLED, self._run.cancel_details)
        elif self._must_wait():
            if self._run.state is not JobState.QUEUED:
                self._change(JobState.QUEUED, "The application runs as many jobs as it may.")
        else:
            self._start()
        return POLL_S

    def shut_down(self) -> None:
        """End the process because the cloud stops. Called when `step` will not be called again."""
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    def abandon(self) -> None:
        """After `shut_down` and a while: kill what is left, and say how the run ended."""
        process, self._process = self._process, None
        if process is None:
            return
        code = process.exit_code
        process.kill()
        if code == 0:
            self._end(JobState.SUCCESS, "")
        elif self._run.cancelled:
            self._end(JobState.CANCELLED, self._run.cancel_details)
        else:
            self._end(JobState.FAILED, STOPPED_DETAILS)

    @property
    def busy(self) -> bool:
        """Whether a process of the run still runs."""
        return self._process is not None and bool(self._process.members())

    # --- the process --------------------------------------------------------------------------

    def _must_wait(self) -> bool:
        """Whether as many earlier runs of the application have not ended as may run at a time."""
        most = self._application.most_runs
        if most is None:
            return False
        runs = self._ports.store.runs(self._application.id)
        return sum(not r.ended for r in runs if r.number < self._run.number) >= most

    def _start(self) -> None:
        self._change(JobState.SCHEDULED)
        folder = self.folder
        # What a kill cut short has left nothing worth keeping.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in LOGS:
            (folder / name).touch()
        try:
            command = prepare(self._ports.context, self._application, self._run, folder)
            self._process = JobProcess.start(
                folder, command.arguments, environment=command.environment, cwd=command.cwd
            )
        except (JobRefused, OSError) as error:
            self._refuse(str(error))
            return
        except Exception as error:
            # Whatever a request may hold that no process can be given: the run must not be tried for ever.
            log.exception("job run %s could not be started", self._run.id)
            self._refuse(f"The job could not be started: {error}.")
            return
        if self._run.started_ms is None:
            self._run.started_ms = self._ports.clock.now_ms()
        location = self._location()
        if location is not None:
            self._keeper = LogKeeper(self._ports.clock, self._ports.context.objects, LOGS)
        self._change(JobState.RUNNING)

    def _refuse(self, message: str) -> None:
        (self.folder / "stderr").write_text(f"{message}\n", errors="replace")
        self._end(JobState.FAILED, f"Job failed: {message}")

    def _look_after(self, process: JobProcess) -> None:
        run = self._run
        if process.exit_code is None and (process.alive or self._is_dying(process)):
            self._cancel_if_late()
            self._cancel_if_asked(process)
            self._keep_logs()
            return
        code = process.exit_code
        # What the job left running goes with it.
        process.kill()
        if code == 0:
            self._end(JobState.SUCCESS, "")
        elif run.cancelled:
            self._end(JobState.CANCELLED, run.cancel_details)
        else:
            self._fail(self._failure(process, code))
        # Not before: an end that could not be stored, on a full disk maybe, is stored later and not run again.
        self._process = self._keeper = None

    def _is_dying(self, process: JobProcess) -> bool:
        """After a signal the wrapper is gone first; the run has ended when all of it has."""
        return self._run.cancelled and bool(process.members())

    def _failure(self, process: JobProcess, code: int | None) -> str:
        if code is None:
            return LOST_DETAILS if process.adopted else KILLED_DETAILS
        _, cause = failure_cause(tail(self.folder / "stderr"), tail(self.folder / "stdout"), code)
        return (
            "Job failed, please check complete logs in configured logging destination. "
            f"ExitCode: {code}. Last few exceptions: {cause}"
        )

    def _cancel_if_late(self) -> None:
        run = self._run
        minutes = run.timeout_minutes
        if not minutes or run.cancelled or run.started_ms is None:
            return
        if self._ports.clock.now_ms() - run.started_ms < minutes * 60_000:
            return
        with self._ports.store.lock:
            run.cancelled = True
            run.cancel_details = f"Job run timed out after {minutes} minutes."
            self._change(JobState.CANCELLING, run.cancel_details)

    def _cancel_if_asked(self, process: JobProcess) -> None:
        if not self._run.cancelled:
            return
        now_s = self._ports.clock.monotonic_s()
        grace_s = self._run.cancel_grace_s
        if self._signalled_at_s is None:
            self._signalled_at_s = now_s
            process.signal(signal.SIGTERM)
        elif now_s - self._signalled_at_s > (CANCEL_GRACE_S if grace_s is None else grace_s):
            process.signal(signal.SIGKILL)
        elif not self._signalled_twice:
            # What was being started while the first was sent has not had it.
            self._signalled_twice = True
            process.signal(signal.SIGTERM)

    # --- logs ---------------------------------------------------------------------------------

    def _location(self, below: str = "") -> tuple[str, str] | None:
        uri = log_uri(self._application, self._run)
        if uri is None:
            return None
        job = f"applications/{self._run.application_id}/jobs/{self._run.id}"
        return log_location(uri, f"{job}{below}/SPARK_DRIVER")

    def _keep_logs(self) -> None:
        location = self._location()
        if location is not None:
            if self._keeper is None:
                self._keeper = LogKeeper(self._ports.clock, self._ports.context.objects, LOGS)
            self._keeper.keep(self.folder, location)

    def _put_logs(self) -> None:
        location = self._location()
        if self.folder.is_dir():
            if location is not None:
                objects = self._ports.context.objects
                archive(objects, self.folder, location, LOGS)
                # The next attempt's logs take their place, so they are kept by the attempt's number too.
                attempt = self._location(f"/attempts/{self._run.attempt.number}")
                if attempt is not None and self._run.most_attempts != 1:
                    archive(objects, self.folder, attempt, LOGS)
            remove_scratch(self.folder)

    # --- states -------------------------------------------------------------------------------

    def _fail(self, details: str) -> None:
        """End the attempt, and the run with it unless its retry policy gives it another."""
        run = self._run
        now_ms = self._ports.clock.now_ms()
        refusal = self._why_no_more(now_ms)
        if refusal is not None:
            self._end(JobState.FAILED, f"{refusal}{details}")
            return
        self._put_logs()
        with self._ports.store.lock:
            attempt = run.attempt
            attempt.state, attempt.details = JobState.FAILED, details[:LONGEST_DETAILS]
            attempt.updated_ms = attempt.ended_ms = now_ms
            run.attempts.append(
                Attempt(number=attempt.number + 1, created_ms=now_ms, updated_ms=now_ms)
            )
            self._change(JobState.SCHEDULED)
        log.info("job run %s is tried again: %s", run.id, details)

    def _why_no_more(self, now_ms: int) -> str | None:
        """Return why the failed attempt is the last, as the start of a sentence; None if it is not."""
        run = self._run
        if run.most_attempts is not None and run.attempt.number >= run.most_attempts:
            return ""
        most = run.most_failures_per_hour
        if most is None:
            return None
        failed = 1 + sum(now_ms - (a.ended_ms or 0) < _HOUR_MS for a in run.attempts[:-1])
        return f"{failed} attempts failed within an hour. " if failed >= most else None

    def _end(self, state: JobState, details: str) -> None:
        """Store the logs, then the end: who sees a run ended finds its logs."""
        self._put_logs()
        now_ms = self._ports.clock.now_ms()
        with self._ports.store.lock:
            self._run.ended_ms = self._run.attempt.ended_ms = now_ms
            self._change(state, details)
        self._ports.ended()

    def _change(self, state: JobState, details: str = "") -> None:
        run = self._run
        with self._ports.store.lock:
            if run.cancelled and state not in ENDED:
                state, details = JobState.CANCELLING, run.cancel_details
            now_ms = self._ports.clock.now_ms()
            run.state, run.details, run.updated_ms = state, details[:LONGEST_DETAILS], now_ms
            attempt = run.attempt
            attempt.state, attempt.details, attempt.updated_ms = state, run.details, now_ms
            self._ports.store.save_run(run)
        log.info("job run %s of application %s is %s", run.id, run.application_id, state)


def attempt_folder(root: Path, run: JobRun, attempt: Attempt) -> Path:
    """Return where an attempt's files are."""
    return root / run.application_id / run.id / str(attempt.number)
