"""The operations that name a resource by its ARN: tags and resource policies.

The ARN is that of a stream, a consumer, a queue or a channel, and the rules for tags are the same for all. Three of the
six operations on tags name a stream instead. Policies are stored; nothing here evaluates them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    AddTagsToStreamInput,
    DeleteResourcePolicyInput,
    GetResourcePolicyInput,
    GetResourcePolicyOutput,
    ListTagsForResourceInput,
    ListTagsForResourceOutput,
    ListTagsForStreamInput,
    ListTagsForStreamOutput,
    PutResourcePolicyInput,
    RemoveTagsFromStreamInput,
    TagResourceInput,
    UntagResourceInput,
)
from headrace.core.system_tags import count_tags, is_refused
from headrace.core.values import parse_json
from headrace.permissions.policies.document import find_missing_principal
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.channel_orders import Channel
from headrace.services.kinesis.errors import (
    POLICY_CHARS,
    TAGS_PER_STREAM,
    consumer_not_active,
    in_use,
    invalid_argument,
    limit_exceeded,
    not_active,
)
from headrace.services.kinesis.queues.state import Queue
from headrace.services.kinesis.state import Consumer, Stream

# Imported with the first tag: it takes 1.5 MB.
if TYPE_CHECKING:
    import regex


@functools.cache
def _forbidden() -> regex.Pattern[str]:
    """Return what matches a character that no tag may have.

    AWS's message does not list the colon, but AWS accepts it; the only white space that AWS accepts is the space. The
    message lists the percent sign as valid, but a second check refuses it. Source: kinesalite (observed), API_Tag
    (documented).
    """
    import regex

    return regex.compile(r"[^\p{L}\p{Zs}\p{N}_.:/=+\-@%]")


def check_keys(keys: Iterable[str]) -> None:
    """Raise InvalidArgumentException for tag keys that are reserved for AWS: users cannot set or remove them."""
    if any(map(is_refused, keys)):
        raise invalid_argument("Tag keys starting with aws: are reserved for system use.")


def check_tags(
    present: Mapping[str, str], more: Mapping[str, str], name: str, account: str, kind: str
) -> None:
    """Raise InvalidArgumentException when a resource would have too many tags, or tags that are not valid.

    `kind` is `stream`, `consumer`, `queue` or `channel`. Source of the messages: kinesalite (observed).
    """
    check_keys(more)
    if any(_forbidden().search(text) for tag in more.items() for text in tag):
        raise invalid_argument(
            "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space,"
            " _ . / = + - % @."
        )
    if any("%" in text for tag in more.items() for text in tag):
        raise invalid_argument(
            f"Failed to add tags to {kind} {name} under account {account} because some tags contained illegal"
            " characters. The allowed characters are Unicode letters, white-spaces, '_',',','/','=','+','-','@'."
        )
    if count_tags({*present, *more}) > TAGS_PER_STREAM:
        raise invalid_argument(
            f"Failed to add tags to {kind} {name} under account {account} because a given {kind} cannot have"
            f" more than {TAGS_PER_STREAM} tags associated with it."
        )


Resource = Stream | Consumer | Queue | Channel


class NamesResource(TypedDict):
    """The members by which a request names a stream, a consumer, a queue or a channel."""

    ResourceARN: str
    StreamId: NotRequired[str]


def find_resource(kinesis: Kinesis, call: Call, request: NamesResource) -> tuple[Stream, Resource]:
    """Return (the stream, the resource that ResourceARN names). Raises AwsError."""
    arn = request["ResourceARN"]
    resource: Resource
    if ":queue/" in arn:
        opened = kinesis.queues.find(arn, call.now_ms)
        stream, resource = opened.stream, opened.queue
    elif ":channel/" in arn:
        order = kinesis.channels.find(arn, call.now_ms)
        stream, resource = order.stream, order.channel
    elif "/consumer/" in arn:
        stream, resource = kinesis.find_consumer(arn, call.now_ms)
    else:
        kinesis.remove_deleted()
        stream_found = kinesis.registry.find_arn(arn)
        if stream_found is None:
            raise AwsError("ResourceNotFoundException", f"Resource {arn} not found.")
        stream, resource = stream_found, stream_found
    if request.get("StreamId") not in (None, stream.public_id):
        raise invalid_argument("StreamId does not belong to the resource that is named.")
    return stream, resource


def find_active_resource(
    kinesis: Kinesis, call: Call, request: NamesResource
) -> tuple[Stream, Resource]:
    """Do what `find_resource` does, and require that the resource is ACTIVE."""
    stream, resource = find_resource(kinesis, call, request)
    status = resource.status(call.now_ms)
    if status != "ACTIVE":
        if isinstance(resource, Queue | Channel):
            kind = type(resource).__name__
            raise in_use(f"{kind} {resource.arn} is not ACTIVE, instead in state {status}.")
        if isinstance(resource, Consumer):
            raise consumer_not_active(
                resource.name, resource.created_s, stream.name, stream.account
            )
        raise not_active(stream.name, stream.account, status)
    return stream, resource


def save_resource(kinesis: Kinesis, resource: Resource) -> None:
    """Store a changed stream, consumer, queue or channel; the change is durable when this returns."""
    if isinstance(resource, Queue):
        kinesis.queues.save(resource)
    elif isinstance(resource, Channel):
        kinesis.channels.save(resource)
    elif isinstance(resource, Consumer):
        kinesis.consumers.save(resource)
    else:
        kinesis.save(resource)


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


def policy_of(kinesis: Kinesis, arn: str) -> str | None:
    """Return the JSON policy of a stream, a consumer or a queue, or None when it has none."""
    opened = kinesis.queues.by_arn(arn)
    if opened is not None:
        return opened.queue.policy
    if "/consumer/" in arn:
        consumer = kinesis.consumers.by_arn(arn, kinesis.clock.now_ms())
        return None if consumer is None else consumer.policy
    stream = kinesis.registry.find_arn(arn)
    return None if stream is None else stream.policy


# GetResourcePolicy's answer for a resource without a policy. Observed by moto's authors.
_EMPTY = "{}"


@operation("PutResourcePolicy")
def put_resource_policy(kinesis: Kinesis, call: Call, request: PutResourcePolicyInput) -> None:
    """Attach a policy to a stream, a consumer or a queue. Source: API_PutResourcePolicy."""
    _check_kind(request)
    with kinesis.lock:
        find_active_resource(kinesis, call, request)
    _check(request["Policy"], request["ResourceARN"])
    # Ask before taking the lock: the question may first have to load IAM.
    if find_missing_principal(
        request["Policy"], functools.partial(kinesis.has_principal, call.account)
    ):
        raise invalid_argument("Policy contains an invalid principal.")  # the sentence is assumed
    with kinesis.lock:
        _, resource = find_active_resource(kinesis, call, request)
        resource.policy = request["Policy"]
        save_resource(kinesis, resource)


@operation("GetResourcePolicy")
def get_resource_policy(
    kinesis: Kinesis, call: Call, request: GetResourcePolicyInput
) -> GetResourcePolicyOutput:
    """Return the policy of a stream, a consumer or a queue. Source: API_GetResourcePolicy."""
    _check_kind(request)
    _, resource = find_resource(kinesis, call, request)
    return {"Policy": _EMPTY if resource.policy is None else resource.policy}


@operation("DeleteResourcePolicy")
def delete_resource_policy(
    kinesis: Kinesis, call: Call, request: DeleteResourcePolicyInput
) -> None:
    """Detach the policy of a stream, a consumer or a queue. Source: API_DeleteResourcePolicy."""
    _check_kind(request)
    with kinesis.lock:
        _, resource = find_active_resource(kinesis, call, request)
        if resource.policy is None:
            raise _no_policy(request["ResourceARN"])
        resource.policy = None
        save_resource(kinesis, resource)


def _check_kind(request: NamesResource) -> None:
    """Raise InvalidArgumentException for a channel, which has no policy (documented; the sentence is assumed)."""
    if ":channel/" in request["ResourceARN"]:
        raise invalid_argument("ResourceARN must be that of a stream, a consumer or a queue.")


def _no_policy(arn: str) -> AwsError:
    return AwsError("ResourceNotFoundException", f"No resource policy found for resource {arn}.")


def _check(text: str, arn: str) -> None:
    """Raise InvalidArgumentException when the text is not a policy, or when it names another resource."""
    if len(text) > POLICY_CHARS:
        raise limit_exceeded(f"The policy is longer than {POLICY_CHARS} characters.")
    try:
        document: Any = parse_json(text)
    except ValueError as error:
        raise invalid_argument("Policy is not valid JSON.") from error
    members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    statements: Any = members.get("Statement")
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list) or not statements:
        raise invalid_argument("Policy must have a Statement.")
    for statement in cast("list[Any]", statements):
        _check_statement(statement, arn)


def _check_statement(statement: Any, arn: str) -> None:
    if not isinstance(statement, dict):
        raise invalid_argument("Every Statement of a policy must be an object.")
    members = cast("dict[str, Any]", statement)
    if members.get("Effect") not in ("Allow", "Deny"):
        raise invalid_argument("Every Statement of a policy must have the Effect Allow or Deny.")
    if not members.get("Principal"):
        raise invalid_argument("Every Statement of a resource policy must have a Principal.")
    actions = _texts(members.get("Action"))
    if not actions or not all(action.startswith("kinesis:") for action in actions):
        raise invalid_argument("Every Action of a policy must be one of kinesis.")
    if _texts(members.get("Resource")) != [arn]:
        raise invalid_argument(f"The Resource of every Statement must be {arn}.")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
