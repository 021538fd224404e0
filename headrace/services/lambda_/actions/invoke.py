"""Invoke, InvokeAsync and InvokeWithResponseStream, whose HTTP bodies are payloads, and the download of packages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from headrace.aws import event_stream
from headrace.aws.errors import AwsError
from headrace.aws.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    InvokeInput,
    InvokeOutput,
)
from headrace.core.ports import FunctionNotFound, InvokeResult
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    access_denied,
    function_not_found,
    invalid_request_content,
    too_large,
    validation,
)
from headrace.services.lambda_.invocations.answer_stream import AnswerStream, Part
from headrace.services.lambda_.limits import ASYNC_PAYLOAD_BYTES, SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.names import LATEST, FunctionRef, check_reachable, parse_function
from headrace.services.lambda_.packages.code import CODE_PATH
from headrace.services.lambda_.policy import INVOKE, Caller, allows

_INVOKE_PATH = re.compile(r"^/2015-03-31/functions/([^/]+)/invocations/?$")
_STREAM_PATH = re.compile(r"^/2021-11-15/functions/([^/]+)/response-streaming-invocations/?$")
_ASYNC_PATH = re.compile(r"^/2014-11-13/functions/([^/]+)/invoke-async/?$")
_CODE_FILE = re.compile(rf"^{CODE_PATH}([0-9a-f]{{64}})\.zip$")
_TYPES = ("RequestResponse", "Event", "DryRun")


def answer_raw(lambda_: Lambda, request: HttpRequest) -> HttpResponse | None:
    """Answer invocations and package downloads; return None for any other request.

    Raises AwsError, FunctionNotFound, FunctionThrottled.
    """
    if request.method == "POST":
        for path, answer in _RAW_POSTS:
            match = path.match(request.path)
            if match is not None:
                return answer(lambda_, request, unquote(match[1]))
        return None
    match = _CODE_FILE.match(request.path)
    if match is None or request.method != "GET":
        return None
    file = lambda_.code.zip_file(match[1])
    if not file.is_file():
        return HttpResponse(404)
    headers = [("Content-Type", "application/zip")]
    return HttpResponse(200, headers, FileSlice(file, 0, file.stat().st_size))


@dataclass(frozen=True, slots=True)
class _InvokeRequest:
    """An invocation's parameters, from the path, the headers and the query of its request."""

    ref: FunctionRef
    invocation_type: str
    request_id: str
    client_context: str
    trace_id: str
    wants_log: bool


def _parse(
    lambda_: Lambda,
    request: HttpRequest,
    name: str,
    *,
    operation_name: str,
    invocation_type: str = "",
) -> _InvokeRequest:
    """Read an invocation's request. Raises AwsError."""
    call, headers = request.call, request.headers
    assert call is not None
    qualifier = request.query_params().get("Qualifier") if request.query else None
    ref = parse_function(name, account=call.account, region=call.region, qualifier=qualifier)
    check_reachable(ref, call.region)
    if ref.account != call.account:
        _check_caller(lambda_, ref, call.account)
    if call.permit is not None:
        call.permit.ask_for("lambda", INVOKE, ref.qualified_arn)
    kind = invocation_type or headers.get("x-amz-invocation-type", "RequestResponse")
    if request.body_file is not None:
        raise too_large(-1, _limit(kind), operation_name)
    log_type = headers.get("x-amz-log-type", "None")
    if log_type not in ("None", "Tail"):
        raise validation(
            f"Value '{log_type}' at 'logType' failed to satisfy constraint: Member must satisfy enum "
            "value set: [None, Tail]"
        )
    return _InvokeRequest(
        ref,
        kind,
        call.request_id,
        headers.get("x-amz-client-context", ""),
        headers.get("x-amzn-trace-id", ""),
        log_type == "Tail",
    )


def _check_caller(lambda_: Lambda, ref: FunctionRef, account: str) -> None:
    """Refuse a caller from another account unless the function's resource policy allows it. Raises AwsError."""
    function = lambda_.functions.find(ref)
    caller = Caller(account=account)
    if function is None or not allows(function, ref.qualifier, INVOKE, caller):
        raise access_denied(account, INVOKE, ref.qualified_arn)


def _invoke(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    asked = _parse(lambda_, request, name, operation_name="Invoke")
    result = run(
        lambda_,
        asked.ref,
        request.body,
        invocation_type=asked.invocation_type,
        client_context=asked.client_context,
        request_id=asked.request_id,
        trace_id=asked.trace_id,
    )
    if result is None:
        return HttpResponse(202 if asked.invocation_type == "Event" else 204)
    answer = [
        ("Content-Type", "application/json"),
        ("X-Amz-Executed-Version", result.executed_version),
    ]
    if result.function_error:
        answer.append(("X-Amz-Function-Error", result.function_error))
    if asked.wants_log:
        answer.append(("X-Amz-Log-Result", base64.b64encode(result.log_tail).decode()))
    return HttpResponse(200, answer, result.payload)


def _invoke_async(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    """Answer InvokeAsync, a deprecated form of Invoke with the invocation type Event."""
    asked = _parse(lambda_, request, name, operation_name="InvokeAsync", invocation_type="Event")
    run(
        lambda_,
        asked.ref,
        request.body,
        invocation_type="Event",
        client_context="",
        request_id=asked.request_id,
        trace_id=asked.trace_id,
    )
    return HttpResponse(202, [("Content-Type", "application/json")], b'{"Status":202}')


def _invoke_streaming(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    asked = _parse(lambda_, request, name, operation_name="InvokeWithResponseStream")
    if asked.invocation_type not in ("RequestResponse", "DryRun"):
        raise _bad_type(asked.invocation_type, "[RequestResponse, DryRun]")
    lambda_.functions.get(asked.ref).resolve(asked.ref.qualifier)
    payload, context = _check(request.body, asked.invocation_type, asked.client_context)
    if asked.invocation_type == "DryRun":
        return HttpResponse(204)
    stream = AnswerStream(
        lambda_.dispatcher,
        asked.ref,
        payload,
        client_context=context,
        request_id=asked.request_id,
        trace_id=asked.trace_id,
    )
    headers = [
        ("Content-Type", event_stream.CONTENT_TYPE),
        ("X-Amz-Executed-Version", stream.start()),
    ]
    return HttpResponse(200, headers, _frames(stream, wants_log=asked.wants_log))


def _frames(stream: AnswerStream, *, wants_log: bool) -> Iterator[bytes]:
    """Yield PayloadChunk events, then InvokeComplete."""
    for item in stream.items():
        if isinstance(item, Part):
            if item.data:
                yield event_stream.event("PayloadChunk", item.data, "application/octet-stream")
            continue
        complete: dict[str, str] = {}
        if item.function_error:
            complete = _complete_error(item.payload)
        if wants_log:
            complete["LogResult"] = base64.b64encode(item.log_tail).decode()
        body = msgspec.json.encode(complete)
        yield event_stream.event("InvokeComplete", body, "application/json")


def _complete_error(payload: bytes) -> dict[str, str]:
    try:
        code = json.loads(payload).get("errorType", "Unhandled")
    except (ValueError, AttributeError):
        code = "Unhandled"
    return {"ErrorCode": str(code), "ErrorDetails": payload.decode("utf-8", "replace")}


_RAW_POSTS = (
    (_INVOKE_PATH, _invoke),
    (_STREAM_PATH, _invoke_streaming),
    (_ASYNC_PATH, _invoke_async),
)


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
        raise _bad_type(invocation_type, "[Event, RequestResponse, DryRun]")
    try:
        target = lambda_.dispatcher.find(ref)
    except FunctionNotFound as missing:
        raise function_not_found(f"{ref.arn}:{ref.qualifier or LATEST}") from missing
    payload, context = _check(payload, invocation_type, client_context)
    if invocation_type == "DryRun":
        return None
    if invocation_type == "Event":
        lambda_.events.add(ref, payload, client_context=context, request_id=request_id)
        return None
    return lambda_.dispatcher.invoke(
        target, payload, client_context=context, request_id=request_id, trace_id=trace_id
    )


def _bad_type(invocation_type: str, known: str) -> AwsError:
    return validation(
        f"Value '{invocation_type}' at 'invocationType' failed to satisfy constraint: Member must "
        f"satisfy enum value set: {known}"
    )


def _check(payload: bytes, invocation_type: str, client_context: str) -> tuple[bytes, str]:
    """Check the payload; return the event and the client context for the Runtime API. Raises AwsError."""
    if len(payload) > _limit(invocation_type):
        raise too_large(len(payload), _limit(invocation_type), invocation_type)
    payload = payload or b"{}"
    _check_json(payload)
    return payload, _client_context(client_context)


def _limit(invocation_type: str) -> int:
    return ASYNC_PAYLOAD_BYTES if invocation_type == "Event" else SYNC_PAYLOAD_BYTES


def _check_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_request_content(f"Could not parse request body into json: {error}") from None


def _client_context(encoded: str) -> str:
    """Return the client context for the Runtime API's header: JSON on one line."""
    if not encoded:
        return ""
    try:
        decoded = msgspec.json.decode(base64.b64decode(encoded, validate=True))
    except ValueError as error:
        raise invalid_request_content(
            "Client context must be a valid Base64-encoded JSON object."
        ) from error
    # Header values must be ASCII.
    return json.dumps(decoded, separators=(",", ":"))
