"""CreateEventSourceMapping, UpdateEventSourceMapping, Get-, List-, DeleteEventSourceMapping."""

from __future__ import annotations

import logging

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    CreateEventSourceMappingInput,
    DeleteEventSourceMappingInput,
    EventSourceMappingConfiguration,
    GetEventSourceMappingInput,
    ListEventSourceMappingsInput,
    ListEventSourceMappingsOutput,
    UpdateEventSourceMappingInput,
)
from headrace.core.arn import Arn
from headrace.core.ports import FunctionNotFound, StreamNotFound
from headrace.services.lambda_.actions.common import build_page, parse_reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import conflict, invalid_parameter
from headrace.services.lambda_.mappings.checks import (
    check_kafka,
    check_settings,
    check_source,
    list_settable,
)
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.names import FunctionRef, parse_function

log = logging.getLogger(__name__)


def _function_arn(lambda_: Lambda, ref: FunctionRef) -> str:
    function = lambda_.functions.find(ref)
    try:
        if function is not None:
            function.resolve(ref.qualifier)
            return ref.qualified_arn
    except FunctionNotFound:
        log.debug("%s has no %s", ref.arn, ref.qualifier)
    raise invalid_parameter("Function does not exist")


def _read_starting_timestamp_ms(request: CreateEventSourceMappingInput, source: Arn) -> int | None:
    """Return the time of StartingPosition AT_TIMESTAMP, or None for other positions. Raises AwsError."""
    start = request.get("StartingPosition")
    if start is None:
        raise invalid_parameter(
            "1 validation error detected: Value null at 'startingPosition' failed to satisfy constraint: "
            "Member must not be null."
        )
    timestamp = request.get("StartingPositionTimestamp")
    if timestamp is not None and start != "AT_TIMESTAMP":
        raise invalid_parameter("Timestamp only valid with StartingPosition AT_TIMESTAMP")
    if start != "AT_TIMESTAMP":
        return None
    if source.service == "dynamodb":
        # Observed by LocalStack.
        raise invalid_parameter(f"Unsupported starting position for arn type: {source}")
    if timestamp is None:
        raise invalid_parameter("StartingPositionTimestamp is required with AT_TIMESTAMP.")
    timestamp_ms = int(timestamp.timestamp() * 1000)
    if timestamp_ms < 0:
        raise invalid_parameter(
            "Received Exception while reading from provided stream. "
            "class java.lang.Long can not be converted to a Timestamp"
        )
    return timestamp_ms


def _check_queue_start(request: CreateEventSourceMappingInput) -> None:
    for name in ("StartingPosition", "StartingPositionTimestamp"):
        if request.get(name) is not None:
            raise invalid_parameter("StartingPosition is not valid for SQS event sources.")


def _refuse_second(lambda_: Lambda, call: Call, new: Mapping, function_name: str) -> None:
    for other in lambda_.mappings.all(call.account, call.region):
        if (other.stream_arn, other.function_arn) != (new.stream_arn, new.function_arn):
            continue
        pair = f'(" {new.stream_arn} ") and function (" {function_name} ")'
        exists = (
            f"An event source mapping with SQS arn {pair} already exists."
            if new.service == "sqs"
            else f"The event source arn {pair} provided mapping already exists."
        )
        raise conflict(
            f"{exists} Please update or delete the existing mapping with UUID {other.uuid}"
        )


@operation("CreateEventSourceMapping")
def create_event_source_mapping(
    lambda_: Lambda, call: Call, request: CreateEventSourceMappingInput
) -> EventSourceMappingConfiguration:
    """Map a stream or a queue to a function. The function gets every record that is put after this returns."""
    source_arn = request.get("EventSourceArn") or ""
    check_kafka(request)
    source = check_source(source_arn)
    members = list_settable(request)
    check_settings(source, members, request)
    timestamp_ms = None
    if source.service == "sqs":
        _check_queue_start(request)
    else:
        timestamp_ms = _read_starting_timestamp_ms(request, source)
    mapping = Mapping(
        uuid=lambda_.ids.uuid(),
        account=call.account,
        region=call.region,
        function_arn=_function_arn(lambda_, parse_reference(call, request)),
        stream_arn=source_arn,
        starting_position=request.get("StartingPosition", ""),
        starting_timestamp_ms=timestamp_ms,
        enabled=request.get("Enabled", True),
        last_modified_ms=call.now_ms,
        members=members,
        tags=dict(request.get("Tags") or {}),
    )
    _refuse_second(lambda_, call, mapping, request["FunctionName"])
    role = lambda_.functions.role_of(mapping.function_arn)
    lambda_.permits.check_source(role, mapping.stream_arn)
    if source.service == "sqs":
        _check_visibility(lambda_, mapping)
    try:
        lambda_.mappings.create(mapping)
    except StreamNotFound:
        raise invalid_parameter(f"Stream not found: {mapping.stream_arn}") from None
    return mapping.output("Creating" if mapping.enabled else "Disabled")


def _check_visibility(lambda_: Lambda, mapping: Mapping) -> None:
    """Refuse a missing queue, and a queue whose visibility timeout is shorter than the function's timeout."""
    try:
        visibility_s = lambda_.mappings.visibility_timeout_s(mapping.stream_arn)
    except LookupError:
        raise invalid_parameter(
            "Error occurred while ReceiveMessage. SQS Error Code: AWS.SimpleQueueService.NonExistentQueue. "
            "SQS Error Message: The specified queue does not exist for this wsdl version."
        ) from None
    ref = parse_function(mapping.function_arn, account=mapping.account, region=mapping.region)
    timeout_s = lambda_.functions.get(ref).resolve(ref.qualifier).config.get("Timeout", 3)
    if visibility_s < timeout_s:
        raise invalid_parameter(
            f"Queue visibility timeout: {visibility_s} seconds is less than Function timeout: {timeout_s} seconds"
        )


@operation("UpdateEventSourceMapping")
def update_event_source_mapping(
    lambda_: Lambda, call: Call, request: UpdateEventSourceMappingInput
) -> EventSourceMappingConfiguration:
    """Change a mapping. It continues from its checkpoints."""
    mapping = lambda_.mappings.get_settled(call.account, call.region, request["UUID"], "update")
    members = {**mapping.members, **list_settable(request)}
    check_settings(check_source(mapping.stream_arn), members, request)
    name = request.get("FunctionName")
    if name:
        mapping.function_arn = _function_arn(lambda_, parse_reference(call, {"FunctionName": name}))
    state = "Updating"
    enabled = request.get("Enabled")
    if enabled is not None and enabled != mapping.enabled:
        mapping.enabled = enabled
        state = "Enabling" if enabled else "Disabling"
    mapping.change(members)
    mapping.last_modified_ms = call.now_ms
    lambda_.mappings.change(mapping, state)
    return mapping.output(state)


@operation("GetEventSourceMapping")
def get_event_source_mapping(
    lambda_: Lambda, call: Call, request: GetEventSourceMappingInput
) -> EventSourceMappingConfiguration:
    """Return one mapping."""
    mapping = lambda_.mappings.get(call.account, call.region, request["UUID"])
    return mapping.output(lambda_.mappings.state_of(mapping))


@operation("DeleteEventSourceMapping")
def delete_event_source_mapping(
    lambda_: Lambda, call: Call, request: DeleteEventSourceMappingInput
) -> EventSourceMappingConfiguration:
    """Stop a mapping and delete it."""
    mapping = lambda_.mappings.get_settled(call.account, call.region, request["UUID"], "delete")
    lambda_.mappings.delete(mapping)
    return mapping.output("Deleting")


@operation("ListEventSourceMappings")
def list_event_source_mappings(
    lambda_: Lambda, call: Call, request: ListEventSourceMappingsInput
) -> ListEventSourceMappingsOutput:
    """Return all mappings, or those of a function or an event source."""
    mappings = lambda_.mappings.all(call.account, call.region)
    source_arn = request.get("EventSourceArn")
    if source_arn:
        mappings = [m for m in mappings if m.stream_arn == source_arn]
    name = request.get("FunctionName")
    if name:
        ref = parse_reference(call, {"FunctionName": name})
        mappings = [m for m in mappings if _is_of(m, ref)]
    shown = [m.output(lambda_.mappings.state_of(m)) for m in mappings]
    return build_page(shown, request, "EventSourceMappings", most=100)


def _is_of(mapping: Mapping, ref: FunctionRef) -> bool:
    own = parse_function(mapping.function_arn, account=mapping.account, region=mapping.region)
    return (own.key, own.qualifier) == (ref.key, ref.qualifier)
