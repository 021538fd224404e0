"""The worker of one job run: takes it through its states, and starts and watches its attempts.

Every change of state is stored before the next action, so the next cloud can continue after a kill at any point: a run
is stored as SCHEDULED before its process starts, and a SCHEDULED run without a pid is started again.

Turns a job run's driver and configurations into a command line, an environment and a folder of files.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.aws.shapes.emr_serverless import SparkSubmit
from headrace.core.clock import Clock
from headrace.core.ports import CallerIdentity, Guard, NoGuard
from headrace.core.values import get_list, get_mapping
from headrace.core.workers import WorkerDone
from headrace.services.emr_serverless.errors import LONGEST_DETAILS
from headrace.services.emr_serverless.state import (
    ENDED,
    Application,
    Attempt,
    JobRun,
    JobState,
    Store,
)
from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import (
    Submission,
    parse_submission,
    properties_of,
    with_file_options,
)
from headrace.spark_submit.commands import spark_command
from headrace.spark_submit.job import CANCEL_GRACE_S, POLL_S, Cancellation, JobEnd, SupervisedJob
from headrace.spark_submit.job_context import Command, JobContext, job_environment, make_folders
from headrace.spark_submit.logs import (
    CONTROLLER,
    JobLogs,
    LogPlace,
    failure_cause,
    log_location,
    tail,
)
from headrace.spark_submit.making import with_spark
from headrace.spark_submit.sparks import python_settings

log = logging.getLogger(__name__)

SERVICE = "emr-serverless.amazonaws.com"
LOGS = ("stdout", "stderr")
STOPPED_DETAILS = "The local cloud was stopped while the job was running."
LOST_DETAILS = "The job's process ended without an exit code while the local cloud was not running."
KILLED_DETAILS = "The job's process was killed."
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Ports:
    """What all runners share.

    Attributes:
        context: how jobs reach this cloud.
        folder: EMR Serverless' folder, with a folder for each application.
        ended: called after each run's end.
        guard: decides whether EMR Serverless may assume a run's role.
    """

    clock: Clock
    store: Store
    context: JobContext
    folder: Path
    ended: Callable[[], None]
    guard: Guard = field(default_factory=NoGuard)


class JobRunner:
    """The worker of one job run. `step` is called by one thread at a time."""

    def __init__(self, ports: Ports, application: Application, run: JobRun) -> None:
        self.name = f"emr-serverless-{run.id}"
        self._ports = ports
        self._application = application
        self._run = run
        # The newest attempt's process, while it runs.
        self._job: SupervisedJob | None = None
        self._logs: JobLogs | None = None

    @property
    def folder(self) -> Path:
        """The folder of the newest attempt."""
        return attempt_folder(self._ports.folder, self._run, self._run.attempt)

    def recover(self) -> None:
        """Find the process of a run that was running when the last cloud ended."""
        if self._run.state in (JobState.SCHEDULED, JobState.RUNNING, JobState.CANCELLING):
            self._job = SupervisedJob.find(self._ports.clock, self.folder)
            if self._job is not None:
                self._logs = self._attempt_logs()
                self._change(JobState.RUNNING)

    # --- Worker -------------------------------------------------------------------------------

    def step(self) -> float:
        """Start the run when the application allows it, and watch its process; see `Worker.step`."""
        if self._run.ended:
            raise WorkerDone
        if self._job is not None:
            self._watch(self._job)
        elif self._run.cancelled:
            self._end(JobState.CANCELLED, self._run.cancel_details)
        elif self._must_wait():
            if self._run.state is not JobState.QUEUED:
                self._change(JobState.QUEUED, "The application runs as many jobs as it may.")
        else:
            self._start()
        return POLL_S

    def shut_down(self) -> None:
        """Ask the process to end because the cloud stops. `step` is not called after this."""
        if self._job is not None:
            self._job.shut_down()

    def abandon(self) -> None:
        """Kill the process if it outlived `shut_down`, and store how the run ended."""
        job, self._job = self._job, None
        if job is None:
            return
        code = job.abandon()
        if code == 0:
            self._end(JobState.SUCCESS, "")
        elif self._run.cancelled:
            self._end(JobState.CANCELLED, self._run.cancel_details)
        else:
            self._end(JobState.FAILED, STOPPED_DETAILS)

    @property
    def busy(self) -> bool:
        """Return whether a process of the run still runs."""
        return self._job is not None and self._job.busy

    # --- the process --------------------------------------------------------------------------

    def _must_wait(self) -> bool:
        """Return whether the application already runs its maximum number of earlier job runs."""
        most = self._application.most_runs
        if most is None:
            return False
        runs = self._ports.store.runs(self._application.id)
        return sum(not r.ended for r in runs if r.number < self._run.number) >= most

    def _start(self) -> None:
        self._change(JobState.SCHEDULED)
        self._logs = self._attempt_logs()
        role = str(self._run.request.get("executionRoleArn") or "")
        acting = CallerIdentity(SERVICE, source_arn=self._run.arn)
        if self._ports.guard.denial(acting, "sts:AssumeRole", role):
            # Assumed for this case and for a missing role: no recorded answer was found.
            self._end(
                JobState.FAILED,
                f"Could not assume runtime role {role} because it does not exist or isn't setup with the required"
                " trust relationship.",
            )
            return
        try:
            self._job = SupervisedJob.start(
                self._ports.clock,
                self.folder,
                lambda: prepare(self._ports.context, self._application, self._run, self.folder),
                kind="job",
                # AWS has no such log. It says which Spark runs the job, and stays on this machine.
                logs=(*LOGS, CONTROLLER),
            )
        except JobRefused as error:
            (self.folder / "stderr").write_text(f"{error}\n", errors="replace")
            self._end(JobState.FAILED, f"Job failed: {error}")
            return
        if self._run.started_ms is None:
            self._run.started_ms = self._ports.clock.now_ms()
        self._change(JobState.RUNNING)

    def _watch(self, job: SupervisedJob) -> None:
        run = self._run
        if job.running:
            self._cancel_if_late()
        end = job.watch(self._cancellation())
        if end is None:
            if self._logs is not None:
                self._logs.keep()
            return
        if end.exit_code == 0:
            self._end(JobState.SUCCESS, "")
        elif run.cancelled:
            self._end(JobState.CANCELLED, run.cancel_details)
        else:
            self._fail(self._failure(end))
        # Only after the end is stored: if storing fails, for example on a full disk, it is tried again, not the job.
        self._job = self._logs = None

    def _failure(self, end: JobEnd) -> str:
        if end.exit_code is None:
            return LOST_DETAILS if end.lost else KILLED_DETAILS
        stderr, stdout = tail(self.folder / "stderr"), tail(self.folder / "stdout")
        _, cause = failure_cause(stderr, stdout, end.exit_code)
        return (
            "Job failed, please check complete logs in configured logging destination. "
            f"ExitCode: {end.exit_code}. Last few exceptions: {cause}"
        )

    def _cancellation(self) -> Cancellation | None:
        if not self._run.cancelled:
            return None
        grace_s = self._run.cancel_grace_s
        return Cancellation(grace_s=CANCEL_GRACE_S if grace_s is None else grace_s, repeat=True)

    def _cancel_if_late(self) -> None:
        """Cancel a run that exceeds its timeout."""
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

    # --- logs ---------------------------------------------------------------------------------

    def _attempt_logs(self) -> JobLogs:
        """Return the newest attempt's logs, which are copied to the run's log location."""
        log_folder = self._place()
        return JobLogs(
            self._ports.clock,
            context_of(self._ports.context, self._run).objects,
            self.folder,
            [] if log_folder is None else [log_folder],
        )

    def _place(self, below: str = "") -> LogPlace | None:
        uri = log_uri(self._application, self._run)
        if uri is None:
            return None
        job = f"applications/{self._run.application_id}/jobs/{self._run.id}"
        location = log_location(uri, f"{job}{below}/SPARK_DRIVER")
        return None if location is None else LogPlace(self.folder, LOGS, *location)

    def _store_logs(self) -> None:
        logs = self._logs or self._attempt_logs()
        # The next attempt's logs overwrite these, so they are also stored under the attempt's number.
        attempt = self._place(f"/attempts/{self._run.attempt.number}")
        if attempt is not None and self._run.most_attempts != 1:
            logs.store(attempt)
        else:
            logs.store()

    # --- states -------------------------------------------------------------------------------

    def _fail(self, details: str) -> None:
        """End the attempt, and the run too unless its retry policy allows another attempt."""
        run = self._run
        now_ms = self._ports.clock.now_ms()
        refusal = self._why_no_more(now_ms)
        if refusal is not None:
            self._end(JobState.FAILED, f"{refusal}{details}")
            return
        self._store_logs()
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
        """Return why no attempt follows the failed one, as a prefix for the details; None if one follows."""
        run = self._run
        if run.most_attempts is not None and run.attempt.number >= run.most_attempts:
            return ""
        most = run.most_failures_per_hour
        if most is None:
            return None
        failed = 1 + sum(now_ms - (a.ended_ms or 0) < _HOUR_MS for a in run.attempts[:-1])
        return f"{failed} attempts failed within an hour. " if failed >= most else None

    def _end(self, state: JobState, details: str) -> None:
        """Store the logs, then the end: a client that sees the run ended finds its logs."""
        self._store_logs()
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
    """Return an attempt's folder."""
    return root / run.application_id / run.id / str(attempt.number)


_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."


def submission_of(spark_submit: SparkSubmit) -> Submission:
    """Return the `spark-submit` command line of a sparkSubmit driver. Raises JobRefused."""
    try:
        parameters = shlex.split(spark_submit.get("sparkSubmitParameters") or "")
    except ValueError as error:
        raise JobRefused(f"sparkSubmitParameters cannot be read: {error}.") from None
    entry_point = str(spark_submit["entryPoint"])
    arguments = [str(argument) for argument in spark_submit.get("entryPointArguments") or ()]
    # Parse the parameters with an entry point after them, to find out whether they hold more than options.
    if parse_submission([*parameters, entry_point, entry_point]).arguments != [entry_point]:
        raise JobRefused(
            "sparkSubmitParameters may hold options with their values only, such as --conf a=b."
        )
    return parse_submission([*parameters, entry_point, *arguments])


def classification(application: Application, run: JobRun, name: str) -> dict[str, str]:
    """Return a classification's properties; the job run's override the application's."""
    overrides = get_mapping(run.request, "configurationOverrides")
    properties: dict[str, str] = {}
    for configuration in (
        *get_list(application.request, "runtimeConfiguration"),
        *get_list(overrides, "applicationConfiguration"),
    ):
        if configuration.get("classification") == name:
            properties.update(get_mapping(configuration, "properties"))
    return properties


def log_uri(application: Application, run: JobRun) -> str | None:
    """Return the S3 URI for logs: the job run's, else the application's, else None."""
    overrides = get_mapping(run.request, "configurationOverrides")
    for settings in (overrides, application.request):
        monitoring = get_mapping(settings, "monitoringConfiguration")
        uri = get_mapping(monitoring, "s3MonitoringConfiguration").get("logUri")
        if uri:
            return str(uri)
    return None


def context_of(context: JobContext, run: JobRun) -> JobContext:
    """Return how a run reaches the cloud, with its execution role's credentials."""
    return context.as_role(run.account, _role_of(run), run.id)


def _role_of(run: JobRun) -> str:
    return str(run.request.get("executionRoleArn") or "")


def prepare(context: JobContext, application: Application, run: JobRun, folder: Path) -> Command:
    """Write an attempt's folder and return its command. Raises JobRefused."""
    context = context_of(context, run)
    work = make_folders(folder)
    submission = submission_of(run.request["jobDriver"]["sparkSubmit"])
    defaults = classification(application, run, "spark-defaults")
    settings = properties_of(submission, defaults)
    driver = {
        name.removeprefix(_DRIVER_ENVIRONMENT): value
        for name, value in settings.items()
        if name.startswith(_DRIVER_ENVIRONMENT)
    }
    spark = context.sparks.of(run.release_label, python_settings(settings, driver))
    arguments, more, spark = spark_command(
        context,
        with_file_options(submission, defaults, yarn=False),
        folder,
        spark,
        defaults=defaults,
        logging=classification(application, run, "spark-driver-log4j2"),
    )
    limits = get_mapping(run.request, "executionIamPolicy")
    environment = {
        **job_environment(
            context,
            folder,
            policy=str(limits.get("policy") or ""),
            policy_arns=tuple(str(arn) for arn in get_list(limits, "policyArns")),
            account=run.account,
            region=run.region,
            role=_role_of(run),
            session=run.id,
        ),
        **more,
        **{name: spark.interpreter_for(value) or value for name, value in driver.items()},
    }
    return with_spark(Command(arguments, environment, work), spark, folder)
