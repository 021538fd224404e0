"""TagResources, UntagResources, GetTagKeys, GetTagValues."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import tagging as shapes
from headrace.core.system_tags import is_refused
from headrace.core.values import BadMarker, page_of
from headrace.services.tagging.backend import Tagging
from headrace.services.tagging.errors import invalid_parameter
from headrace.services.tagging.limits import NAMES_PER_PAGE


@operation("TagResources")
def tag_resources(
    tagging: Tagging, call: Call, request: shapes.TagResourcesInput
) -> shapes.TagResourcesOutput:
    """Tag resources of any service; the answer lists those that could not be tagged. Source: API_TagResources."""
    tags = request["Tags"]
    _check_keys(tags)
    if not tags:
        raise invalid_parameter("Tags must have at least one tag.")
    failed = tagging.change(
        call, request["ResourceARNList"], lambda kind, place, arn: kind.tag(place, arn, tags)
    )
    return {"FailedResourcesMap": failed}


@operation("UntagResources")
def untag_resources(
    tagging: Tagging, call: Call, request: shapes.UntagResourcesInput
) -> shapes.UntagResourcesOutput:
    """Remove the tags with these keys from resources. Source: API_UntagResources."""
    keys = request["TagKeys"]
    _check_keys(keys)
    failed = tagging.change(
        call, request["ResourceARNList"], lambda kind, place, arn: kind.untag(place, arn, keys)
    )
    return {"FailedResourcesMap": failed}


@operation("GetTagKeys")
def get_tag_keys(
    tagging: Tagging, call: Call, request: shapes.GetTagKeysInput
) -> shapes.GetTagKeysOutput:
    """Return all tag keys in the account and region. Source: API_GetTagKeys."""
    keys = {key for resource in tagging.resources(call) for key in resource.tags}
    shown, token = _page(keys, request.get("PaginationToken"))
    return {"PaginationToken": token, "TagKeys": shown}


@operation("GetTagValues")
def get_tag_values(
    tagging: Tagging, call: Call, request: shapes.GetTagValuesInput
) -> shapes.GetTagValuesOutput:
    """Return all values of a tag key. Source: API_GetTagValues."""
    key = request["Key"]
    resources = tagging.resources(call)
    values = {resource.tags[key] for resource in resources if key in resource.tags}
    shown, token = _page(values, request.get("PaginationToken"))
    return {"PaginationToken": token, "TagValues": shown}


def _check_keys(keys: Iterable[str]) -> None:
    if any(map(is_refused, keys)):
        raise invalid_parameter("Keys of tags that begin with aws: are reserved.")


def _page(names: set[str], token: str | None) -> tuple[list[str], str]:
    try:
        shown, following = page_of(sorted(names), token or None, NAMES_PER_PAGE)
    except BadMarker:
        raise invalid_parameter("PaginationToken is not valid.") from None
    return shown, following or ""
