"""The six operations on tags: three name a stream, three name a stream, a consumer, a queue or a channel by ARN."""

from headrace.aws.calls.operation import Call, operation
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
from headrace.services.kinesis.actions.resources import (
    Resource,
    find_active_resource,
    find_resource,
    save_resource,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.limits import TAGS_PER_STREAM
from headrace.services.kinesis.state import Stream
from headrace.services.kinesis.tagging import check_keys, check_tags


def _add(kinesis: Kinesis, stream: Stream, resource: Resource, tags: dict[str, str]) -> None:
    kind = type(resource).__name__.lower()
    check_tags(resource.tags, tags, resource.name, stream.account, kind)
    resource.tags.update(tags)
    save_resource(kinesis, resource)


def _remove(kinesis: Kinesis, resource: Resource, keys: list[str]) -> None:
    check_keys(keys)
    for key in keys:
        resource.tags.pop(key, None)
    save_resource(kinesis, resource)


@operation("AddTagsToStream")
def add_tags_to_stream(kinesis: Kinesis, call: Call, request: AddTagsToStreamInput) -> None:
    """Add or change tags. Source: API_AddTagsToStream."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _add(kinesis, stream, stream, request["Tags"])


@operation("RemoveTagsFromStream")
def remove_tags_from_stream(
    kinesis: Kinesis, call: Call, request: RemoveTagsFromStreamInput
) -> None:
    """Remove tags; a missing tag is not an error. Source: API_RemoveTagsFromStream."""
    with kinesis.lock:
        _remove(
            kinesis,
            kinesis.find_active(call.account, call.region, request, call.now_ms),
            request["TagKeys"],
        )


@operation("ListTagsForStream")
def list_tags_for_stream(
    kinesis: Kinesis, call: Call, request: ListTagsForStreamInput
) -> ListTagsForStreamOutput:
    """Return a page of a stream's tags, sorted by key. Source: API_ListTagsForStream."""
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
    """Add or change the tags of a stream, consumer, queue or channel, named by ARN. Source: API_TagResource."""
    with kinesis.lock:
        stream, resource = find_active_resource(kinesis, call, request)
        _add(kinesis, stream, resource, request["Tags"])


@operation("UntagResource")
def untag_resource(kinesis: Kinesis, call: Call, request: UntagResourceInput) -> None:
    """Remove tags from a stream, consumer, queue or channel, named by ARN. Source: API_UntagResource."""
    with kinesis.lock:
        _remove(kinesis, find_active_resource(kinesis, call, request)[1], request["TagKeys"])


@operation("ListTagsForResource")
def list_tags_for_resource(
    kinesis: Kinesis, call: Call, request: ListTagsForResourceInput
) -> ListTagsForResourceOutput:
    """Return all tags of a stream, consumer, queue or channel, named by ARN. Source: API_ListTagsForResource."""
    tags = find_resource(kinesis, call, request)[1].tags
    return {"Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}
