"""Answers that refuse a request before it is known what it asks for, in a form that its sender can read."""

from __future__ import annotations

from xml.sax.saxutils import escape

import msgspec

from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.pages import is_admin, json_response, page
from headrace.core.html import element

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


def refused(request: HttpRequest, status: int, code: str, sentence: str) -> HttpResponse:
    """Return the refusal of a request, of which no more than the head need be known.

    A page for whoever looks at one, the cloud's own JSON on its own paths, AWS's JSON or XML for SDKs.
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
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(sentence)}</Message></Error>"
    if "x-www-form-urlencoded" in content_type:
        error = f"<ErrorResponse>{error}</ErrorResponse>"
    return HttpResponse(status, [("Content-Type", "application/xml")], (_XML + error).encode())
