"""What Lambda answers over HTTP by itself: invocations, downloads of packages, and pages about mappings."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.protocols import encodings
from headrace.aws.protocols.service import DataPage, NothingToShow
from headrace.core.ports import InvokeResult
from headrace.core.values import parse_json
from headrace.services.lambda_.actions.invoke import bad_type, find_target, run
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import access_denied, too_large, validation
from headrace.services.lambda_.invocations.dispatcher import (
    AnswerStream,
    Part,
    check_payload,
    most_bytes,
)
from headrace.services.lambda_.mappings.mappings import Mappings
from headrace.services.lambda_.names import FunctionRef, check_reachable, parse_function
from headrace.services.lambda_.packages import CODE_PATH
from headrace.services.lambda_.permits import INVOKE, Caller, allows
from headrace.services.lambda_.runtime.steps import watch

# A larger payload takes its time, and may not fit into the socket to the function's process.
_QUICK_BYTES = 32 * 1024
_INVOKE_PATH = re.compile(r"^/2015-03-31/functions/([^/]+)/invocations/?$")
_STREAM_PATH = re.compile(r"^/2021-11-15/functions/([^/]+)/response-streaming-invocations/?$")
_ASYNC_PATH = re.compile(r"^/2014-11-13/functions/([^/]+)/invoke-async/?$")
_CODE_FILE = re.compile(rf"^{CODE_PATH}([0-9a-f]{{64}})\.zip$")


def answer_raw(lambda_: Lambda, request: HttpRequest) -> HttpResponse | None:
    """Answer the invoking operations and package downloads; None for everything else.

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


class _InvokeRequest(NamedTuple):
    """An invocation as its path, headers and query describe it."""

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
        raise too_large(-1, most_bytes(kind), operation_name)
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
    """Refuse a caller of another account whom no resource policy allows it. Raises AwsError."""
    function = lambda_.functions.find(ref)
    caller = Caller(account=account)
    if function is None or not allows(function, ref.qualifier, INVOKE, caller):
        raise access_denied(account, INVOKE, ref.qualified_arn)


def may_be_quick(request: HttpRequest) -> bool:
    """Whether a request is an invocation that may be answered on the event loop's thread."""
    return (
        request.path.endswith("/invocations")
        and request.path.startswith("/2015-03-31/functions/")
        and request.method == "POST"
        and request.headers.get("x-amz-invocation-type", "RequestResponse") == "RequestResponse"
        and request.body_file is None
        and len(request.body) <= _QUICK_BYTES
    )


def _invoke(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    """Invoke a function; the event loop waits for a quick one. Raises NeedsThread, AwsError, FunctionThrottled."""
    asked = _parse(lambda_, request, name, operation_name="Invoke")
    answer = HttpResponse(200)
    if request.at_once:
        assert request.call is not None
        target = find_target(lambda_, asked.ref)
        payload, context = check_payload(request.body, asked.invocation_type, asked.client_context)
        steps = lambda_.dispatcher.steps(
            target,
            payload,
            client_context=context,
            request_id=asked.request_id,
            trace_id=asked.trace_id,
        )
        request.call.waits.append(watch(steps, lambda result: _fill(answer, asked, result)))
        return answer
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
    _fill(answer, asked, result)
    return answer


def _fill(answer: HttpResponse, asked: _InvokeRequest, result: InvokeResult) -> None:
    """Write the result of an invocation into its answer."""
    # Before the request's id, which is there already: so begin many answers, which the server knows.
    answer.headers[:0] = [
        ("Content-Type", "application/json"),
        ("X-Amz-Executed-Version", result.executed_version),
    ]
    if result.function_error:
        answer.headers.append(("X-Amz-Function-Error", result.function_error))
    if asked.wants_log:
        answer.headers.append(("X-Amz-Log-Result", base64.b64encode(result.log_tail).decode()))
    answer.body = result.payload


def _invoke_async(lambda_: Lambda, request: HttpRequest, name: str) -> HttpResponse:
    """InvokeAsync, which AWS has deprecated: an Event invocation in another form."""
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
        raise bad_type(asked.invocation_type, "[RequestResponse, DryRun]")
    lambda_.functions.get(asked.ref).resolve(asked.ref.qualifier)
    payload, context = check_payload(request.body, asked.invocation_type, asked.client_context)
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
        ("Content-Type", encodings.CONTENT_TYPE),
        ("X-Amz-Executed-Version", stream.start()),
    ]
    return HttpResponse(200, headers, _build_frames(stream, wants_log=asked.wants_log))


def _build_frames(stream: AnswerStream, *, wants_log: bool) -> Iterator[bytes]:
    """Yield PayloadChunk events, and InvokeComplete at the end."""
    for item in stream.items():
        if isinstance(item, Part):
            if item.data:
                yield encodings.event("PayloadChunk", item.data, "application/octet-stream")
            continue
        complete: dict[str, str] = {}
        if item.function_error:
            complete = _complete_error(item.payload)
        if wants_log:
            complete["LogResult"] = base64.b64encode(item.log_tail).decode()
        body = msgspec.json.encode(complete)
        yield encodings.event("InvokeComplete", body, "application/json")


def _complete_error(payload: bytes) -> dict[str, str]:
    try:
        code = parse_json(payload).get("errorType", "Unhandled")
    except (ValueError, AttributeError):
        code = "Unhandled"
    return {"ErrorCode": str(code), "ErrorDetails": payload.decode("utf-8", "replace")}


_RAW_POSTS = (
    (_INVOKE_PATH, _invoke),
    (_STREAM_PATH, _invoke_streaming),
    (_ASYNC_PATH, _invoke_async),
)


def trace_page(mappings: Mappings) -> DataPage:
    """Return the page of a record. Parameters: `mapping` (an id or a function's name) and `sequence` (a number)."""

    def data(params: Mapping[str, str]) -> dict[str, Any]:
        name = params.get("mapping", "")
        reports = mappings.traces(name, params.get("sequence"))
        if not reports:
            raise NothingToShow(f"No mapping or mapped function {name}.")
        return {"mappings": reports}

    return DataPage(
        "lambda/trace",
        "Lambda: what a mapping did with a record (JSON)",
        data,
        query="?mapping=<id or function>",
    )


def backlog_page(mappings: Mappings) -> DataPage:
    """Return the page that lists every mapping with the number of records that wait for it."""
    return DataPage(
        "lambda/mappings",
        "Lambda: each mapping's waiting records (JSON)",
        lambda _: {"mappings": mappings.backlogs()},
    )
