"""Operations on job runs: start, get, list, cancel."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.operation import Call, caller_arn, operation
from headrace.aws.shapes import emr_serverless as shapes
from headrace.core.values import moment, present
from headrace.permissions.policies.grammar import PolicyError, check_policy
from headrace.services.emr_serverless.actions.applications import (
    begin,
    epoch_ms,
    fingerprint,
    page,
)
from headrace.services.emr_serverless.backend import EmrServerless
from headrace.services.emr_serverless.errors import (
    MOST_BATCH_ATTEMPTS,
    MOST_FAILED_ATTEMPTS_PER_HOUR,
    SHORTEST_TIMEOUT_MINUTES,
    conflict,
    not_found,
    validation,
    wrong_state,
)
from headrace.services.emr_serverless.runner import submission_of
from headrace.services.emr_serverless.state import (
    Application,
    ApplicationState,
    Attempt,
    JobRun,
    JobState,
)
from headrace.spark_submit import JobRefused

_CANCELLABLE = (JobState.SUBMITTED, JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING)


def _engine(application: Application) -> str:
    return "SPARK" if application.request["type"] == "Spark" else "HIVE"


def _summary(application: Application, run: JobRun, attempt: Attempt) -> shapes.JobRunSummary:
    """Return the members that all descriptions of a job run share, for one attempt."""
    newest = attempt is run.attempt
    return present(
        {
            "applicationId": run.application_id,
            "id": run.id,
            "name": run.request.get("name"),
            "mode": run.request.get("mode", "BATCH"),
            "arn": run.arn,
            "createdBy": run.created_by or f"arn:{run.arn.split(':')[1]}:iam::{run.account}:root",
            "createdAt": moment(run.created_ms),
            "updatedAt": moment(run.updated_ms if newest else attempt.updated_ms),
            "executionRole": run.request["executionRoleArn"],
            "state": str(run.state if newest else attempt.state),
            "stateDetails": run.details if newest else attempt.details,
            "releaseLabel": run.release_label,
            "type": _engine(application),
            "attempt": attempt.number,
            "attemptCreatedAt": moment(attempt.created_ms),
            "attemptUpdatedAt": moment(attempt.updated_ms),
        }
    )


def _full(application: Application, run: JobRun, attempt: Attempt, now_ms: int) -> shapes.JobRun:
    started_ms, ended_ms = run.started_ms, run.ended_ms
    kept = ("configurationOverrides", "jobDriver", "retryPolicy", "executionIamPolicy")
    return present(
        {
            **_summary(application, run, attempt),
            **{name: run.request.get(name) for name in kept},
            "jobRunId": run.id,
            "tags": run.tags,
            "executionTimeoutMinutes": run.timeout_minutes,
            "networkConfiguration": application.request.get("networkConfiguration"),
            "startedAt": None if started_ms is None else moment(started_ms),
            "endedAt": None if ended_ms is None else moment(ended_ms),
            "queuedDurationMilliseconds": (started_ms or ended_ms or now_ms) - run.created_ms,
            "totalExecutionDurationSeconds": (
                0 if started_ms is None else ((ended_ms or now_ms) - started_ms) // 1000
            ),
        }
    )


def _check(call: Call, request: shapes.StartJobRunRequest) -> None:
    """Raise AwsError for a request that AWS refuses or headrace cannot run."""
    driver = request.get("jobDriver") or {}
    if len(driver) != 1:
        raise validation("JobDriver must be set: exactly one of sparkSubmit and hive.")
    if "sparkSubmit" not in driver:
        raise validation(
            "headrace has no Hive: of the job drivers it runs sparkSubmit. Write the query as spark.sql in a job."
        )
    if request["executionRoleArn"].split(":")[4] != call.account:
        raise validation("Cross-account pass role is not allowed.")
    limits = (request.get("executionIamPolicy") or {}).get("policy")
    if limits:
        try:
            check_policy(limits, "session")
        except PolicyError as error:
            raise validation(
                error.message
            ) from None  # IAM's sentence; assumed that EMR Serverless passes it on
    timeout = request.get("executionTimeoutMinutes")
    if timeout is not None and 0 < timeout < SHORTEST_TIMEOUT_MINUTES:
        raise validation(f"RunTimeout must be at least {SHORTEST_TIMEOUT_MINUTES} minutes.")
    policy = request.get("retryPolicy") or {}
    if policy.get("maxAttempts", 1) > MOST_BATCH_ATTEMPTS:
        raise validation(f"maxAttempts must be between 1 and {MOST_BATCH_ATTEMPTS}.")
    if "maxFailedAttemptsPerHour" in policy and request.get("mode") != "STREAMING":
        raise validation("maxFailedAttemptsPerHour is only applicable for STREAMING mode.")
    if policy.get("maxFailedAttemptsPerHour", 1) > MOST_FAILED_ATTEMPTS_PER_HOUR:
        raise validation(
            f"maxFailedAttemptsPerHour must be between 1 and {MOST_FAILED_ATTEMPTS_PER_HOUR}."
        )
    try:
        submission_of(driver["sparkSubmit"])
    except JobRefused as error:
        raise validation(str(error)) from None


def _earlier(
    emr: EmrServerless, application: Application, request: shapes.StartJobRunRequest
) -> JobRun | None:
    """Return the run of an earlier request with the same client token. Raises AwsError if the requests differ."""
    token, digest = request["clientToken"], fingerprint(request)
    for run in emr.store.runs(application.id):
        if run.request["clientToken"] == token:
            if run.fingerprint != digest:
                raise conflict("The client token was used for another request to StartJobRun.")
            return run
    return None


@operation("StartJobRun")
def start_job_run(
    emr: EmrServerless, call: Call, request: shapes.StartJobRunRequest
) -> shapes.StartJobRunResponse:
    """Start a job run, and its application if that starts automatically."""
    application_id = request["applicationId"]
    _check(call, request)
    with emr.store.lock:
        application = emr.application(application_id, account=call.account, region=call.region)
        run = _earlier(emr, application, request)
        if run is None:
            run = _new_run(emr, call, application, request)
            emr.run(application, run)
    return {"applicationId": application_id, "jobRunId": run.id, "arn": run.arn}


def _new_run(
    emr: EmrServerless, call: Call, application: Application, request: shapes.StartJobRunRequest
) -> JobRun:
    """Store a new run. Raises AwsError when the application accepts none. The caller holds the lock."""
    if application.state is ApplicationState.TERMINATED:
        raise validation(f"Application {application.id} is terminated. Cannot start job run.")
    if application.state is not ApplicationState.STARTED and not application.starts_itself:
        raise wrong_state(
            f"Application {application.id}", (ApplicationState.STARTED,), application.state
        )
    begin(emr, application, call.now_ms)
    run = JobRun(
        id=f"00{emr.ids.alnum_upper(14).lower()}",
        application_id=application.id,
        account=call.account,
        region=call.region,
        number=emr.store.next_number(),
        request=dict(cast("dict[str, Any]", request)),
        fingerprint=fingerprint(request),
        release_label=application.request["releaseLabel"],
        created_ms=call.now_ms,
        updated_ms=call.now_ms,
        attempts=[Attempt(number=1, created_ms=call.now_ms, updated_ms=call.now_ms)],
        tags=dict(request.get("tags") or {}),
        created_by=caller_arn(call),
    )
    emr.store.save_run(run)
    return run


@operation("GetJobRun")
def get_job_run(
    emr: EmrServerless, call: Call, request: shapes.GetJobRunRequest
) -> shapes.GetJobRunResponse:
    """Return a job run, or one of its attempts."""
    where = {"account": call.account, "region": call.region}
    with emr.store.lock:
        application = emr.application(request["applicationId"], **where)
        run = emr.job_run(request["applicationId"], request["jobRunId"], **where)
        number = request.get("attempt", run.attempt.number)
        if number > len(run.attempts):
            raise not_found(f"Attempt {number} of JobRun {run.id}")
        return {"jobRun": _full(application, run, run.attempts[number - 1], call.now_ms)}


@operation("ListJobRuns")
def list_job_runs(
    emr: EmrServerless, call: Call, request: shapes.ListJobRunsRequest
) -> shapes.ListJobRunsResponse:
    """List an application's job runs, newest first."""
    where = {"account": call.account, "region": call.region}
    after, before = request.get("createdAtAfter"), request.get("createdAtBefore")
    states, mode = request.get("states") or [], request.get("mode")
    with emr.store.lock:
        application = emr.application(request["applicationId"], **where)
        matching = [
            run
            for run in reversed(emr.store.runs(application.id))
            if (not states or run.state in states)
            and (mode is None or run.request.get("mode", "BATCH") == mode)
            and (after is None or run.created_ms > epoch_ms(after))
            and (before is None or run.created_ms < epoch_ms(before))
        ]
        shown, following = page(matching, request.get("nextToken"), request.get("maxResults"))
        runs = [_summary(application, run, run.attempt) for run in shown]
    return present({"jobRuns": runs, "nextToken": following})


@operation("ListJobRunAttempts")
def list_job_run_attempts(
    emr: EmrServerless, call: Call, request: shapes.ListJobRunAttemptsRequest
) -> shapes.ListJobRunAttemptsResponse:
    """List a job run's attempts, newest first."""
    where = {"account": call.account, "region": call.region}
    with emr.store.lock:
        application = emr.application(request["applicationId"], **where)
        run = emr.job_run(request["applicationId"], request["jobRunId"], **where)
        shown, following = page(
            reversed(run.attempts), request.get("nextToken"), request.get("maxResults")
        )
        attempts = [
            {
                **_summary(application, run, attempt),
                "id": run.id,
                "jobCreatedAt": moment(run.created_ms),
                "createdAt": moment(attempt.created_ms),
                "updatedAt": moment(attempt.updated_ms),
            }
            for attempt in shown
        ]
    return present({"jobRunAttempts": attempts, "nextToken": following})


@operation("CancelJobRun")
def cancel_job_run(
    emr: EmrServerless, call: Call, request: shapes.CancelJobRunRequest
) -> shapes.CancelJobRunResponse:
    """Cancel a job run; cancelling it again changes nothing."""
    where = {"account": call.account, "region": call.region}
    with emr.store.lock:
        run = emr.job_run(request["applicationId"], request["jobRunId"], **where)
        if run.ended:
            raise wrong_state(f"JobRun {run.id}", _CANCELLABLE, run.state)
        if not run.cancelled:
            grace_s = request.get("shutdownGracePeriodInSeconds")
            run.cancel_grace_s = None if grace_s is None else float(grace_s)
            run.cancelled = True
            run.state = run.attempt.state = JobState.CANCELLING
            run.updated_ms = run.attempt.updated_ms = call.now_ms
            emr.store.save_run(run)
    emr.wake(run.id)
    return {"applicationId": run.application_id, "jobRunId": run.id}


@operation("GetDashboardForJobRun")
def get_dashboard_for_job_run(
    emr: EmrServerless, call: Call, request: shapes.GetDashboardForJobRunRequest
) -> shapes.GetDashboardForJobRunResponse:
    """Return the URL of a job run's page in this cloud."""
    where = {"account": call.account, "region": call.region}
    run = emr.job_run(request["applicationId"], request["jobRunId"], **where)
    return {"url": emr.dashboard_url(run)}
