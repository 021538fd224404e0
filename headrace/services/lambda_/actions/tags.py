"""TagResource, UntagResource, ListTags for functions, event source mappings and code signing configurations."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    ListTagsInput,
    ListTagsOutput,
    TagResourceInput,
    UntagResourceInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.configuration import check_tag_keys, check_tags
from headrace.services.lambda_.errors import invalid_parameter, not_found
from headrace.services.lambda_.names import check_reachable, parse_function

_MAPPING = "event-source-mapping:"
_SIGNING = "code-signing-config:"


def _change(
    lambda_: Lambda, call: Call, arn_text: str, change: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Apply `change` to the tags of a resource, store the result, and return it."""
    try:
        arn = Arn.parse(arn_text)
    except InvalidArn:
        raise invalid_parameter(f"Invalid resource ARN: {arn_text}") from None
    if arn.resource.startswith(_MAPPING):
        uuid = arn.resource.removeprefix(_MAPPING)
        mapping = lambda_.mappings.find(arn.account, arn.region, uuid)
        if mapping is None:
            raise not_found(f"Event source mapping not found: {arn_text}")
        return lambda_.mappings.change_tags(mapping, change)
    if arn.resource.startswith(_SIGNING):
        return _change_signing(lambda_, arn_text, change)
    ref = parse_function(arn_text, account=call.account, region=call.region)
    check_reachable(ref, call.region)
    if ref.qualifier is not None:
        raise invalid_parameter(
            "Tags on function aliases and versions are not supported. Please specify a function ARN."
        )
    with lambda_.functions.changing(ref) as function:
        tags = dict(function.tags)
        change(tags)
        function.tags = tags
        return dict(tags)


def _change_signing(
    lambda_: Lambda, arn: str, change: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    config = lambda_.signing.get(arn)
    tags = lambda_.signing.tags(arn)
    change(tags)
    lambda_.signing.put(config, tags)
    return tags


@operation("TagResource")
def tag_resource(lambda_: Lambda, call: Call, request: TagResourceInput) -> None:
    """Add tags. A tag replaces an earlier tag with the same key."""
    if not request["Tags"]:
        raise invalid_parameter("An error occurred and the request cannot be processed.")

    def add(tags: dict[str, str]) -> None:
        check_tags(request["Tags"], tags)
        tags.update(request["Tags"])

    _change(lambda_, call, request["Resource"], add)


@operation("UntagResource")
def untag_resource(lambda_: Lambda, call: Call, request: UntagResourceInput) -> None:
    """Remove tags by key. A missing tag is not an error."""

    def remove(tags: dict[str, str]) -> None:
        check_tag_keys(request["TagKeys"])
        for key in request["TagKeys"]:
            tags.pop(key, None)

    _change(lambda_, call, request["Resource"], remove)


@operation("ListTags")
def list_tags(lambda_: Lambda, call: Call, request: ListTagsInput) -> ListTagsOutput:
    """Return the tags."""
    return {"Tags": _change(lambda_, call, request["Resource"], lambda _: None)}
