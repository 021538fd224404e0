"""Answers requests with a method, Content-Type or target that Kinesis does not have; AWS does not read their bodies.

Source: kinesalite's index.js and test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

import msgspec

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols.codec_json import CBOR_1_1, JSON_1_1

_NO_NAME = b"""<AccessDeniedException>
  <Message>Unable to determine service/operation name to be authorized</Message>
</AccessDeniedException>
"""
_OLD_JSON = "application/json"


def refusal_of(request: HttpRequest) -> HttpResponse | None:
    """Return AWS's response to a request in no protocol of Kinesis, or None for other requests.

    headrace is more lenient than AWS, which answers 404: a request with a target and any Content-Type but
    application/json is read as JSON, because programs that call a local cloud by hand often send text/plain or none.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if request.method != "POST":
        return HttpResponse(403, [], _NO_NAME)
    if kind == _OLD_JSON:
        return _old_json(request)
    if kind not in (JSON_1_1, CBOR_1_1) and "." not in headers.get("x-amz-target", "").strip("."):
        return HttpResponse(403, [], _NO_NAME)
    return None


def _old_json(request: HttpRequest) -> HttpResponse:
    """Answer in AWS's first JSON protocol, which has no operations any more."""
    try:
        is_read = not request.body or isinstance(msgspec.json.decode(request.body), dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_read = False
    prefix = "com.amazon.coral.service#"
    output = (
        {"__type": f"{prefix}UnknownOperationException", "message": None}
        if is_read
        else {"__type": f"{prefix}SerializationException", "Message": None}
    )
    body = msgspec.json.encode({"Output": output, "Version": "1.0"})
    return HttpResponse(200, [("Content-Type", _OLD_JSON)], body)
