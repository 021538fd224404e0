"""Parses an HTTP/1.1 request in the form that SDKs send, complete in one piece; `http1_reader` reads all others."""

from __future__ import annotations

import re

from headrace.aws.calls.http import HttpRequest
from headrace.aws.server.host_names import WELL_FORMED, is_host

# A request of this form is parsed here in a third of the time that the parser's callbacks into Python take. The parser
# reads every request that is unusual in any way.
_USUAL_START = b"POST / HTTP/1.1\r\n"
_MOST_USUAL_BYTES = 64 * 1024
_MOST_USUAL_HEADERS = 64
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MOST_KEPT = 1000
_names: dict[str, str] = {}


def _lower_name(name: str) -> str | None:
    """Return a header's name in lower case; None when it is not a token."""
    lower = _names.get(name)
    if lower is None and _TOKEN.fullmatch(name):
        lower = name.lower()
        if len(_names) < _MOST_KEPT:
            _names[name] = lower
    return lower


def usual_request(data: bytes) -> HttpRequest | None:
    """Return the request when `data` is exactly one complete usual request, else None."""
    if not data.startswith(_USUAL_START):
        return None
    end = data.find(b"\r\n\r\n", 0, _MOST_USUAL_BYTES)
    if end < 0:
        return None
    text = data[len(_USUAL_START) : end].decode("latin-1")
    lines = text.split("\r\n")
    if len(lines) > _MOST_USUAL_HEADERS or not "".join(lines).isprintable():
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        lower = _lower_name(name)
        if lower is None or not colon or lower in headers:
            return None
        headers[lower] = value.strip(" \t")
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 10 or int(length) != len(data) - end - 4:
        return None
    if not _UNUSUAL.isdisjoint(headers):
        return None
    host = headers.get("host")
    if host not in WELL_FORMED and (host is None or not is_host(host)):
        return None
    return HttpRequest("POST", "/", "", headers, data[end + 4 :])
