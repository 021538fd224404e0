"""Converts moto's failures to errors with AWS's form and sentences."""

from __future__ import annotations

import logging
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.model import operation_model
from headrace.aws.gateway.refusals import error_answer
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.validate import sentence, validate
from headrace.moto.requests.unreadable_members import unreadable_member

log = logging.getLogger(__name__)

_said: set[str] = set()
_MOST_SAID = 1_000


def refusal(service: str, operation: str, request: HttpRequest, error: Exception) -> AwsError:
    """Return the answer when moto failed with `error`.

    Usually AWS refuses such a request, and moto has not checked it; then the answer has AWS's sentence.
    """
    try:
        operation, params = _read_request(service, operation, request, error)
    except AwsError as fault:
        return fault
    except Exception:
        log.debug("%s:%s cannot be checked", service, operation, exc_info=True)
    else:
        fault = unreadable_member(_model_of(service, request), operation, params, error)
        if fault is not None:
            return fault
    name = f"{service}:{operation}"
    if name not in _said and len(_said) < _MOST_SAID:
        _said.add(name)
        log.error("moto cannot answer a %s (%s: %s)", name, type(error).__name__, error)
    log.debug("%s failed in moto", name, exc_info=error)
    # Not 500: clients retry that, and it would fail again.
    return AwsError(
        "InternalFailure",
        f"moto, which serves {service} in headrace, cannot answer this {operation}"
        f" ({type(error).__name__}: {error})",
        501,
    )


def _read_request(
    service: str, operation: str, request: HttpRequest, error: Exception
) -> tuple[str, dict[str, Any]]:
    """Return a request's operation and parameters.

    Raises AwsError when the request does not fit the service's model, or lacks a member that moto read.
    """
    code, service = "ValidationException", _model_of(service, request)
    if is_json(request):
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        params = codec_json.decode_input(service, operation, request.body, content_type)
    else:
        operation, params = codec_moto.parse_request(service, request)
        if b"Action=" in request.body or "Action=" in request.query:
            code = "ValidationError"
    validate(service, operation, params, code=code)
    shape = operation_model(service, operation).input_shape
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    # Some models do not mark every member that AWS requires.
    if shape is not None and name in shape.members and name not in params:
        member = f"{name[0].lower()}{name[1:]}"
        raise AwsError(
            code,
            sentence(
                [f"Value null at '{member}' failed to satisfy constraint: Member must not be null"]
            ),
        )
    return operation, params


def find_missing_action(request: HttpRequest, answer: HttpResponse) -> AwsError | None:
    """Return the error of a form without an Action, for which moto has an empty answer; None for other requests.

    Source: docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html (MissingAction; the
    sentence is assumed).
    """
    if answer.status != 404 or answer.body or is_json(request) or request.path != "/":
        return None
    return AwsError("MissingAction", "Missing Action", 400)


def _model_of(service: str, request: HttpRequest) -> str:
    """Return the name of a service's model: two generations of load balancers share a signing scope."""
    if service != "elasticloadbalancing":
        return service
    return "elbv2" if b"Version=2015-12-01" in request.body else "elb"


def is_json(request: HttpRequest) -> bool:
    """Whether a request uses a JSON protocol with a target, or declares a JSON body."""
    return "x-amz-target" in request.headers


def error_response(service: str, request: HttpRequest, error: AwsError) -> HttpResponse:
    """Return an error in the form of the request's protocol."""
    service = _model_of(service, request)
    request_id = "" if request.call is None else request.call.request_id
    if request.headers.get("smithy-protocol") == "rpc-v2-cbor":
        return error_answer(request, service, error, request_id)
    if not is_json(request):
        try:
            return codec_moto.serialize_error(service, None, error, request_id)
        except Exception:
            log.debug("the protocol of %s has no form for errors", service, exc_info=True)
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    if not content_type.startswith("application/x-amz-json"):
        content_type = codec_json.JSON_1_1
    return HttpResponse(
        error.status,
        [("Content-Type", content_type), ("x-amzn-ErrorType", error.code)],
        codec_json.encode_error(error, content_type),
    )
