"""Reserved and provisioned concurrency of functions."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    Concurrency,
    DeleteFunctionConcurrencyInput,
    DeleteProvisionedConcurrencyConfigInput,
    GetFunctionConcurrencyInput,
    GetFunctionConcurrencyOutput,
    GetProvisionedConcurrencyConfigInput,
    GetProvisionedConcurrencyConfigOutput,
    ListProvisionedConcurrencyConfigsInput,
    ListProvisionedConcurrencyConfigsOutput,
    PutFunctionConcurrencyInput,
    PutProvisionedConcurrencyConfigInput,
    PutProvisionedConcurrencyConfigOutput,
)
from headrace.services.lambda_.actions.common import (
    FUNCTIONS_ONLY,
    build_page,
    check_unqualified,
    parse_reference,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    UNRESERVED_CONCURRENCY_LEFT,
    conflict,
    function_not_found,
    invalid_parameter,
    not_found,
)
from headrace.services.lambda_.invocations.pools import count_unreserved
from headrace.services.lambda_.names import LATEST, FunctionRef, format_lambda_time
from headrace.services.lambda_.state import Function


@operation("PutFunctionConcurrency")
def put_function_concurrency(
    lambda_: Lambda, call: Call, request: PutFunctionConcurrencyInput
) -> Concurrency:
    """Reserve concurrency for a function, which also limits the function. Zero stops the function."""
    ref = parse_reference(call, request)
    if ref.qualifier is not None:
        raise invalid_parameter(FUNCTIONS_ONLY)
    if lambda_.functions.find(ref) is None:
        raise function_not_found(f"{ref.arn}:{LATEST}")
    reserved = request["ReservedConcurrentExecutions"]
    with lambda_.functions.changing(ref) as function:
        others = lambda_.functions.all(ref.account, ref.region)
        left = count_unreserved([f for f in others if f is not function])
        if left - reserved < UNRESERVED_CONCURRENCY_LEFT:
            raise invalid_parameter(
                "Specified ReservedConcurrentExecutions for function decreases account's "
                f"UnreservedConcurrentExecution below its minimum value of [{UNRESERVED_CONCURRENCY_LEFT}].",
                typed=False,
            )
        provisioned = sum(function.provisioned.values())
        if reserved < provisioned:
            raise invalid_parameter(
                f" ReservedConcurrentExecutions  {reserved} should not be lower than function's total "
                f"provisioned concurrency [{provisioned}].",
                typed=False,
            )
        function.reserved_concurrency = reserved
    return {"ReservedConcurrentExecutions": reserved}


@operation("GetFunctionConcurrency")
def get_function_concurrency(
    lambda_: Lambda, call: Call, request: GetFunctionConcurrencyInput
) -> GetFunctionConcurrencyOutput:
    """Return the function's reserved concurrency, if it has any."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    reserved = function.reserved_concurrency
    return {} if reserved is None else {"ReservedConcurrentExecutions": reserved}


@operation("DeleteFunctionConcurrency")
def delete_function_concurrency(
    lambda_: Lambda, call: Call, request: DeleteFunctionConcurrencyInput
) -> None:
    """Remove the function's reserved concurrency."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.reserved_concurrency = None


def _find(lambda_: Lambda, ref: FunctionRef, *, writes: bool = False) -> tuple[Function, str]:
    """Return the function, and the named version or alias. Raises AwsError."""
    qualifier = ref.qualifier
    if qualifier is None or qualifier == LATEST:
        raise invalid_parameter(
            "The function resource provided must be an alias or a published version."
            if not writes
            else "Provisioned Concurrency Configs cannot be applied to unpublished function versions."
        )
    function = lambda_.functions.find(ref)
    if function is None or (
        qualifier not in function.versions and qualifier not in function.aliases
    ):
        what = "Function not found" if qualifier.isdigit() else "Cannot find alias arn"
        raise not_found(f"{what}: {ref.qualified_arn}")
    return function, qualifier


def _render_config(
    lambda_: Lambda, function: Function, qualifier: str
) -> GetProvisionedConcurrencyConfigOutput:
    state = lambda_.pools.find_provisioned(function, qualifier)
    output: GetProvisionedConcurrencyConfigOutput = {
        "RequestedProvisionedConcurrentExecutions": function.provisioned[qualifier],
        "AllocatedProvisionedConcurrentExecutions": state.count,
        "AvailableProvisionedConcurrentExecutions": state.count,
        "Status": state.status,
        "LastModified": format_lambda_time(function.provisioned_ms[qualifier]),
    }
    if state.reason:
        output["StatusReason"] = state.reason
    return output


def _check(lambda_: Lambda, function: Function, qualifier: str, executions: int) -> None:
    """Refuse more provisioned concurrency than AWS allows. Raises AwsError."""
    alias = function.aliases.get(qualifier)
    if alias is not None and alias.version in function.provisioned:
        raise conflict(
            "Alias can't be used for Provisioned Concurrency configuration on an already Provisioned version"
        )
    aliases = (function.aliases[n] for n in function.provisioned if n in function.aliases)
    if any(qualifier in (a.version, *a.weights) for a in aliases):
        raise conflict("Version is pointed by a Provisioned Concurrency alias")
    others = sum(count for name, count in function.provisioned.items() if name != qualifier)
    if function.reserved_concurrency is not None:
        if others + executions > function.reserved_concurrency:
            raise invalid_parameter(
                "Requested Provisioned Concurrency should not be greater than the "
                "reservedConcurrentExecution for function"
            )
        return
    mine = function.provisioned.get(qualifier, 0)
    left = count_unreserved(lambda_.functions.all(function.account, function.region)) + mine
    if executions > left:
        raise invalid_parameter(
            "Specified ConcurrentExecutions for function is greater than account's unreserved "
            f"concurrency [{left}].",
            typed=False,
        )
    if left - executions < UNRESERVED_CONCURRENCY_LEFT:
        raise invalid_parameter(
            "Specified ConcurrentExecutions for function decreases account's UnreservedConcurrentExecution "
            f"below its minimum value of [{UNRESERVED_CONCURRENCY_LEFT}].",
            typed=False,
        )


@operation("PutProvisionedConcurrencyConfig")
def put_provisioned_concurrency_config(
    lambda_: Lambda, call: Call, request: PutProvisionedConcurrencyConfigInput
) -> PutProvisionedConcurrencyConfigOutput:
    """Keep initialised processes for a version or alias."""
    ref = parse_reference(call, request)
    executions = request["ProvisionedConcurrentExecutions"]
    _find(lambda_, ref, writes=True)
    with lambda_.functions.changing(ref.bare):
        function, qualifier = _find(lambda_, ref, writes=True)
        _check(lambda_, function, qualifier, executions)
        function.provisioned[qualifier] = executions
        function.provisioned_ms[qualifier] = call.now_ms
        lambda_.pools.forget_provisioned(ref, qualifier)
        answer = _render_config(lambda_, function, qualifier)
    lambda_.wake_pools()
    return answer


def _find_configured(lambda_: Lambda, ref: FunctionRef) -> tuple[Function, str]:
    function, qualifier = _find(lambda_, ref)
    if qualifier not in function.provisioned:
        raise AwsError(
            "ProvisionedConcurrencyConfigNotFoundException",
            "No Provisioned Concurrency Config found for this function",
            404,
            {"Type": "User"},
        )
    return function, qualifier


@operation("GetProvisionedConcurrencyConfig")
def get_provisioned_concurrency_config(
    lambda_: Lambda, call: Call, request: GetProvisionedConcurrencyConfigInput
) -> GetProvisionedConcurrencyConfigOutput:
    """Return the configuration and its status."""
    return _render_config(lambda_, *_find_configured(lambda_, parse_reference(call, request)))


@operation("DeleteProvisionedConcurrencyConfig")
def delete_provisioned_concurrency_config(
    lambda_: Lambda, call: Call, request: DeleteProvisionedConcurrencyConfigInput
) -> None:
    """Remove the configuration; surplus processes end. A missing configuration is not an error."""
    ref = parse_reference(call, request)
    _find(lambda_, ref)
    with lambda_.functions.changing(ref.bare):
        function, qualifier = _find(lambda_, ref)
        removed = function.provisioned.pop(qualifier, None)
        function.provisioned_ms.pop(qualifier, None)
        version = function.resolve(qualifier)
        lambda_.pools.forget_provisioned(ref, qualifier)
    if removed is not None:
        lambda_.pools.drain(ref.bare, version.number)
        lambda_.wake_pools()


@operation("ListProvisionedConcurrencyConfigs")
def list_provisioned_concurrency_configs(
    lambda_: Lambda, call: Call, request: ListProvisionedConcurrencyConfigsInput
) -> ListProvisionedConcurrencyConfigsOutput:
    """Return the configurations of a function."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    configs = [
        {"FunctionArn": f"{function.ref.arn}:{name}", **_render_config(lambda_, function, name)}
        for name in sorted(function.provisioned)
    ]
    return build_page(configs, request, "ProvisionedConcurrencyConfigs")
