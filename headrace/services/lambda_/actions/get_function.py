"""GetFunction, GetFunctionConfiguration, ListFunctions, GetAccountSettings, and two minor configurations."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    FunctionConfiguration,
    GetAccountSettingsInput,
    GetAccountSettingsOutput,
    GetFunctionConfigurationInput,
    GetFunctionInput,
    GetFunctionOutput,
    GetFunctionRecursionConfigInput,
    GetFunctionRecursionConfigOutput,
    GetRuntimeManagementConfigInput,
    GetRuntimeManagementConfigOutput,
    ListFunctionsInput,
    ListFunctionsOutput,
    PutFunctionRecursionConfigInput,
    PutFunctionRecursionConfigOutput,
    PutRuntimeManagementConfigInput,
    PutRuntimeManagementConfigOutput,
)
from headrace.services.lambda_.actions.common import (
    build_page,
    build_qualified_config,
    check_unqualified,
    parse_reference,
    render_listed,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.invocations.concurrency import count_unreserved
from headrace.services.lambda_.limits import (
    ACCOUNT_CONCURRENCY,
    DIRECT_ZIP_BYTES,
    UNZIPPED_BYTES,
)
from headrace.services.lambda_.names import LATEST
from headrace.services.lambda_.state import Function


@operation("GetFunction")
def get_function(lambda_: Lambda, call: Call, request: GetFunctionInput) -> GetFunctionOutput:
    """Return a version's configuration and the address of its package."""
    ref = parse_reference(call, request)
    function = lambda_.functions.get(ref)
    digest = function.resolve(ref.qualifier).digest
    answer: GetFunctionOutput = {
        "Configuration": build_qualified_config(function, ref, call.now_ms),
        "Code": {
            "RepositoryType": "S3",
            "Location": lambda_.code.location(digest, lambda_.endpoint_url()),
        },
    }
    if function.tags:
        answer["Tags"] = dict(function.tags)
    if function.reserved_concurrency is not None:
        answer["Concurrency"] = {"ReservedConcurrentExecutions": function.reserved_concurrency}
    return answer


@operation("GetFunctionConfiguration")
def get_function_configuration(
    lambda_: Lambda, call: Call, request: GetFunctionConfigurationInput
) -> FunctionConfiguration:
    """Return a version's configuration."""
    ref = parse_reference(call, request)
    return build_qualified_config(lambda_.functions.get(ref), ref, call.now_ms)


@operation("ListFunctions")
def list_functions(lambda_: Lambda, call: Call, request: ListFunctionsInput) -> ListFunctionsOutput:
    """Return the functions, sorted by name, or all their versions with FunctionVersion=ALL."""
    functions = lambda_.functions.all(call.account, call.region)
    if request.get("FunctionVersion") == "ALL":
        configs = [
            render_listed(version, f"{function.ref.arn}:{version.number}")
            for function in functions
            for version in (function.latest, *function.list_published())
        ]
    else:
        configs = [render_listed(function.latest, function.ref.arn) for function in functions]
    return build_page(configs, request, "Functions")


@operation("GetAccountSettings")
def get_account_settings(
    lambda_: Lambda, call: Call, request: GetAccountSettingsInput
) -> GetAccountSettingsOutput:
    """Return AWS's default limits and the account's usage."""
    functions = lambda_.functions.all(call.account, call.region)
    return {
        "AccountLimit": {
            "TotalCodeSize": 80_530_636_800,
            "CodeSizeUnzipped": UNZIPPED_BYTES,
            "CodeSizeZipped": DIRECT_ZIP_BYTES,
            "ConcurrentExecutions": ACCOUNT_CONCURRENCY,
            "UnreservedConcurrentExecutions": count_unreserved(functions),
        },
        "AccountUsage": {
            "TotalCodeSize": _count_code_bytes(lambda_, call, functions),
            "FunctionCount": len(functions),
        },
    }


def _count_code_bytes(lambda_: Lambda, call: Call, functions: list[Function]) -> int:
    """Return the total size of the packages of all versions and layers."""
    versions = [v for f in functions for v in f.versions.values()]
    return sum(version.config["CodeSize"] for version in versions) + lambda_.layers.size_bytes(
        call.account, call.region
    )


@operation("GetFunctionRecursionConfig")
def get_function_recursion_config(
    lambda_: Lambda, call: Call, request: GetFunctionRecursionConfigInput
) -> GetFunctionRecursionConfigOutput:
    """Return the setting for recursive loops, which has no effect: headrace does not detect loops."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    return {"RecursiveLoop": function.settings.get("RecursiveLoop", "Terminate")}


@operation("PutFunctionRecursionConfig")
def put_function_recursion_config(
    lambda_: Lambda, call: Call, request: PutFunctionRecursionConfigInput
) -> PutFunctionRecursionConfigOutput:
    """Store the setting for recursive loops, which has no effect: headrace does not detect loops."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings["RecursiveLoop"] = request["RecursiveLoop"]
    return {"RecursiveLoop": request["RecursiveLoop"]}


@operation("GetRuntimeManagementConfig")
def get_runtime_management_config(
    lambda_: Lambda, call: Call, request: GetRuntimeManagementConfigInput
) -> GetRuntimeManagementConfigOutput:
    """Return the setting for runtime updates, or AWS's default."""
    ref = parse_reference(call, request)
    function = lambda_.functions.get(ref)
    function.resolve(ref.qualifier)
    kept = function.settings.get("RuntimeManagement", {}).get(ref.qualifier or LATEST, {})
    answer = {"UpdateRuntimeOn": "Auto", "FunctionArn": ref.qualified_arn, **kept}
    return cast("GetRuntimeManagementConfigOutput", answer)


@operation("PutRuntimeManagementConfig")
def put_runtime_management_config(
    lambda_: Lambda, call: Call, request: PutRuntimeManagementConfigInput
) -> PutRuntimeManagementConfigOutput:
    """Store the setting for runtime updates, which has no effect: headrace has one version of each runtime."""
    ref = parse_reference(call, request)
    kept: dict[str, Any] = {"UpdateRuntimeOn": request["UpdateRuntimeOn"]}
    if "RuntimeVersionArn" in request:
        kept["RuntimeVersionArn"] = request["RuntimeVersionArn"]
    if (request["UpdateRuntimeOn"] == "Manual") != ("RuntimeVersionArn" in request):
        raise invalid_parameter(
            "RuntimeVersionArn is required for, and only for, the update mode Manual."
        )
    with lambda_.functions.changing(ref.bare) as function:
        function.resolve(ref.qualifier)
        by_qualifier: dict[str, Any] = function.settings.setdefault("RuntimeManagement", {})
        by_qualifier[ref.qualifier or LATEST] = kept
    return cast("PutRuntimeManagementConfigOutput", {"FunctionArn": ref.qualified_arn, **kept})
