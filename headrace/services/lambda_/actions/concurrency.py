"""PutFunctionConcurrency, GetFunctionConcurrency, DeleteFunctionConcurrency."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    Concurrency,
    DeleteFunctionConcurrencyInput,
    GetFunctionConcurrencyInput,
    GetFunctionConcurrencyOutput,
    PutFunctionConcurrencyInput,
)
from headrace.services.lambda_.actions.common import (
    FUNCTIONS_ONLY,
    check_unqualified,
    parse_reference,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import function_not_found, invalid_parameter
from headrace.services.lambda_.invocations.concurrency import count_unreserved
from headrace.services.lambda_.limits import UNRESERVED_CONCURRENCY_LEFT
from headrace.services.lambda_.names import LATEST


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
