"""TagResource, UntagResource, ListTags: of functions and of event source mappings."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    ListTagsInput,
    ListTagsOutput,
    TagResourceInput,
    UntagResourceInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.services.lambda_.actions.common import unqualified
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.names import parse_function

_MAPPING = "event-source-mapping:"


def _change(
    lambda_: Lambda, call: Call, arn_text: str, change: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Run `change` on the tags of a resource, keep the result, and return it."""
    try:
        arn = Arn.parse(arn_text)
    except InvalidArn:
        raise invalid_parameter(f"Invalid resource ARN: {arn_text}") from None
    if arn.resource.startswith(_MAPPING):
        return lambda_.mappings.change_tags(
            arn.account, arn.region, arn.resource.removeprefix(_MAPPING), change
        )
    ref = unqualified(parse_function(arn_text, account=call.account, region=call.region))
    with lambda_.functions.changing(ref) as function:
        change(function.tags)
        return dict(function.tags)


@operation("TagResource")
def tag_resource(lambda_: Lambda, call: Call, request: TagResourceInput) -> None:
    """Add tags, replacing those of the same key."""
    _change(lambda_, call, request["Resource"], lambda tags: tags.update(request["Tags"]))


@operation("UntagResource")
def untag_resource(lambda_: Lambda, call: Call, request: UntagResourceInput) -> None:
    """Remove tags by key; a missing one is no error."""

    def remove(tags: dict[str, str]) -> None:
        for key in request["TagKeys"]:
            tags.pop(key, None)

    _change(lambda_, call, request["Resource"], remove)


@operation("ListTags")
def list_tags(lambda_: Lambda, call: Call, request: ListTagsInput) -> ListTagsOutput:
    """Return the tags."""
    return {"Tags": _change(lambda_, call, request["Resource"], lambda _: None)}
