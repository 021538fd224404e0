"""Injects faults into requests: finds the rules that match a request, and answers, delays or drops it."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from urllib.parse import parse_qs

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from headrace.aws.calls.model import protocol_of
from headrace.aws.calls.operation import Call
from headrace.aws.faults.faults import Faults, RequestProperties
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.service import ServiceApi
from headrace.core.clock import Clock

Answer = HttpResponse | Future[HttpResponse]


def answer_with_faults(
    faults: Faults,
    clock: Clock,
    api: ServiceApi | None,
    request: HttpRequest,
    call: Call,
    answer: Callable[[], Answer],
) -> Answer:
    """Answer a request as the matching rules say; `answer` answers it without faults."""
    plan = faults.plan(_facts(api, request, call))
    if plan.latency_ms:
        clock.wait(threading.Event(), plan.latency_ms / 1000)
    if plan.error is not None:
        return _error(plan.error, request, call)
    if plan.drop == "before":
        return HttpResponse(DROPPED)
    response = answer()
    if plan.drop is None:
        return response
    if isinstance(response, Future):
        # This callback runs before those of the Future's waiters.
        response.add_done_callback(_drop_when_done)
    else:
        _drop(response)
    return response


def _drop_when_done(future: Future[HttpResponse]) -> None:
    if future.exception() is None:
        _drop(future.result())


def _drop(response: HttpResponse) -> None:
    response.status = DROPPED
    if isinstance(response.body, FileSlice):
        if response.body.file is not None:
            response.body.file.close()
    elif isinstance(response.body, AsyncGenerator):
        # The server closes it, on its event loop.
        return
    response.body = b""


def _facts(api: ServiceApi | None, request: HttpRequest, call: Call) -> RequestProperties:
    action = _action(request, call.service)

    def place() -> tuple[str, str]:
        if api is None or api.subject is None:
            return "", ""
        try:
            return api.subject(request, action, call)
        except (AwsError, ValueError, TypeError, KeyError):
            # A malformed request names no stream; the service refuses it later.
            return "", ""

    return RequestProperties(call.service, action, call.account, place)


def _action(request: HttpRequest, service: str) -> str:
    """Return a request's operation; empty when it is unknown."""
    target = request.headers.get("x-amz-target")
    if target is not None:
        return target.rpartition(".")[2]
    content_type = request.headers.get("content-type", "")
    form = request.query
    if content_type.startswith("application/x-www-form-urlencoded"):
        form = request.body.decode("utf-8", "replace")
    named = parse_qs(form).get("Action")
    if named:
        return named[0]
    try:
        return codec_moto.operation_name(service, request)
    except UnknownServiceError:
        return ""


def _error(error: AwsError, request: HttpRequest, call: Call) -> HttpResponse:
    """Return an error in the service's protocol."""
    service = call.service
    if "x-amz-target" in request.headers or protocol_of(service) == "json":
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        cbor = codec_json.is_cbor(content_type)
        return HttpResponse(
            error.status,
            [
                ("Content-Type", codec_json.CBOR_1_1 if cbor else codec_json.JSON_1_1),
                ("x-amzn-ErrorType", error.code),
            ],
            codec_json.encode_error(error, content_type),
        )
    return codec_moto.serialize_error(service, None, error, call.request_id)
