"""Tags of delivery streams."""

from collections.abc import Iterable

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.firehose import (
    ListTagsForDeliveryStreamInput,
    ListTagsForDeliveryStreamOutput,
    TagDeliveryStreamInput,
    TagDeliveryStreamOutput,
    UntagDeliveryStreamInput,
    UntagDeliveryStreamOutput,
)
from headrace.core.system_tags import count_tags, is_refused
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.limits import TAGS_PER_STREAM


def check_keys(keys: Iterable[str]) -> None:
    """Refuse tags with AWS's prefix. Raises AwsError InvalidArgumentException."""
    if any(map(is_refused, keys)):
        raise invalid("Tag keys starting with aws: are reserved for system use.")


def check_tags(present: dict[str, str], added: dict[str, str]) -> None:
    """Refuse reserved tags, and too many. Raises AwsError InvalidArgumentException."""
    check_keys(added)
    if count_tags({*present, *added}) > TAGS_PER_STREAM:
        raise invalid(f"A delivery stream can have at most {TAGS_PER_STREAM} tags.")


@operation("TagDeliveryStream")
def tag_delivery_stream(
    firehose: Firehose, call: Call, request: TagDeliveryStreamInput
) -> TagDeliveryStreamOutput:
    """Add tags, or overwrite the values of existing ones. Source: API_TagDeliveryStream."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        tags = {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        check_tags(stream.tags, tags)
        stream.tags.update(tags)
        firehose.save(stream)
    return {}


@operation("UntagDeliveryStream")
def untag_delivery_stream(
    firehose: Firehose, call: Call, request: UntagDeliveryStreamInput
) -> UntagDeliveryStreamOutput:
    """Remove tags. Source: API_UntagDeliveryStream."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        check_keys(request["TagKeys"])
        for key in request["TagKeys"]:
            stream.tags.pop(key, None)
        firehose.save(stream)
    return {}


@operation("ListTagsForDeliveryStream")
def list_tags_for_delivery_stream(
    firehose: Firehose, call: Call, request: ListTagsForDeliveryStreamInput
) -> ListTagsForDeliveryStreamOutput:
    """Return a page of tags, sorted by key. Source: API_ListTagsForDeliveryStream."""
    stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
    after = request.get("ExclusiveStartTagKey", "")
    limit = request.get("Limit", TAGS_PER_STREAM)
    keys = sorted(key for key in stream.tags if key > after)
    return {
        "Tags": [{"Key": key, "Value": stream.tags[key]} for key in keys[:limit]],
        "HasMoreTags": len(keys) > limit,
    }
