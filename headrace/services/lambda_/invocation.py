"""Invoke: over the wire, where the body is the payload, and in process."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from headrace.aws.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.operation import Call, operation
from headrace.core.ports import InvokeResult
from headrace.services.lambda_.actions.get_function import CODE_PATH
from headrace.services.lambda_.errors import (
    invalid_request_content,
    too_large,
    validation,
)
from headrace.services.lambda_.limits import ASYNC_PAYLOAD_BYTES, SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.names import FunctionRef, parse_function

if TYPE_CHECKING:
    from headrace.services.lambda_.service import Lambda

_INVOKE_PATH = re.compile(r"^/2015-03-31/functions/([^/]+)/invocations/?$")
_CODE_FILE = re.compile(rf"^{CODE_PATH}([0-9a-f]{{64}})\.zip$")
_TYPES = ("RequestResponse", "Event", "DryRun")


def answer_raw(lambda_: Lambda, request: HttpRequest) -> HttpResponse | None:
    """Answer Invoke and package downloads; None for everything else. Raises AwsError."""
    if request.method == "POST":
        match = _INVOKE_PATH.match(request.path)
        return None if match is None else _invoke(lambda_, request, unquote(match[1]))
    match = _CODE_FILE.match(request.path)
    if match is None or request.method != "GET":
        return None
    file = lambda_.code.zip_file(match[1])
    if not file.is_file():
        return HttpResponse(404)
    headers = [("Content-Type", "application/zip")]
    return HttpResponse(200, headers, FileSlice(file, 0, file.stat().st_size))


def _invoke(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    call, headers = request.call, request.headers
    assert call is not None
    ref = parse_function(
        name,
        account=call.account,
        region=call.region,
        qualifier=request.query_params().get("Qualifier") if request.query else None,
    )
    invocation_type = headers.get("x-amz-invocation-type", "RequestResponse")
    if request.body_file is not None:
        raise too_large(-1, _limit(invocation_type), "Invoke")
    result = invoke(
        lambda_,
        ref,
        request.body,
        invocation_type=invocation_type,
        client_context=headers.get("x-amz-client-context", ""),
        request_id=call.request_id,
        trace_id=headers.get("x-amzn-trace-id", ""),
    )
    if result is None:
        return HttpResponse(202 if invocation_type == "Event" else 204)
    answer = [
        ("Content-Type", "application/json"),
        ("X-Amz-Executed-Version", result.executed_version),
    ]
    if result.function_error:
        answer.append(("X-Amz-Function-Error", result.function_error))
    if headers.get("x-amz-log-type") == "Tail":
        answer.append(("X-Amz-Log-Result", base64.b64encode(result.log_tail).decode()))
    return HttpResponse(200, answer, result.payload)


@operation("Invoke")
def invoke_action(lambda_: Lambda, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Invoke a function in process, through the control plane."""
    ref = parse_function(
        request["FunctionName"],
        account=call.account,
        region=call.region,
        qualifier=request.get("Qualifier"),
    )
    invocation_type = request.get("InvocationType") or "RequestResponse"
    result = invoke(
        lambda_,
        ref,
        request.get("Payload") or b"",
        invocation_type=invocation_type,
        client_context=request.get("ClientContext") or "",
        request_id=call.request_id,
    )
    if result is None:
        return {"StatusCode": 202 if invocation_type == "Event" else 204}
    answer: dict[str, Any] = {
        "StatusCode": 200,
        "ExecutedVersion": result.executed_version,
        "Payload": result.payload,
    }
    if result.function_error:
        answer["FunctionError"] = result.function_error
    if request.get("LogType") == "Tail":
        answer["LogResult"] = base64.b64encode(result.log_tail).decode()
    return answer


def invoke(
    lambda_: Lambda,
    ref: FunctionRef,
    payload: bytes,
    *,
    invocation_type: str,
    client_context: str,
    request_id: str,
    trace_id: str = "",
) -> InvokeResult | None:
    """Run, queue or only check an invocation; None for the last two.

    Raises AwsError, FunctionNotFound, FunctionThrottled.
    """
    if invocation_type not in _TYPES:
        raise validation(
            f"Value '{invocation_type}' at 'invocationType' failed to satisfy constraint: Member must "
            "satisfy enum value set: [Event, RequestResponse, DryRun]"
        )
    lambda_.functions.get(ref).resolve(ref.qualifier)
    if len(payload) > _limit(invocation_type):
        raise too_large(len(payload), _limit(invocation_type), invocation_type)
    payload = payload or b"{}"
    _check_json(payload)
    context = _client_context(client_context)
    if invocation_type == "DryRun":
        return None
    if invocation_type == "Event":
        lambda_.events.add(ref, payload, client_context=context, request_id=request_id)
        return None
    return lambda_.dispatcher.invoke(
        ref, payload, client_context=context, request_id=request_id, trace_id=trace_id
    )


def _limit(invocation_type: str) -> int:
    return ASYNC_PAYLOAD_BYTES if invocation_type == "Event" else SYNC_PAYLOAD_BYTES


def _check_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_request_content(f"Could not parse request body into json: {error}") from None


def _client_context(encoded: str) -> str:
    """Return the client context as the Runtime API's header wants it: JSON on one line."""
    if not encoded:
        return ""
    try:
        decoded = msgspec.json.decode(base64.b64decode(encoded, validate=True))
    except ValueError as error:
        raise invalid_request_content(
            "Client context must be a valid Base64-encoded JSON object."
        ) from error
    # ASCII only, as header values are.
    return json.dumps(decoded, separators=(",", ":"))
