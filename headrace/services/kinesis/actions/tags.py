"""Tags, by stream and by ARN."""

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    AddTagsToStreamInput,
    ListTagsForResourceInput,
    ListTagsForResourceOutput,
    ListTagsForStreamInput,
    ListTagsForStreamOutput,
    RemoveTagsFromStreamInput,
    TagResourceInput,
    UntagResourceInput,
)
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import TAGS_PER_STREAM
from headrace.services.kinesis.service import Kinesis
from headrace.services.kinesis.state import Stream


def check_tags(present: dict[str, str], more: dict[str, str]) -> None:
    """Raise InvalidArgumentException when a stream would have too many tags, or reserved ones."""
    if any(key.lower().startswith("aws:") for key in more):
        raise invalid_argument("Tag keys starting with aws: are reserved for system use.")
    if len({*present, *more}) > TAGS_PER_STREAM:
        raise invalid_argument(
            f"Failed to add tags to stream because it would exceed the maximum of {TAGS_PER_STREAM} tags."
        )


def _add(kinesis: Kinesis, stream: Stream, tags: dict[str, str]) -> None:
    check_tags(stream.tags, tags)
    stream.tags.update(tags)
    kinesis.save(stream)


def _remove(kinesis: Kinesis, stream: Stream, keys: list[str]) -> None:
    for key in keys:
        stream.tags.pop(key, None)
    kinesis.save(stream)


def _by_arn(kinesis: Kinesis, arn: str) -> Stream:
    stream = kinesis.find_arn(arn)
    if stream is None:
        raise AwsError("ResourceNotFoundException", f"Resource {arn} not found.")
    return stream


@operation("AddTagsToStream")
def add_tags_to_stream(kinesis: Kinesis, call: Call, request: AddTagsToStreamInput) -> None:
    """Add or change tags. Source: API_AddTagsToStream."""
    with kinesis.lock:
        _add(kinesis, kinesis.find(call.account, call.region, request), request["Tags"])


@operation("RemoveTagsFromStream")
def remove_tags_from_stream(
    kinesis: Kinesis, call: Call, request: RemoveTagsFromStreamInput
) -> None:
    """Remove tags; missing ones are no error. Source: API_RemoveTagsFromStream."""
    with kinesis.lock:
        _remove(kinesis, kinesis.find(call.account, call.region, request), request["TagKeys"])


@operation("ListTagsForStream")
def list_tags_for_stream(
    kinesis: Kinesis, call: Call, request: ListTagsForStreamInput
) -> ListTagsForStreamOutput:
    """Return a page of a stream's tags, by key. Source: API_ListTagsForStream."""
    stream = kinesis.find(call.account, call.region, request)
    after = request.get("ExclusiveStartTagKey", "")
    limit = request.get("Limit", TAGS_PER_STREAM)
    keys = sorted(key for key in stream.tags if key > after)
    return {
        "Tags": [{"Key": key, "Value": stream.tags[key]} for key in keys[:limit]],
        "HasMoreTags": len(keys) > limit,
    }


@operation("TagResource")
def tag_resource(kinesis: Kinesis, call: Call, request: TagResourceInput) -> None:
    """Add or change tags by ARN. Source: API_TagResource."""
    with kinesis.lock:
        _add(kinesis, _by_arn(kinesis, request["ResourceARN"]), request["Tags"])


@operation("UntagResource")
def untag_resource(kinesis: Kinesis, call: Call, request: UntagResourceInput) -> None:
    """Remove tags by ARN. Source: API_UntagResource."""
    with kinesis.lock:
        _remove(kinesis, _by_arn(kinesis, request["ResourceARN"]), request["TagKeys"])


@operation("ListTagsForResource")
def list_tags_for_resource(
    kinesis: Kinesis, call: Call, request: ListTagsForResourceInput
) -> ListTagsForResourceOutput:
    """Return all tags by ARN. Source: API_ListTagsForResource."""
    stream = _by_arn(kinesis, request["ResourceARN"])
    return {"Tags": [{"Key": key, "Value": stream.tags[key]} for key in sorted(stream.tags)]}
