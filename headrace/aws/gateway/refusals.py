"""Answers that refuse a request before its operation is known, in a form that its sender can read."""

from __future__ import annotations

from xml.sax.saxutils import escape

import cbor2
import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.model import protocol_of
from headrace.aws.gateway.documents import is_admin, json_response, page
from headrace.aws.protocols import codec_json
from headrace.core.html import element

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


def refuse(request: HttpRequest, status: int, code: str, sentence: str) -> HttpResponse:
    """Return the answer that refuses a request; the request's head is enough.

    Browsers get a page, requests to the cloud's own paths get JSON, SDKs get AWS's JSON or XML.
    """
    headers = request.headers
    if "text/html" in headers.get("accept", ""):
        return page(code, element("p", sentence), status=status)
    if is_admin(request.path):
        return json_response({"message": sentence}, status)
    content_type = headers.get("content-type", "")
    if "x-amz-target" in headers or "json" in content_type:
        answer = {"__type": code, "message": sentence}
        kind = [("Content-Type", "application/x-amz-json-1.1"), ("x-amzn-ErrorType", code)]
        return HttpResponse(status, kind, msgspec.json.encode(answer))
    error = f"<Error>{_elements({'Code': code, 'Message': sentence})}</Error>"
    if "x-www-form-urlencoded" in content_type:
        error = f"<ErrorResponse>{error}</ErrorResponse>"
    return HttpResponse(status, [("Content-Type", "application/xml")], (_XML + error).encode())


def error_answer(
    request: HttpRequest, service: str, error: AwsError, request_id: str
) -> HttpResponse:
    """Return an error of a service in the request's protocol."""
    headers = request.headers
    if service == "s3":
        return _s3_error(request, error, request_id)
    content_type = headers.get("content-type", "")
    value = {"__type": error.code, "message": error.message, **error.members}
    if headers.get("smithy-protocol") == "rpc-v2-cbor":
        kind = [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")]
        return HttpResponse(error.status, kind, cbor2.dumps(value))
    protocol = protocol_of(service)
    if protocol == "rest-json":
        kind = [("Content-Type", "application/json"), ("x-amzn-ErrorType", error.code)]
        return HttpResponse(error.status, kind, msgspec.json.encode({"message": error.message}))
    is_form = content_type.startswith("application/x-www-form")
    if "x-amz-target" in headers or (protocol == "json" and not is_form):
        error_type = content_type if codec_json.is_cbor(content_type) else codec_json.JSON_1_1
        kind = [("Content-Type", error_type), ("x-amzn-ErrorType", error.code)]
        return HttpResponse(error.status, kind, codec_json.encode_error(error, error_type))
    kind_of_error = "Sender" if error.status < 500 else "Receiver"
    fields = (
        f"<Type>{kind_of_error}</Type>{_elements({'Code': error.code, 'Message': error.message})}"
    )
    text = f"<ErrorResponse><Error>{fields}</Error>{_elements({'RequestId': request_id})}</ErrorResponse>"
    return HttpResponse(error.status, [("Content-Type", "text/xml")], (_XML + text).encode())


def refuse_large(request: HttpRequest, most_bytes: int) -> HttpResponse | None:
    """Refuse an unauthenticated request unless its Content-Length is small; None to accept it."""
    headers = request.headers
    length = headers.get("content-length", "" if "transfer-encoding" in headers else "0")
    if not length.isdigit():
        return json_response({"message": "The request must say its length."}, 411)
    if int(length) > most_bytes:
        return json_response({"message": "Request Entity Too Large"}, 413)
    return None


def _s3_error(request: HttpRequest, error: AwsError, request_id: str) -> HttpResponse:
    ids = [("x-amz-request-id", request_id), ("x-amz-id-2", "headrace")]
    if request.method == "HEAD":  # an answer to HEAD has no body for the reason
        return HttpResponse(error.status, ids)
    fields = {"Code": error.code, "Message": error.message, **error.members}
    fields |= {"RequestId": request_id, "HostId": "headrace"}
    text = f"{_XML}<Error>{_elements(fields)}</Error>"
    return HttpResponse(error.status, [("Content-Type", "application/xml"), *ids], text.encode())


def _elements(fields: dict[str, str]) -> str:
    return "".join(f"<{name}>{_text(value)}</{name}>" for name, value in fields.items())


def _text(value: str) -> str:
    # Control characters cannot be in XML at all, escaped or not.
    kept = "".join(c if c >= " " or c in "\t\n" else "?" for c in value)
    return escape(kept.encode("utf-8", "replace").decode())
