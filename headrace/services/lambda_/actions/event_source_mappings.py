"""CreateEventSourceMapping, UpdateEventSourceMapping, Get-, List-, DeleteEventSourceMapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.aws.operation import Call, operation
from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import StreamNotFound
from headrace.services.lambda_.actions.common import page, reference
from headrace.services.lambda_.destinations import check_destination
from headrace.services.lambda_.errors import conflict, invalid_parameter, validation
from headrace.services.lambda_.event_source.filters import Filter, InvalidPattern
from headrace.services.lambda_.event_source.mapping import Mapping
from headrace.services.lambda_.members import section
from headrace.services.lambda_.names import FunctionRef, parse_function

if TYPE_CHECKING:
    from headrace.services.lambda_.service import Lambda

_MEMBERS = (
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "ParallelizationFactor",
    "DestinationConfig",
    "MaximumRecordAgeInSeconds",
    "BisectBatchOnFunctionError",
    "MaximumRetryAttempts",
    "FunctionResponseTypes",
    "FilterCriteria",
    "MetricsConfig",
    "LoggingConfig",
    "KMSKeyArn",
)
_SHORTEST_RECORD_AGE_S = 60


def _members(request: dict[str, Any]) -> dict[str, Any]:
    return {name: request[name] for name in _MEMBERS if name in request}


def _check(request: dict[str, Any]) -> None:
    """Refuse what AWS refuses, and clearly what is not built. Raises AwsError."""
    age_s = request.get("MaximumRecordAgeInSeconds", -1)
    if -1 < age_s < _SHORTEST_RECORD_AGE_S:
        raise invalid_parameter(
            f"Invalid MaximumRecordAgeInSeconds: {age_s}. "
            f"It must be -1 or at least {_SHORTEST_RECORD_AGE_S}."
        )
    if request.get("TumblingWindowInSeconds"):
        raise invalid_parameter("headrace does not support TumblingWindowInSeconds yet")
    filters: list[dict[str, str]] = section(request, "FilterCriteria").get("Filters") or []
    for one in filters:
        try:
            Filter.parse(one.get("Pattern", ""))
        except InvalidPattern as error:
            raise invalid_parameter(f"Invalid filter pattern definition. {error}") from None
    check_destination(section(request, "DestinationConfig", "OnFailure").get("Destination"))


def _stream_arn(text: str | None) -> str:
    if not text:
        raise invalid_parameter(
            "Unrecognized event source, must be kinesis, dynamodb stream or sqs."
        )
    try:
        arn = Arn.parse(text)
    except InvalidArn:
        raise invalid_parameter(f"The event source ARN {text} is invalid.") from None
    if arn.service != "kinesis":
        raise invalid_parameter(
            f"headrace does not support event sources of {arn.service} yet, only Kinesis streams"
        )
    if "/consumer/" in arn.resource:
        raise invalid_parameter(
            "headrace does not support registered consumers as event sources yet; use the stream's ARN"
        )
    return text


def _function_arn(lambda_: Lambda, ref: FunctionRef) -> str:
    lambda_.functions.get(ref).resolve(ref.qualifier)
    return ref.qualified_arn


@operation("CreateEventSourceMapping")
def create_event_source_mapping(
    lambda_: Lambda, call: Call, request: dict[str, Any]
) -> dict[str, Any]:
    """Map a stream to a function; records put after this returns are seen."""
    stream_arn = _stream_arn(request.get("EventSourceArn"))
    _check(request)
    start = request.get("StartingPosition")
    if start is None:
        raise validation(
            "Value null at 'startingPosition' failed to satisfy constraint: Member must not be null."
        )
    timestamp = request.get("StartingPositionTimestamp")
    if (start == "AT_TIMESTAMP") != (timestamp is not None):
        raise invalid_parameter(
            "StartingPositionTimestamp must be given with, and only with, StartingPosition AT_TIMESTAMP."
        )
    function_arn = _function_arn(lambda_, reference(call, request))
    for other in lambda_.mappings.all(call.account, call.region):
        if (other.stream_arn, other.function_arn) == (stream_arn, function_arn):
            raise conflict(
                f'The event source arn (" {stream_arn} ") and function (" {request["FunctionName"]} ") '
                f"provided mapping already exists. Please update or delete the existing mapping with UUID {other.uuid}"
            )
    mapping = Mapping(
        uuid=lambda_.ids.uuid(),
        account=call.account,
        region=call.region,
        function_arn=function_arn,
        stream_arn=stream_arn,
        starting_position=start,
        starting_timestamp_ms=None if timestamp is None else int(timestamp.timestamp() * 1000),
        enabled=request.get("Enabled", True),
        last_modified_ms=call.now_ms,
        members=_members(request),
        tags=dict(request.get("Tags") or {}),
    )
    try:
        lambda_.mappings.create(mapping)
    except StreamNotFound:
        raise invalid_parameter(f"Stream not found: {stream_arn}") from None
    return mapping.output("Creating")


@operation("UpdateEventSourceMapping")
def update_event_source_mapping(
    lambda_: Lambda, call: Call, request: dict[str, Any]
) -> dict[str, Any]:
    """Change a mapping; it goes on from its checkpoints."""
    mapping = lambda_.mappings.get(call.account, call.region, request["UUID"])
    _check(request)
    if request.get("FunctionName"):
        mapping.function_arn = _function_arn(lambda_, reference(call, request))
    state = "Updating"
    enabled = request.get("Enabled")
    if enabled is not None and enabled != mapping.enabled:
        mapping.enabled = enabled
        state = "Enabling" if enabled else "Disabling"
    mapping.members = {**mapping.members, **_members(request)}
    mapping.last_modified_ms = call.now_ms
    lambda_.mappings.change(mapping)
    return mapping.output(state)


@operation("GetEventSourceMapping")
def get_event_source_mapping(
    lambda_: Lambda, call: Call, request: dict[str, Any]
) -> dict[str, Any]:
    """Return one mapping."""
    return lambda_.mappings.get(call.account, call.region, request["UUID"]).output()


@operation("DeleteEventSourceMapping")
def delete_event_source_mapping(
    lambda_: Lambda, call: Call, request: dict[str, Any]
) -> dict[str, Any]:
    """Stop and forget a mapping."""
    mapping = lambda_.mappings.get(call.account, call.region, request["UUID"])
    lambda_.mappings.delete(mapping)
    return mapping.output("Deleting")


@operation("ListEventSourceMappings")
def list_event_source_mappings(
    lambda_: Lambda, call: Call, request: dict[str, Any]
) -> dict[str, Any]:
    """Return mappings, of one function or one stream if asked."""
    found = lambda_.mappings.all(call.account, call.region)
    if request.get("EventSourceArn"):
        found = [m for m in found if m.stream_arn == request["EventSourceArn"]]
    if request.get("FunctionName"):
        ref = reference(call, request)
        found = [m for m in found if _is_of(m, ref)]
    return page([m.output() for m in found], request, "EventSourceMappings", most=100)


def _is_of(mapping: Mapping, ref: FunctionRef) -> bool:
    own = parse_function(mapping.function_arn, account=mapping.account, region=mapping.region)
    return (own.key, own.qualifier) == (ref.key, ref.qualifier)
