"""Invoke, as the control plane asks for it; requests of HTTP come by `raw.py`."""

from __future__ import annotations

import base64

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    InvokeInput,
    InvokeOutput,
)
from headrace.core.ports import FunctionNotFound, InvokeResult
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import function_not_found, validation
from headrace.services.lambda_.invocations.payloads import check_payload
from headrace.services.lambda_.names import LATEST, FunctionRef, parse_function

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
    try:
        target = lambda_.dispatcher.find(ref)
    except FunctionNotFound as missing:
        raise function_not_found(f"{ref.arn}:{ref.qualifier or LATEST}") from missing
    payload, context = check_payload(payload, invocation_type, client_context)
    if invocation_type == "DryRun":
        return None
    if invocation_type == "Event":
        lambda_.waiting.add(ref, payload, client_context=context, request_id=request_id)
        return None
    return lambda_.dispatcher.invoke(
        target, payload, client_context=context, request_id=request_id, trace_id=trace_id
    )


def bad_type(invocation_type: str, known: str) -> AwsError:
    """Return the refusal of an InvocationType that is none of those that are `known`."""
    return validation(
        f"Value '{invocation_type}' at 'invocationType' failed to satisfy constraint: Member must "
        f"satisfy enum value set: {known}"
    )
