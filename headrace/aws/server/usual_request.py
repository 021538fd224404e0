"""Parses an HTTP/1.1 request in the form that SDKs send, complete in one piece.

This takes a fraction of the time that the parser's callbacks into Python take. The parser (`http1_reader`) reads every
request that is unusual in any way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.aws.calls.http import HttpRequest
from headrace.aws.server.connection import WELL_FORMED, is_host

_T = TypeVar("_T")

_POST = b"POST / HTTP/1.1\r\n"
# Other targets of ordinary letters, as REST services have them: of these the parser takes path and query as they are.
_START = re.compile(rb"(GET|POST|PUT) (/[-.~\w/]*+)(?:\?([-.~\w/=&%:+]*+))? HTTP/1\.1\r\n")
_MOST_BYTES = 64 * 1024
_MOST_HEADERS = 64
# The digits of a Content-Length.
_LONGEST_LENGTH = 9
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})
# Fields that differ between the requests of one client; SDKs send the others first.
_VARYING = frozenset({"amz-sdk-invocation-id", "authorization", "content-length", "x-amz-date"})
# What SDKs send after the first of these. Other names could be any, so no pattern is made of them.
_CUT = _VARYING | {"amz-sdk-request", "host", "x-amz-content-sha256", "x-amz-security-token"}
_MOST_PATTERNS = 100
# A value of ASCII's visible characters, without blanks around it.
_VALUE = r"([!-~][ -~]*+)(?<! )"
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
        _keep(_names, name, lower)  # pyrefly: ignore[bad-argument-type]
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


@dataclass(slots=True)
class KeptHead:
    """The head of a connection's last usual request: its fields, and the bytes of those before the first that varies.

    The next request's usually begins so, and this part is not parsed again. When its other fields have the same names
    too, one pattern checks and cuts them.
    """

    begin: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    # The other fields' names, in lower case, and what matches their lines; None when nothing does.
    names: tuple[str, ...] = ()
    cut: Callable[[str], re.Match[str] | None] | None = None
    # Whether the last bytes were a usual request without all of its short body.
    lacks_body: bool = False
    _left: int = _MOST_HEADS_KEPT

    def keep(self, data: bytes, start: int, lines: list[str], headers: dict[str, str]) -> None:
        """Keep a head with these lines, the first of which begins at `start`, and fields; both in the same order."""
        self.begin, self.headers, self.names, self.cut = b"", {}, (), None
        if not self._left:
            return
        self._left -= 1
        size_bytes, count = 0, 0
        for line, name in zip(lines, headers, strict=True):
            if name in _VARYING:
                break
            size_bytes += len(line) + 2
            count += 1
        if size_bytes > _LONGEST_KEPT_BYTES:
            return
        names = tuple(headers)
        self.begin, self.headers = (
            data[start : start + size_bytes],
            {name: headers[name] for name in names[:count]},
        )
        if _CUT.issuperset(names[count:]):
            self.names = names[count:]
            self.cut = _cut_of(tuple(line.partition(":")[0] for line in lines[count:]))


@functools.lru_cache(maxsize=_MOST_PATTERNS)
def _cut_of(names: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    """Return what matches the lines of fields with these names whose values `_field_of` takes as they are."""
    return re.compile("\r\n".join(f"{re.escape(name)}: {_VALUE}" for name in names)).fullmatch


def usual_request(
    data: bytes, kept: KeptHead | None = None, most_body_bytes: int = 16 * 1024
) -> HttpRequest | None:
    """Return the request when `data` is exactly one complete usual request, else None.

    Args:
        data: what came in one piece.
        kept: of the connection that `data` came from; it says what `data` lacks, and else changes only the time that
            this takes.
        most_body_bytes: a longer body is usual only of a POST to `/`: those of REST services wait for room in memory,
            or lie in files.
    """
    method, path, query = "POST", "/", ""
    if data.startswith(_POST):
        first = len(_POST)
    elif target := _START.match(data):
        method, path = target[1].decode(), target[2].decode()
        query, first = (target[3] or b"").decode(), target.end()
    else:
        return None
    start, cut = first, None
    headers: dict[str, str] = {}
    if kept is not None and kept.begin and data.startswith(kept.begin, first):
        start, headers, cut = first + len(kept.begin), kept.headers.copy(), kept.cut
    head, end, body = data.partition(b"\r\n\r\n")
    if not end or not start <= len(head) <= _MOST_BYTES:
        return None
    if len(body) > most_body_bytes and (path != "/" or method != "POST"):
        return None
    text = head[start:].decode("latin-1")
    found = None if cut is None else cut(text)
    if kept is not None and found is not None:
        # Quicker than `update`; the pattern has a group for each name, and `strict` takes a third of the loop's time.
        for name, value in zip(kept.names, found.groups()):  # noqa: B905
            headers[name] = value
    else:
        lines = text.split("\r\n")
        if not _add_fields(headers, lines):
            return None
        if kept is not None and start == first:
            kept.keep(data, first, lines, headers)
    host = headers.get("host")
    if host not in WELL_FORMED and (host is None or not is_host(host)):
        return None
    length = headers.get("content-length", "0" if method == "GET" else "")
    if length != str(len(body)):
        if kept is not None and length.isdecimal() and len(length) <= _LONGEST_LENGTH:
            kept.lacks_body = len(body) < int(length) <= most_body_bytes
        return None
    return HttpRequest(method, path, query, headers, body, None, head)


def _add_fields(headers: dict[str, str], lines: list[str]) -> bool:
    """Add the fields of header lines; return False when one of them is unusual."""
    if len(lines) + len(headers) > _MOST_HEADERS:
        return False
    fields = _fields
    for line in lines:
        field = fields.get(line) or _field_of(line)
        if field is None or field[0] in headers:
            return False
        headers[field[0]] = field[1]
    return True
