"""Invoke, as the control plane asks for it; requests of HTTP come by `fast_path.py`.

Put-, Get-, Update-, Delete- and ListFunctionEventInvokeConfig(s): retries and destinations of asynchronous calls.
"""

from __future__ import annotations

import base64
from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    DeleteFunctionEventInvokeConfigInput,
    DestinationConfig,
    FunctionEventInvokeConfig,
    GetFunctionEventInvokeConfigInput,
    InvokeInput,
    InvokeOutput,
    ListFunctionEventInvokeConfigsInput,
    ListFunctionEventInvokeConfigsOutput,
    PutFunctionEventInvokeConfigInput,
    UpdateFunctionEventInvokeConfigInput,
)
from headrace.core.ports import FunctionNotFound, InvokeResult
from headrace.core.values import moment, section
from headrace.services.lambda_.actions.common import build_page, parse_reference
from headrace.services.lambda_.async_events import EVERYWHERE
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    function_not_found,
    invalid_parameter,
    not_found,
    validation,
)
from headrace.services.lambda_.invocations.dispatcher import Target, check_payload
from headrace.services.lambda_.names import LATEST, FunctionRef, parse_function
from headrace.services.lambda_.state import AsyncSettings, EventInvokeConfig, Function

_TYPES = ("RequestResponse", "Event", "DryRun")


@operation("Invoke")
def invoke(lambda_: Lambda, call: Call, request: InvokeInput) -> InvokeOutput:
    """Answer Invoke for calls inside this process."""
    ref = parse_function(
        request["FunctionName"],
        account=call.account,
        region=call.region,
        qualifier=request.get("Qualifier"),
    )
    invocation_type = request.get("InvocationType") or "RequestResponse"
    result = run(
        lambda_,
        ref,
        request.get("Payload") or b"",
        invocation_type=invocation_type,
        client_context=request.get("ClientContext") or "",
        request_id=call.request_id,
    )
    if result is None:
        return {"StatusCode": 202 if invocation_type == "Event" else 204}
    answer: InvokeOutput = {
        "StatusCode": 200,
        "ExecutedVersion": result.executed_version,
        "Payload": result.payload,
    }
    if result.function_error:
        answer["FunctionError"] = result.function_error
    if request.get("LogType") == "Tail":
        answer["LogResult"] = base64.b64encode(result.log_tail).decode()
    return answer


def run(
    lambda_: Lambda,
    ref: FunctionRef,
    payload: bytes,
    *,
    invocation_type: str,
    client_context: str,
    request_id: str,
    trace_id: str = "",
) -> InvokeResult | None:
    """Run, queue or only check an invocation. Return its result if it ran, otherwise None.

    Raises AwsError, FunctionNotFound, FunctionThrottled.
    """
    if invocation_type not in _TYPES:
        raise bad_type(invocation_type, "[Event, RequestResponse, DryRun]")
    target = find_target(lambda_, ref)
    payload, context = check_payload(payload, invocation_type, client_context)
    if invocation_type == "DryRun":
        return None
    if invocation_type == "Event":
        lambda_.waiting.add(ref, payload, client_context=context, request_id=request_id)
        return None
    return lambda_.dispatcher.invoke(
        target, payload, client_context=context, request_id=request_id, trace_id=trace_id
    )


def find_target(lambda_: Lambda, ref: FunctionRef) -> Target:
    """Return what an invocation of `ref` runs. Raises AwsError."""
    try:
        return lambda_.dispatcher.find(ref)
    except FunctionNotFound as missing:
        raise function_not_found(f"{ref.arn}:{ref.qualifier or LATEST}") from missing


def bad_type(invocation_type: str, known: str) -> AwsError:
    """Return the refusal of an InvocationType that is none of those that are `known`."""
    return validation(
        f"Value '{invocation_type}' at 'invocationType' failed to satisfy constraint: Member must "
        f"satisfy enum value set: {known}"
    )


_Writes = PutFunctionEventInvokeConfigInput | UpdateFunctionEventInvokeConfigInput

_SIDES = {"OnSuccess": ("sqs", "sns", "lambda", "events"), "OnFailure": EVERYWHERE}
_NO_FUNCTION = "The function doesn't exist."
_MEMBERS = ("MaximumRetryAttempts", "MaximumEventAgeInSeconds", "DestinationConfig")


def _build_arn(ref: FunctionRef) -> str:
    return f"{ref.arn}:{ref.qualifier or LATEST}"


def _find(function: Function | None, ref: FunctionRef) -> EventInvokeConfig:
    config = None if function is None else function.event_invoke.get(ref.qualifier or LATEST)
    if config is None:
        raise not_found(f"The function {_build_arn(ref)} doesn't have an EventInvokeConfig")
    return config


def _render_config(ref: FunctionRef, config: EventInvokeConfig) -> FunctionEventInvokeConfig:
    sides: DestinationConfig = {"OnSuccess": {}, "OnFailure": {}}
    return {
        "FunctionArn": _build_arn(ref),
        "LastModified": moment(config["last_modified_ms"]),
        **_read_settings(config),
        "DestinationConfig": {**sides, **config.get("DestinationConfig", {})},
    }


def _read_settings(request: _Writes | EventInvokeConfig) -> AsyncSettings:
    """Return the members that configure retries and destinations."""
    return cast(
        "AsyncSettings", {name: value for name, value in request.items() if name in _MEMBERS}
    )


def _check(lambda_: Lambda, ref: FunctionRef, request: _Writes) -> None:
    """Refuse destinations that AWS refuses. Raises AwsError."""
    if not any(name in request for name in _MEMBERS):
        raise invalid_parameter(
            "You must specify at least one of error handling or destination setting."
        )
    for side, services in _SIDES.items():
        arn = section(request, "DestinationConfig", side).get("Destination")
        if not arn:
            continue
        if arn.split(":")[2] not in services:
            shown = ", ".join(
                _render_side(request.get("DestinationConfig", {}), side_name)
                for side_name in _SIDES
            )
            raise invalid_parameter(
                f"The provided destination config DestinationConfig({shown}) is invalid."
            )
        if arn == ref.arn or arn.startswith(f"{ref.arn}:"):
            raise invalid_parameter("You can't specify the function as a destination for itself.")
        if arn.split(":")[2] == "lambda" and not _is_function(lambda_, arn):
            raise invalid_parameter(f"The destination ARN {arn} is invalid.")


def _render_side(config: DestinationConfig, side: str) -> str:
    """Return one side of a DestinationConfig in the form of AWS's error message."""
    name = side[0].lower() + side[1:]
    settings = config.get(side)
    if settings is None:
        return f"{name}=null"
    return f"{name}={side}(destination={settings.get('Destination', 'null')})"  # pyrefly: ignore[missing-attribute]


def _is_function(lambda_: Lambda, arn: str) -> bool:
    ref = parse_function(arn, account="", region="")
    function = lambda_.functions.find(ref)
    if function is None:
        return False
    try:
        function.resolve(ref.qualifier)
    except FunctionNotFound:
        return False
    return True


def _store(
    lambda_: Lambda, call: Call, request: _Writes, *, keep: bool
) -> FunctionEventInvokeConfig:
    """Store a configuration. With `keep`, members that the request does not name keep their values."""
    ref = parse_reference(call, request)
    _check(lambda_, ref, request)
    if not _is_function(lambda_, ref.qualified_arn):
        raise not_found(_NO_FUNCTION)
    with lambda_.functions.changing(ref) as function:
        kept = _read_settings(_find(function, ref)) if keep else AsyncSettings()
        config: EventInvokeConfig = {
            **kept,
            **_read_settings(request),
            "last_modified_ms": call.now_ms,
        }
        function.event_invoke[ref.qualifier or LATEST] = config
        return _render_config(ref, config)


@operation("PutFunctionEventInvokeConfig")
def put_function_event_invoke_config(
    lambda_: Lambda, call: Call, request: PutFunctionEventInvokeConfigInput
) -> FunctionEventInvokeConfig:
    """Replace the configuration of a version or alias."""
    return _store(lambda_, call, request, keep=False)


@operation("UpdateFunctionEventInvokeConfig")
def update_function_event_invoke_config(
    lambda_: Lambda, call: Call, request: UpdateFunctionEventInvokeConfigInput
) -> FunctionEventInvokeConfig:
    """Change some members of the configuration."""
    return _store(lambda_, call, request, keep=True)


@operation("GetFunctionEventInvokeConfig")
def get_function_event_invoke_config(
    lambda_: Lambda, call: Call, request: GetFunctionEventInvokeConfigInput
) -> FunctionEventInvokeConfig:
    """Return the configuration."""
    ref = parse_reference(call, request)
    return _render_config(ref, _find(lambda_.functions.find(ref), ref))


@operation("DeleteFunctionEventInvokeConfig")
def delete_function_event_invoke_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionEventInvokeConfigInput
) -> None:
    """Remove the configuration."""
    ref = parse_reference(call, request)
    _find(lambda_.functions.find(ref), ref)
    with lambda_.functions.changing(ref) as function:
        _find(function, ref)
        del function.event_invoke[ref.qualifier or LATEST]


@operation("ListFunctionEventInvokeConfigs")
def list_function_event_invoke_configs(
    lambda_: Lambda, call: Call, request: ListFunctionEventInvokeConfigsInput
) -> ListFunctionEventInvokeConfigsOutput:
    """Return the configurations of a function."""
    ref = parse_reference(call, request)
    function = lambda_.functions.find(ref)
    if function is None:
        raise not_found(_NO_FUNCTION)
    configs = [
        _render_config(FunctionRef(ref.account, ref.region, ref.name, qualifier), config)
        for qualifier, config in sorted(function.event_invoke.items())
    ]
    return build_page(configs, request, "FunctionEventInvokeConfigs")
