"""The operations on code signing configurations, and on the configuration of a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    CreateCodeSigningConfigInput,
    CreateCodeSigningConfigOutput,
    DeleteCodeSigningConfigInput,
    DeleteFunctionCodeSigningConfigInput,
    GetCodeSigningConfigInput,
    GetCodeSigningConfigOutput,
    GetFunctionCodeSigningConfigInput,
    GetFunctionCodeSigningConfigOutput,
    ListCodeSigningConfigsInput,
    ListCodeSigningConfigsOutput,
    ListFunctionsByCodeSigningConfigInput,
    ListFunctionsByCodeSigningConfigOutput,
    PutFunctionCodeSigningConfigInput,
    PutFunctionCodeSigningConfigOutput,
    UpdateCodeSigningConfigInput,
    UpdateCodeSigningConfigOutput,
)
from headrace.services.lambda_.actions.common import build_page, check_unqualified, parse_reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.code_signing import CODE_SIGNING
from headrace.services.lambda_.errors import conflict
from headrace.services.lambda_.names import format_lambda_time

_SETTABLE = ("Description", "AllowedPublishers", "CodeSigningPolicies")


@operation("CreateCodeSigningConfig")
def create_code_signing_config(
    lambda_: Lambda, call: Call, request: CreateCodeSigningConfigInput
) -> CreateCodeSigningConfigOutput:
    """Store a configuration."""
    config = lambda_.signing.create(
        call.account, call.region, request, ids=lambda_.ids, now_ms=call.now_ms
    )
    return {"CodeSigningConfig": cast("Any", config)}


@operation("UpdateCodeSigningConfig")
def update_code_signing_config(
    lambda_: Lambda, call: Call, request: UpdateCodeSigningConfigInput
) -> UpdateCodeSigningConfigOutput:
    """Change a configuration."""
    config = lambda_.signing.get(request["CodeSigningConfigArn"])
    members = cast("Mapping[str, Any]", request)
    changes = {name: members[name] for name in _SETTABLE if name in members}
    if changes:
        config = {**config, **changes, "LastModified": format_lambda_time(call.now_ms)}
        lambda_.signing.put(config)
    return {"CodeSigningConfig": cast("Any", config)}


@operation("GetCodeSigningConfig")
def get_code_signing_config(
    lambda_: Lambda, call: Call, request: GetCodeSigningConfigInput
) -> GetCodeSigningConfigOutput:
    """Return a configuration."""
    return {"CodeSigningConfig": cast("Any", lambda_.signing.get(request["CodeSigningConfigArn"]))}


@operation("DeleteCodeSigningConfig")
def delete_code_signing_config(
    lambda_: Lambda, call: Call, request: DeleteCodeSigningConfigInput
) -> None:
    """Remove a configuration that no function uses."""
    arn = str(lambda_.signing.get(request["CodeSigningConfigArn"])["CodeSigningConfigArn"])
    if _list_functions(lambda_, call, arn):
        raise conflict(f"The code signing configuration {arn} is used by functions.")
    lambda_.signing.delete(arn)


@operation("ListCodeSigningConfigs")
def list_code_signing_configs(
    lambda_: Lambda, call: Call, request: ListCodeSigningConfigsInput
) -> ListCodeSigningConfigsOutput:
    """Return all configurations."""
    return build_page(lambda_.signing.all(call.account, call.region), request, "CodeSigningConfigs")


def _list_functions(lambda_: Lambda, call: Call, arn: str) -> list[str]:
    functions = lambda_.functions.all(call.account, call.region)
    return [f.ref.arn for f in functions if f.settings.get(CODE_SIGNING) == arn]


@operation("ListFunctionsByCodeSigningConfig")
def list_functions_by_code_signing_config(
    lambda_: Lambda, call: Call, request: ListFunctionsByCodeSigningConfigInput
) -> ListFunctionsByCodeSigningConfigOutput:
    """Return the ARNs of the functions that use a configuration."""
    arn = str(lambda_.signing.get(request["CodeSigningConfigArn"])["CodeSigningConfigArn"])
    return build_page(_list_functions(lambda_, call, arn), request, "FunctionArns")


@operation("PutFunctionCodeSigningConfig")
def put_function_code_signing_config(
    lambda_: Lambda, call: Call, request: PutFunctionCodeSigningConfigInput
) -> PutFunctionCodeSigningConfigOutput:
    """Set the configuration of a function. It applies to code that is deployed from now on."""
    arn = str(
        lambda_.signing.find_attached(request["CodeSigningConfigArn"])["CodeSigningConfigArn"]
    )
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings[CODE_SIGNING] = arn
        return {"CodeSigningConfigArn": arn, "FunctionName": function.name}


@operation("GetFunctionCodeSigningConfig")
def get_function_code_signing_config(
    lambda_: Lambda, call: Call, request: GetFunctionCodeSigningConfigInput
) -> GetFunctionCodeSigningConfigOutput:
    """Return the configuration of a function, or no ARN when it has none."""
    function = lambda_.functions.get(parse_reference(call, request))
    arn = function.settings.get(CODE_SIGNING)
    answer = {} if arn is None else {"CodeSigningConfigArn": arn, "FunctionName": function.name}
    return cast("GetFunctionCodeSigningConfigOutput", answer)


@operation("DeleteFunctionCodeSigningConfig")
def delete_function_code_signing_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionCodeSigningConfigInput
) -> None:
    """Remove a function's configuration. A missing configuration is not an error."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings.pop(CODE_SIGNING, None)
