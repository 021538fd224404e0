"""Put-, Get-, Update-, Delete- and ListFunctionEventInvokeConfig(s): how asynchronous invocations are retried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    DeleteFunctionEventInvokeConfigInput,
    FunctionEventInvokeConfig,
    GetFunctionEventInvokeConfigInput,
    ListFunctionEventInvokeConfigsInput,
    ListFunctionEventInvokeConfigsOutput,
    PutFunctionEventInvokeConfigInput,
    UpdateFunctionEventInvokeConfigInput,
)
from headrace.core.values import moment, section
from headrace.services.lambda_.actions.common import page, reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.destinations import EVERYWHERE, check_destination
from headrace.services.lambda_.errors import invalid_parameter, not_found
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.services.lambda_.state import Function

_MEMBERS = ("MaximumRetryAttempts", "MaximumEventAgeInSeconds", "DestinationConfig")


def _arn(ref: FunctionRef) -> str:
    return f"{ref.arn}:{ref.qualifier or LATEST}"


def _find(function: Function, ref: FunctionRef) -> dict[str, Any]:
    found = function.event_invoke.get(ref.qualifier or LATEST)
    if found is None:
        raise not_found(f"The function {_arn(ref)} doesn't have an EventInvokeConfig")
    return found


def _output(ref: FunctionRef, config: dict[str, Any]) -> FunctionEventInvokeConfig:
    modified = moment(config["last_modified_ms"])
    members = {name: config[name] for name in _MEMBERS if name in config}
    members.setdefault("DestinationConfig", {"OnSuccess": {}, "OnFailure": {}})
    return cast(
        "FunctionEventInvokeConfig",
        {"FunctionArn": _arn(ref), "LastModified": modified, **members},
    )


def _check(ref: FunctionRef, request: Mapping[str, Any]) -> None:
    """Refuse destinations that AWS refuses. Raises AwsError."""
    if not any(name in request for name in _MEMBERS):
        raise invalid_parameter(
            "You must specify at least one of error handling or destination setting."
        )
    sides = {"OnSuccess": ("sqs", "sns", "lambda", "events"), "OnFailure": EVERYWHERE}
    for side, services in sides.items():
        arn = section(request, "DestinationConfig", side).get("Destination")
        check_destination(arn, services)
        if arn and (arn == ref.arn or arn.startswith(f"{ref.arn}:")):
            raise invalid_parameter("You can't specify the function as a destination for itself.")


def _store(
    lambda_: Lambda, call: Call, request: Mapping[str, Any], *, keep: bool
) -> FunctionEventInvokeConfig:
    """Store a configuration; `keep` leaves the members that the request does not name as they are."""
    ref = reference(call, request)
    _check(ref, request)
    with lambda_.functions.changing(ref) as function:
        function.resolve(ref.qualifier)
        kept = _find(function, ref) if keep else {}
        config = {**kept, **{name: request[name] for name in _MEMBERS if name in request}}
        config["last_modified_ms"] = call.now_ms
        function.event_invoke[ref.qualifier or LATEST] = config
        return _output(ref, config)


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
    ref = reference(call, request)
    return _output(ref, _find(lambda_.functions.get(ref), ref))


@operation("DeleteFunctionEventInvokeConfig")
def delete_function_event_invoke_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionEventInvokeConfigInput
) -> None:
    """Remove the configuration."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref) as function:
        _find(function, ref)
        del function.event_invoke[ref.qualifier or LATEST]


@operation("ListFunctionEventInvokeConfigs")
def list_function_event_invoke_configs(
    lambda_: Lambda, call: Call, request: ListFunctionEventInvokeConfigsInput
) -> ListFunctionEventInvokeConfigsOutput:
    """Return the configurations of a function."""
    ref = reference(call, request)
    function = lambda_.functions.get(ref)
    configs = [
        _output(FunctionRef(ref.account, ref.region, ref.name, qualifier), config)
        for qualifier, config in sorted(function.event_invoke.items())
    ]
    return page(configs, request, "FunctionEventInvokeConfigs")
