"""Tags of applications and of job runs."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr_serverless as shapes
from headrace.core.arn import Arn
from headrace.core.system_tags import count_tags
from headrace.services.emr_serverless.backend import EmrServerless
from headrace.services.emr_serverless.errors import check_tag_keys, not_found, validation
from headrace.services.emr_serverless.state import Application, JobRun

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
