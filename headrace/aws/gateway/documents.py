"""Makes the cloud's own documents: HTML without scripts or foreign resources, and JSON for programs.

Answers that refuse a request before its operation is known, in a form that its sender can read.

Builds HTML from values: `element` and `join` escape every text that is not `Html` already.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

import cbor2
import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import protocol_of
from headrace.aws.protocols import codec_json

_STYLE = """
:root{color-scheme:light dark;--line:#d5d9de;--soft:#f5f6f8;--dim:#5c6470;--good:#176b37;--bad:#b3261e;--busy:#0b57b0}
@media(prefers-color-scheme:dark){:root{--line:#3a4048;--soft:#1f2329;--dim:#a0a8b4;--good:#6fcf8f;--bad:#ff8a80;--busy:#8ab4f8}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem 1.5rem 3rem;max-width:84rem}
h1{font-size:1.5rem;margin:.4rem 0}table~h1,p~h1{margin-top:2.5rem}h2{font-size:1.15rem;margin:1.6rem 0 .2rem}
a{color:var(--busy);text-decoration:none}a:hover,a:focus{text-decoration:underline}
nav,.dim{color:var(--dim)}p{margin:.2rem 0 .6rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th{font-weight:600;color:var(--dim);font-size:.85rem;white-space:nowrap}
td,th{text-align:left;vertical-align:top;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line)}
td:last-child{overflow-wrap:anywhere}td>code.dim{display:block;white-space:nowrap}
time,.state{white-space:nowrap}code{font-size:.88em}
@media(max-width:60rem){table{display:block;overflow-x:auto}}
pre{background:var(--soft);border:1px solid var(--line);padding:.8rem;overflow:auto;max-height:32rem;font-size:.85rem}
.state{font-weight:600;font-size:.85rem}.good{color:var(--good)}.bad{color:var(--bad)}.busy{color:var(--busy)}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# A browser may show a page with its one style sheet, not in a frame, and sends no referrer.
_RESTRAINTS = (
    (
        "Content-Security-Policy",
        "; ".join(
            (
                "default-src 'none'",
                f"style-src 'sha256-{_STYLE_HASH}'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        ),
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
ADMIN = "/_headrace"
# The dashboard's API.
API = "/_headrace/api/"
# LocalStack's list of a queue's messages.
SQS_MESSAGES = "/_aws/sqs/messages"
# The reset of moto's server.
MOTO_RESET = "/moto-api/reset"
_ADMIN_PREFIXES = (f"{ADMIN}/", "/_localstack/", f"{SQS_MESSAGES}/")


def is_admin(path: str) -> bool:
    """Whether a path is one of the cloud's own pages. Function URLs may have such paths too: check them first."""
    return path.startswith(_ADMIN_PREFIXES) or path in (ADMIN, SQS_MESSAGES)


def is_moto_reset(request: HttpRequest) -> bool:
    """Whether a request is the reset of moto's server. Its path may be an object's, to which S3 takes no such POST."""
    return request.method == "POST" and request.path == MOTO_RESET and not request.query


def page(
    title: str,
    *body: object,
    trail: Sequence[tuple[str, str]] = (),
    refresh_s: int | None = None,
    status: int = 200,
) -> HttpResponse:
    """Return a page.

    Args:
        title: its title and heading.
        body: its content.
        trail: URL and name of the pages above it.
        refresh_s: after how many seconds a browser fetches it again; None for never.
        status: the HTTP status.
    """
    again = Html(f'<meta http-equiv="refresh" content="{refresh_s}">') if refresh_s else None
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        again,
        element("title", f"{title} · headrace"),
        element("style", Html(_STYLE)),
    )
    above = element("nav", join((link(url, name) for url, name in trail), " / ")) if trail else None
    content = element("html", head, element("body", above, element("h1", title), *body), lang="en")
    kind = [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store")]
    return restrain(HttpResponse(status, kind, f"<!doctype html>\n{content}\n".encode()))


def restrain(answer: HttpResponse) -> HttpResponse:
    """Add headers so that browsers do not run, frame, sniff or share an answer of the cloud's own pages."""
    if not any(name == "Content-Security-Policy" for name, _ in answer.headers):
        answer.headers += _RESTRAINTS
    return answer


def json_response(value: Any, status: int = 200) -> HttpResponse:
    """Return a value as JSON."""
    kind = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    return restrain(HttpResponse(status, kind, msgspec.json.encode(value)))


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


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: str) -> Html:
    """Return an element; the trailing underscore of an attribute's name and children that are None are dropped."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{attribute_text}>{join(children)}</{name}>")


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Return the parts joined: text that is not `Html` is escaped, None is left out."""
    texts = (
        part if isinstance(part, Html) else html.escape(str(part))
        for part in parts
        if part is not None
    )
    return Html(html.escape(separator).join(texts))


def link(url: str, text: object) -> Html:
    """Return a link."""
    return element("a", text, href=url)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; each row has a cell for each header."""
    head = element("tr", *(element("th", header) for header in headers))
    return element(
        "table", head, *(element("tr", *(element("td", cell) for cell in row)) for row in rows)
    )


def time_of(time_ms: int | None) -> Html:
    """Return a time for people, in UTC; empty for None."""
    if time_ms is None:
        return Html()
    return element("time", f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}")


def duration_of(from_ms: int | None, to_ms: int | None) -> Html:
    """Return a duration as text for people; empty when either time is None."""
    if from_ms is None or to_ms is None:
        return Html()
    seconds = max(0, to_ms - from_ms) / 1000
    if seconds < 60:
        return element("time", f"{seconds:.1f} s")
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return element("time", f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s")


def iso_time(time_ms: int | None) -> str | None:
    """Return a time in ISO 8601, in UTC; None for None."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
