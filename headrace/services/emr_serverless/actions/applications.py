"""Operations on applications and on tags, and what EMR Serverless' actions share: pages, times, repeated requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr_serverless as shapes
from headrace.core.arn import Arn
from headrace.core.system_tags import count_tags
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.emr_serverless.backend import EmrServerless
from headrace.services.emr_serverless.errors import (
    CONCURRENT_RUNS,
    LONGEST_PAGE,
    QUEUE_TIMEOUT_MINUTES,
    check_tag_keys,
    conflict,
    not_found,
    validation,
    wrong_state,
)
from headrace.services.emr_serverless.state import Application, ApplicationState, JobRun
from headrace.spark_submit.emr_releases import SERVERLESS, UnknownRelease, release_of

_T = TypeVar("_T")


def epoch_ms(moment: datetime) -> float:
    """Return a datetime as epoch milliseconds."""
    return moment.timestamp() * 1000


def fingerprint(
    request: shapes.CreateApplicationRequest | shapes.StartJobRunRequest,
) -> str:
    """Return what must be equal in two requests with the same client token."""
    return json.dumps({k: v for k, v in request.items() if k != "clientToken"}, sort_keys=True)


def page(items: Iterable[_T], token: str | None, most: int | None) -> tuple[list[_T], str | None]:
    """Return one page of `items` and the next page's token. Raises AwsError for an invalid token."""
    try:
        return page_of(items, token, most or LONGEST_PAGE)
    except BadMarker:
        raise validation("nextToken is not valid.") from None


_ENGINES = {"spark": "Spark", "hive": "Hive"}
_AT_REST = (ApplicationState.CREATED, ApplicationState.STOPPED)


def _full(application: Application) -> Any:
    kept = {k: v for k, v in application.request.items() if k not in ("clientToken", "tags")}
    return {
        "architecture": "X86_64",
        "autoStartConfiguration": {"enabled": True},
        "autoStopConfiguration": {"enabled": True, "idleTimeoutMinutes": 15},
        **kept,
        "applicationId": application.id,
        "arn": application.arn,
        "state": str(application.state),
        "stateDetails": application.details,
        "createdAt": moment(application.created_ms),
        "updatedAt": moment(application.updated_ms),
        "tags": application.tags,
    }


def _check_release(label: str) -> None:
    """Raise AwsError unless EMR Serverless has the release. The sentence is assumed: no published answer was found."""
    try:
        release_of(label, SERVERLESS)
    except UnknownRelease as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise validation(f"Unsupported release label {label}{hint}") from None


def _check_scheduler(scheduler: shapes.SchedulerConfiguration) -> None:
    """Raise AwsError for values outside the documented ranges; the sentence is assumed."""
    ranges = {"maxConcurrentRuns": CONCURRENT_RUNS, "queueTimeoutMinutes": QUEUE_TIMEOUT_MINUTES}
    for name, (least, most) in ranges.items():
        if not least <= scheduler.get(name, least) <= most:  # pyrefly: ignore[unsupported-operation]
            raise validation(f"{name} must be between {least} and {most}.")


@operation("CreateApplication")
def create_application(
    emr: EmrServerless, call: Call, request: shapes.CreateApplicationRequest
) -> shapes.CreateApplicationResponse:
    """Create an application; a repeated client token returns the first one."""
    members = cast("dict[str, Any]", request)
    engine = _ENGINES.get(request["type"].lower())
    if engine is None:
        raise validation(f"Unsupported engine {request['type']}")
    _check_release(request["releaseLabel"])
    _check_scheduler(request.get("schedulerConfiguration") or {})
    digest = fingerprint(request)
    with emr.store.lock:
        application = next(
            (
                existing
                for existing in emr.store.applications()
                if existing.client_token == request["clientToken"]
                and (existing.account, existing.region) == (call.account, call.region)
            ),
            None,
        )
        if application is None:
            application = Application(
                id=f"00{emr.ids.alnum_upper(14).lower()}",
                account=call.account,
                region=call.region,
                request={**members, "type": engine},
                client_token=request["clientToken"],
                created_ms=call.now_ms,
                updated_ms=call.now_ms,
                fingerprint=digest,
                tags=dict(request.get("tags") or {}),
            )
            emr.store.save_application(application)
        elif application.fingerprint != digest:
            raise conflict("The client token was used for another request to CreateApplication.")
    return present(
        {"applicationId": application.id, "name": request.get("name"), "arn": application.arn}
    )


@operation("GetApplication")
def get_application(
    emr: EmrServerless, call: Call, request: shapes.GetApplicationRequest
) -> shapes.GetApplicationResponse:
    """Return an application."""
    application = emr.application(
        request["applicationId"], account=call.account, region=call.region
    )
    return {"application": _full(application)}


@operation("ListApplications")
def list_applications(
    emr: EmrServerless, call: Call, request: shapes.ListApplicationsRequest
) -> shapes.ListApplicationsResponse:
    """List applications, newest first."""
    states = request.get("states") or []
    applications = [
        application
        for application in reversed(emr.store.applications())
        if (application.account, application.region) == (call.account, call.region)
        and (not states or application.state in states)
    ]
    shown, following = page(applications, request.get("nextToken"), request.get("maxResults"))
    names = ("name", "arn", "releaseLabel", "type", "state", "stateDetails", "createdAt")
    member_names = (*names, "updatedAt", "architecture")
    summaries: list[dict[str, Any]] = []
    for application in shown:
        full = _full(application)
        summary = {name: full[name] for name in member_names if name in full}
        summaries.append({"id": application.id, **summary})
    return present({"applications": summaries, "nextToken": following})


@operation("UpdateApplication")
def update_application(
    emr: EmrServerless, call: Call, request: shapes.UpdateApplicationRequest
) -> shapes.UpdateApplicationResponse:
    """Update an application that is not started."""
    application_id = request["applicationId"]
    with emr.store.lock:
        application = emr.application(application_id, account=call.account, region=call.region)
        if application.state not in _AT_REST:
            raise wrong_state(f"Application {application_id}", _AT_REST, application.state)
        if "releaseLabel" in request:
            _check_release(request["releaseLabel"])
        _check_scheduler(request.get("schedulerConfiguration") or {})
        changes = {k: v for k, v in request.items() if k not in ("applicationId", "clientToken")}
        application.request = {**application.request, **changes}
        application.updated_ms = call.now_ms
        emr.store.save_application(application)
    return {"application": _full(application)}


def begin(emr: EmrServerless, application: Application, now_ms: int) -> None:
    """Start an application that is not started. The caller holds the lock."""
    if application.state is ApplicationState.STARTED:
        return
    application.state, application.details = ApplicationState.STARTED, ""
    application.started_ms = application.updated_ms = now_ms
    emr.store.save_application(application)
    emr.wake_idle_watch()


@operation("StartApplication")
def start_application(
    emr: EmrServerless, call: Call, request: shapes.StartApplicationRequest
) -> None:
    """Start an application; a started one stays as it is."""
    application_id = request["applicationId"]
    with emr.store.lock:
        application = emr.application(application_id, account=call.account, region=call.region)
        if application.state is ApplicationState.TERMINATED:
            raise wrong_state(
                f"Application {application_id}",
                (*_AT_REST, ApplicationState.STARTED),
                application.state,
            )
        begin(emr, application, call.now_ms)


@operation("StopApplication")
def stop_application(
    emr: EmrServerless, call: Call, request: shapes.StopApplicationRequest
) -> None:
    """Stop an application whose job runs have all ended."""
    application_id = request["applicationId"]
    with emr.store.lock:
        application = emr.application(application_id, account=call.account, region=call.region)
        if application.state is ApplicationState.STOPPED:
            return
        if application.state is not ApplicationState.STARTED:
            allowed_states = (ApplicationState.STARTED, ApplicationState.STOPPED)
            raise wrong_state(f"Application {application_id}", allowed_states, application.state)
        if any(not run.ended for run in emr.store.runs(application_id)):
            raise validation(
                f"Application {application_id} has job runs that have not ended. All scheduled and running jobs must "
                "be completed or cancelled before stopping an application."
            )
        application.state, application.details = ApplicationState.STOPPED, ""
        application.updated_ms = call.now_ms
        emr.store.save_application(application)


@operation("DeleteApplication")
def delete_application(
    emr: EmrServerless, call: Call, request: shapes.DeleteApplicationRequest
) -> None:
    """Terminate an application that is not started; lists still show it as TERMINATED."""
    application_id = request["applicationId"]
    with emr.store.lock:
        application = emr.application(application_id, account=call.account, region=call.region)
        if application.state not in _AT_REST:
            raise wrong_state(f"Application {application_id}", _AT_REST, application.state)
        application.state, application.updated_ms = ApplicationState.TERMINATED, call.now_ms
        emr.store.save_application(application)
    emr.remove_files(application)


MOST_TAGS = 50


def _resource(emr: EmrServerless, call: Call, arn: str) -> Application | JobRun:
    """Return the application or job run of a well-formed ARN."""
    where = {"account": call.account, "region": call.region}
    parts = Arn.parse(arn)
    if (parts.account, parts.region) != (call.account, call.region):
        raise not_found(f"Resource {arn}")
    match parts.resource.split("/"):
        case ["", "applications", application_id]:
            return emr.application(application_id, **where)
        case ["", "applications", application_id, "jobruns", run_id]:
            return emr.job_run(application_id, run_id, **where)
        case _:
            raise not_found(f"Resource {arn}")


def _set(
    emr: EmrServerless, resource: Application | JobRun, tags: dict[str, str], now_ms: int
) -> None:
    if count_tags(tags) > MOST_TAGS:
        raise validation(f"A resource can have at most {MOST_TAGS} tags.")
    resource.tags = tags
    if isinstance(resource, Application):
        resource.updated_ms = now_ms
        emr.store.save_application(resource)
    else:
        emr.store.save_run(resource)


@operation("TagResource")
def tag_resource(emr: EmrServerless, call: Call, request: shapes.TagResourceRequest) -> None:
    """Add tags, or overwrite the values of existing ones."""
    check_tag_keys(request["tags"])
    with emr.store.lock:
        resource = _resource(emr, call, request["resourceArn"])
        _set(emr, resource, {**resource.tags, **request["tags"]}, call.now_ms)


@operation("UntagResource")
def untag_resource(emr: EmrServerless, call: Call, request: shapes.UntagResourceRequest) -> None:
    """Remove tags; a missing tag is not an error."""
    gone = set(request["tagKeys"])
    check_tag_keys(gone)
    with emr.store.lock:
        resource = _resource(emr, call, request["resourceArn"])
        left = {key: value for key, value in resource.tags.items() if key not in gone}
        _set(emr, resource, left, call.now_ms)


@operation("ListTagsForResource")
def list_tags_for_resource(
    emr: EmrServerless, call: Call, request: shapes.ListTagsForResourceRequest
) -> shapes.ListTagsForResourceResponse:
    """Return a resource's tags."""
    return {"tags": dict(_resource(emr, call, request["resourceArn"]).tags)}
