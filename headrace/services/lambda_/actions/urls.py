"""Create-, Update-, Get-, Delete- and ListFunctionUrlConfig(s): functions' own addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    CreateFunctionUrlConfigInput,
    CreateFunctionUrlConfigOutput,
    DeleteFunctionUrlConfigInput,
    FunctionUrlConfig,
    GetFunctionUrlConfigInput,
    GetFunctionUrlConfigOutput,
    ListFunctionUrlConfigsInput,
    ListFunctionUrlConfigsOutput,
    UpdateFunctionUrlConfigInput,
    UpdateFunctionUrlConfigOutput,
)
from headrace.services.lambda_.actions.common import page, reference, unqualified
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import conflict, invalid_parameter, not_found
from headrace.services.lambda_.names import LATEST, FunctionRef, lambda_time
from headrace.services.lambda_.state import Function
from headrace.services.lambda_.urls.front import URL_PATH

_MISSING = "The resource you requested does not exist."


def _alias(function: Function, ref: FunctionRef) -> str:
    """Return the alias that was named, empty for the function itself. Raises AwsError."""
    qualifier = ref.qualifier
    if qualifier is None:
        return ""
    if qualifier == LATEST or qualifier.isdigit():
        raise invalid_parameter(
            "Function URLs can be created for aliases and unqualified functions only, "
            f"not for the version {qualifier}."
        )
    if qualifier not in function.aliases:
        raise not_found(f"Cannot find alias arn: {ref.qualified_arn}")
    return qualifier


def _find(function: Function, alias: str) -> dict[str, Any]:
    config = function.urls.get(alias)
    if config is None:
        raise not_found(_MISSING)
    return config


def _output(lambda_: Lambda, function: Function, alias: str) -> FunctionUrlConfig:
    config = function.urls[alias]
    output: FunctionUrlConfig = {
        "FunctionUrl": f"{lambda_.endpoint_url()}{URL_PATH}{config['id']}/",
        "FunctionArn": f"{function.ref.arn}:{alias}" if alias else function.ref.arn,
        "AuthType": config["AuthType"],
        "InvokeMode": config["InvokeMode"],
        "CreationTime": config["CreationTime"],
        "LastModifiedTime": config["LastModifiedTime"],
    }
    if config.get("Cors"):
        output["Cors"] = config["Cors"]
    return output


@operation("CreateFunctionUrlConfig")
def create_function_url_config(
    lambda_: Lambda, call: Call, request: CreateFunctionUrlConfigInput
) -> CreateFunctionUrlConfigOutput:
    """Give a function or an alias an address of its own."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref.bare) as function:
        alias = _alias(function, ref)
        if alias in function.urls:
            raise conflict(
                f"Failed to create function url config for [functionArn = {ref.qualified_arn}]. "
                "Error message:  FunctionUrlConfig exists for this Lambda function"
            )
        now = lambda_time(call.now_ms)
        function.urls[alias] = {
            "id": lambda_.ids.hex(32),
            "AuthType": request["AuthType"],
            "Cors": request.get("Cors", {}),
            "InvokeMode": request.get("InvokeMode", "BUFFERED"),
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        output = _output(lambda_, function, alias)
    return cast(
        "CreateFunctionUrlConfigOutput",
        {name: value for name, value in output.items() if name != "LastModifiedTime"},
    )


@operation("UpdateFunctionUrlConfig")
def update_function_url_config(
    lambda_: Lambda, call: Call, request: UpdateFunctionUrlConfigInput
) -> UpdateFunctionUrlConfigOutput:
    """Change how an address answers."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref.bare) as function:
        alias = _alias(function, ref)
        config = _find(function, alias)
        members = cast("Mapping[str, Any]", request)
        config.update(
            {name: members[name] for name in ("AuthType", "Cors", "InvokeMode") if name in members}
        )
        config["LastModifiedTime"] = lambda_time(call.now_ms)
        return _output(lambda_, function, alias)


@operation("GetFunctionUrlConfig")
def get_function_url_config(
    lambda_: Lambda, call: Call, request: GetFunctionUrlConfigInput
) -> GetFunctionUrlConfigOutput:
    """Return the address and how it answers."""
    ref = reference(call, request)
    function = lambda_.functions.get(ref)
    alias = _alias(function, ref)
    _find(function, alias)
    return _output(lambda_, function, alias)


@operation("DeleteFunctionUrlConfig")
def delete_function_url_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionUrlConfigInput
) -> None:
    """Remove the address; no function gets it again."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref.bare) as function:
        alias = _alias(function, ref)
        _find(function, alias)
        del function.urls[alias]


@operation("ListFunctionUrlConfigs")
def list_function_url_configs(
    lambda_: Lambda, call: Call, request: ListFunctionUrlConfigsInput
) -> ListFunctionUrlConfigsOutput:
    """Return the addresses of a function and its aliases."""
    function = lambda_.functions.get(unqualified(reference(call, request)))
    configs = [_output(lambda_, function, alias) for alias in sorted(function.urls)]
    return page(configs, request, "FunctionUrlConfigs")
