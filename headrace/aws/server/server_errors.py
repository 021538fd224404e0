"""The errors that the server itself answers instead of a service, in the request's protocol."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpResponse
from headrace.aws.protocols import codec_json
from headrace.aws.signatures.credential_scopes import scope_of_headers

_TEXT = [("Content-Type", "text/plain")]


def plain(status: int, message: str) -> HttpResponse:
    """Return a plain text answer to an invalid HTTP request, whose AWS protocol is unknown."""
    return HttpResponse(status, list(_TEXT), f"{message}\n".encode())


def internal_failure() -> HttpResponse:
    """Return the answer when the server itself fails; the log has the traceback."""
    return plain(500, "internal failure")


def busy(headers: Mapping[str, str]) -> HttpResponse:
    """Return 503: the server has more requests than its limits allow.

    Source: S3's ErrorResponses (SlowDown), and the common errors of AWS's other APIs (ServiceUnavailable); documented.
    """
    if _is_s3(headers):
        return _shape_error(headers, AwsError("SlowDown", "Please reduce your request rate.", 503))
    message = "The request has failed due to a temporary failure of the server."
    return _shape_error(headers, AwsError("ServiceUnavailable", message, 503))


def busy_for(head: bytes) -> HttpResponse:
    """Return `busy` for a request whose head was not parsed, because no connection is left for it."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    fields = (line.partition(":") for line in lines)
    return busy({name.strip().lower(): value.strip() for name, _, value in fields})


def body_late(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a request whose body stopped arriving.

    Source: S3's ErrorResponses (RequestTimeout), documented; 408 and the connection closed of CloudWatch, observed
    (Stack Overflow 78983877, 2024-09-09).
    """
    if not _is_s3(headers):
        return plain(408, "the request's body stopped coming")
    message = (
        "Your socket connection to the server was not read from or written to within the timeout period."
        " Idle connections will be closed."
    )
    return _shape_error(headers, AwsError("RequestTimeout", message, 400))


def body_too_large(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a body over 5 GiB. Source: S3's ErrorResponses (EntityTooLarge); documented."""
    if _is_s3(headers):
        message = "Your proposed upload exceeds the maximum allowed object size."
        return _shape_error(headers, AwsError("EntityTooLarge", message, 400))
    return _shape_error(
        headers, AwsError("RequestEntityTooLargeException", "Request is too large", 413)
    )


def body_not_stored(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a body that does not fit on the disk."""
    message = "The server could not store the request's body; its log says why."
    code = "InternalError" if _is_s3(headers) else "InternalFailure"
    return _shape_error(headers, AwsError(code, message, 500))


def _is_s3(headers: Mapping[str, str]) -> bool:
    if "x-amz-target" in headers or _is_form(headers):
        return False
    return scope_of_headers(headers).service in ("", "s3", "s3express")


def _is_form(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith("application/x-www-form-urlencoded")


def _shape_error(headers: Mapping[str, str], error: AwsError) -> HttpResponse:
    content_type = headers.get("content-type", "")
    if _is_s3(headers):
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{error.code}</Code><Message>{error.message}</Message></Error>"
        )
        return HttpResponse(error.status, [("Content-Type", "application/xml")], text.encode())
    if _is_form(headers):
        kind = "Sender" if error.status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{error.code}</Code>"
            f"<Message>{error.message}</Message></Error></ErrorResponse>"
        )
        return HttpResponse(error.status, [("Content-Type", "text/xml")], text.encode())
    if not codec_json.is_cbor(content_type) and not content_type.startswith("application/x-amz-"):
        content_type = codec_json.JSON_1_1
    return HttpResponse(
        error.status,
        [("Content-Type", content_type), ("x-amzn-ErrorType", error.code)],
        codec_json.encode_error(error, content_type),
    )
