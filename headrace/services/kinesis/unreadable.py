"""Requests whose method, Content-Type or target is none of Kinesis's: AWS answers them without reading them.

Source: kinesalite's index.js and test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

import msgspec

from headrace.aws.codec_json import CBOR_1_1, JSON_1_1
from headrace.aws.http import HttpRequest, HttpResponse

_NO_NAME = b"""<AccessDeniedException>
  <Message>Unable to determine service/operation name to be authorized</Message>
</AccessDeniedException>
"""
_OLD_JSON = "application/json"


def refusal_of(request: HttpRequest) -> HttpResponse | None:
    """Return what AWS answers to a request in none of Kinesis's protocols; None for other requests.

    A target with any other Content-Type than application/json is read as JSON, where AWS answers 404: programs that
    ask a local cloud by hand often send text/plain, or none.
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
    """Answer as AWS's first JSON protocol, which knows no operation any more."""
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
