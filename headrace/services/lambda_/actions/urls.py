"""Create-, Update-, Get-, Delete- and ListFunctionUrlConfig(s): function URLs."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.operation import Call, operation
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
from headrace.services.lambda_.actions.common import build_page, check_unqualified, parse_reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import conflict, not_found
from headrace.services.lambda_.names import FunctionRef, format_lambda_time
from headrace.services.lambda_.state import Function, UrlConfig
from headrace.services.lambda_.urls.front import URL_PATH

_MISSING = "The resource you requested does not exist."
NO_FUNCTION = "Function does not exist"


def _find_qualified(lambda_: Lambda, ref: FunctionRef) -> tuple[Function, str] | None:
    """Return the function and the named alias ("" for the function itself), or None when one is missing."""
    function = lambda_.functions.find(ref)
    alias = ref.qualifier or ""
    if function is None or (alias and alias not in function.aliases):
        return None
    return function, alias


def _find(lambda_: Lambda, ref: FunctionRef) -> tuple[Function, str]:
    """Return the function and the alias that must have a URL. Raises AwsError."""
    target = lambda_.functions.find(ref), ref.qualifier or ""
    function, alias = target
    if function is None or alias not in function.urls:
        raise not_found(_MISSING)
    return function, alias


def _render_url(lambda_: Lambda, function: Function, alias: str) -> FunctionUrlConfig:
    config = function.urls[alias]
    output: FunctionUrlConfig = {
        "FunctionUrl": f"{lambda_.endpoint_url()}{URL_PATH}{config['id']}/",
        "FunctionArn": f"{function.ref.arn}:{alias}" if alias else function.ref.arn,
        "AuthType": config["AuthType"],
        "InvokeMode": config.get("InvokeMode", "BUFFERED"),
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
    """Create the URL of a function or an alias."""
    ref = parse_reference(call, request)
    target = _find_qualified(lambda_, ref)
    if target is None:
        raise not_found(NO_FUNCTION)
    alias = target[1]
    with lambda_.functions.changing(ref.bare) as function:
        if alias in function.urls:
            raise conflict(
                f"Failed to create function url config for [functionArn = {ref.qualified_arn}]. "
                "Error message:  FunctionUrlConfig exists for this Lambda function"
            )
        now = format_lambda_time(call.now_ms)
        config: UrlConfig = {
            "id": lambda_.ids.hex(32),
            "AuthType": request["AuthType"],
            "Cors": request.get("Cors", {}),
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        if "InvokeMode" in request:
            config["InvokeMode"] = request["InvokeMode"]
        function.urls[alias] = config
        output = _render_set_url(_render_url(lambda_, function, alias), config)
    shown = {name: value for name, value in output.items() if name != "LastModifiedTime"}
    return cast("CreateFunctionUrlConfigOutput", shown)


def _render_set_url(output: FunctionUrlConfig, config: UrlConfig) -> FunctionUrlConfig:
    """Return the response of Create and Update, which has InvokeMode only if a request has set it."""
    if "InvokeMode" not in config:
        output.pop("InvokeMode", None)
    return output


@operation("UpdateFunctionUrlConfig")
def update_function_url_config(
    lambda_: Lambda, call: Call, request: UpdateFunctionUrlConfigInput
) -> UpdateFunctionUrlConfigOutput:
    """Change the configuration of a function URL."""
    ref = parse_reference(call, request)
    if _find_qualified(lambda_, ref) is None:
        raise not_found(NO_FUNCTION)
    with lambda_.functions.changing(ref.bare) as function:
        _, alias = _find(lambda_, ref)
        config = function.urls[alias]
        if "AuthType" in request:
            config["AuthType"] = request["AuthType"]
        if "Cors" in request:
            config["Cors"] = request["Cors"]
        if "InvokeMode" in request:
            config["InvokeMode"] = request["InvokeMode"]
        config["LastModifiedTime"] = format_lambda_time(call.now_ms)
        answer = _render_set_url(_render_url(lambda_, function, alias), config)
        return cast("UpdateFunctionUrlConfigOutput", answer)


@operation("GetFunctionUrlConfig")
def get_function_url_config(
    lambda_: Lambda, call: Call, request: GetFunctionUrlConfigInput
) -> GetFunctionUrlConfigOutput:
    """Return the function URL and its configuration."""
    ref = parse_reference(call, request)
    function, alias = _find(lambda_, ref)
    return _render_url(lambda_, function, alias)


@operation("DeleteFunctionUrlConfig")
def delete_function_url_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionUrlConfigInput
) -> None:
    """Remove the function URL. No function gets the same address again."""
    ref = parse_reference(call, request)
    _find(lambda_, ref)
    with lambda_.functions.changing(ref.bare) as function:
        _, alias = _find(lambda_, ref)
        del function.urls[alias]


@operation("ListFunctionUrlConfigs")
def list_function_url_configs(
    lambda_: Lambda, call: Call, request: ListFunctionUrlConfigsInput
) -> ListFunctionUrlConfigsOutput:
    """Return the URLs of a function and its aliases."""
    function = lambda_.functions.find(check_unqualified(parse_reference(call, request)))
    if function is None:
        raise not_found(NO_FUNCTION)
    configs = [_render_url(lambda_, function, alias) for alias in sorted(function.urls)]
    return build_page(configs, request, "FunctionUrlConfigs")
