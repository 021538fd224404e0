"""The tagging API's operations.

TagResources, UntagResources, GetTagKeys, GetTagValues.

GetResources: finds tagged resources by tag and by type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes import tagging as shapes
from headrace.core.system_tags import is_refused
from headrace.core.values import BadMarker, page_of
from headrace.services.tagging.backend import TaggedResource, Tagging, matching
from headrace.services.tagging.errors import (
    MOST_RESOURCES_PER_PAGE,
    NAMES_PER_PAGE,
    TAGS_PER_PAGE,
    invalid_parameter,
)


@operation("GetResources")
def get_resources(
    tagging: Tagging, call: Call, request: shapes.GetResourcesInput
) -> shapes.GetResourcesOutput:
    """Return a page of tagged resources, sorted by ARN. Source: API_GetResources."""
    most = _page_size(request)
    arns = request.get("ResourceARNList") or []
    types = request.get("ResourceTypeFilters") or []
    filters: list[Any] = list(request.get("TagFilters") or [])
    if arns and (types or filters or request.get("PaginationToken")):
        raise invalid_parameter("ResourceARNList cannot be given together with filters or pages.")
    matched = [r for r in tagging.resources(call, types) if matching(r, filters)]
    if arns:
        matched = [resource for resource in matched if resource.arn in arns]
    try:
        shown, token = page_of(matched, request.get("PaginationToken") or None, most)
    except BadMarker:
        raise invalid_parameter("PaginationToken is not valid.") from None
    tags_left, resources = request.get("TagsPerPage"), list[TaggedResource]()
    for resource in shown:
        # A resource whose tags exceed the page goes to the next one; every page has at least one resource.
        if tags_left is not None and resources and len(resource.tags) > tags_left:
            token = _token_after(matched, resources[-1])
            break
        resources.append(resource)
        tags_left = None if tags_left is None else tags_left - len(resource.tags)
    return {
        "PaginationToken": token or "",
        "ResourceTagMappingList": [
            {
                "ResourceARN": resource.arn,
                "Tags": [{"Key": key, "Value": value} for key, value in resource.tags.items()],
            }
            for resource in resources
        ],
    }


def _page_size(request: shapes.GetResourcesInput) -> int:
    most = request.get("ResourcesPerPage", MOST_RESOURCES_PER_PAGE)
    if not 1 <= most <= MOST_RESOURCES_PER_PAGE:
        raise invalid_parameter(f"ResourcesPerPage must be from 1 to {MOST_RESOURCES_PER_PAGE}.")
    tags = request.get("TagsPerPage")
    least, longest = TAGS_PER_PAGE
    if tags is not None and (not least <= tags <= longest or tags % least):
        raise invalid_parameter(f"TagsPerPage must be a multiple of {least} up to {longest}.")
    if request.get("ExcludeCompliantResources") and not request.get("IncludeComplianceDetails"):
        raise invalid_parameter("ExcludeCompliantResources needs IncludeComplianceDetails.")
    return most


def _token_after(resources: list[TaggedResource], last: TaggedResource) -> str | None:
    return page_of(resources, None, resources.index(last) + 1)[1]


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


ACTIONS: list[Action] = [
    get_resources,
    get_tag_keys,
    get_tag_values,
    tag_resources,
    untag_resources,
]
