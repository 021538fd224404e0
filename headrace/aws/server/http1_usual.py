"""Parses an HTTP/1.1 request in the form that SDKs send, complete in one piece; `http1_reader` reads all others."""

from __future__ import annotations

import re
from typing import TypeVar

from headrace.aws.calls.http import HttpRequest
from headrace.aws.server.connection import WELL_FORMED, is_host

_T = TypeVar("_T")

# A request of this form is parsed here in a third of the time that the parser's callbacks into Python take. The parser
# reads every request that is unusual in any way.
_USUAL_START = b"POST / HTTP/1.1\r\n"
_MOST_USUAL_BYTES = 64 * 1024
_MOST_USUAL_HEADERS = 64
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})
# Fields that differ between the requests of one client; SDKs send the others first.
_VARYING = frozenset({"amz-sdk-invocation-id", "authorization", "content-length", "x-amz-date"})
_LONGEST_KEPT_BYTES = 2048
# A client whose heads keep differing, such as in their operations, costs no more than these.
_MOST_HEADS_KEPT = 16
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MOST_KEPT = 1000
# Longer lines, such as signatures, differ each time.
_LONGEST_KEPT_LINE = 64
_fields: dict[str, tuple[str, str]] = {}
_names: dict[str, str] = {}


def _field_of(line: str) -> tuple[str, str] | None:
    """Return a header line's name, in lower case, and its value; None when the line is unusual or no header's."""
    name, colon, value = line.partition(":")
    lower = _names.get(name)
    if lower is None and _TOKEN.fullmatch(name) and (lower := name.lower()) not in _UNUSUAL:
        _keep(_names, name, lower)
    if lower is None or lower in _UNUSUAL or not colon or not line.isprintable():
        return None
    field = lower, value.strip(" \t")
    if len(line) <= _LONGEST_KEPT_LINE:
        _keep(_fields, line, field)
    return field


def _keep(kept: dict[str, _T], key: str, value: _T) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = value


class KeptHead:
    """How the head of a connection's last usual request began, up to the first field that varies, and its fields.

    The next request's usually begins so, and this part is not parsed again.
    """

    __slots__ = ("_left", "begin", "headers")

    def __init__(self) -> None:
        self._left = _MOST_HEADS_KEPT
        self.begin: bytes = _USUAL_START
        self.headers: dict[str, str] = {}

    def keep(self, data: bytes, lines: list[str], headers: dict[str, str]) -> None:
        """Keep the beginning of a head with these lines and fields; both in the same order."""
        if not self._left:
            self.begin, self.headers = _USUAL_START, {}
            return
        self._left -= 1
        size_bytes = len(_USUAL_START)
        kept: dict[str, str] = {}
        for line, (name, value) in zip(lines, headers.items(), strict=True):
            if name in _VARYING:
                break
            size_bytes += len(line) + 2
            kept[name] = value
        if size_bytes <= _LONGEST_KEPT_BYTES:
            self.begin, self.headers = data[:size_bytes], kept


def usual_request(data: bytes, kept: KeptHead | None = None) -> HttpRequest | None:
    """Return the request when `data` is exactly one complete usual request, else None.

    `kept`: of the connection that `data` came from; it changes nothing but the time that this takes.
    """
    if kept is not None and data.startswith(kept.begin):
        start, headers = len(kept.begin), kept.headers.copy()
    elif data.startswith(_USUAL_START):
        start, headers = len(_USUAL_START), {}
    else:
        return None
    # The field before `start` has its line end there.
    end = data.find(b"\r\n\r\n", start - 2, _MOST_USUAL_BYTES)
    if end < start:
        return None
    lines = data[start:end].decode("latin-1").split("\r\n")
    if len(lines) + len(headers) > _MOST_USUAL_HEADERS:
        return None
    fields = _fields
    for line in lines:
        field = fields.get(line) or _field_of(line)
        if field is None or field[0] in headers:
            return None
        headers[field[0]] = field[1]
    if kept is not None and start == len(_USUAL_START):
        kept.keep(data, lines, headers)
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 10 or int(length) != len(data) - end - 4:
        return None
    host = headers.get("host")
    if host not in WELL_FORMED and (host is None or not is_host(host)):
        return None
    return HttpRequest("POST", "/", "", headers, data[end + 4 :])
