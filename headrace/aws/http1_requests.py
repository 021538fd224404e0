"""Parses an HTTP/1.1 request's line and headers: a fast path for what SDKs send, the full rules for others.

What can be read in two ways is refused, never guessed at: two servers that read one request differently are how one
client's bytes become another's request. The parser (llhttp, by httptools) refuses a Content-Length beside a
Transfer-Encoding, two Content-Lengths, folded lines, bare LF, spaces before the colon and chunk sizes that are none;
the rules here are those that it leaves to its user. Source: RFC 9112, 3.2, 6.1 and 7.1.2.
"""

from __future__ import annotations

import re

from headrace.aws.bounds import Bounds
from headrace.aws.http import HttpRequest

# A request as SDKs send it, whole in one piece, is taken apart here in a third of the time that the parser's calls back
# into Python take. Everything else, and everything that is odd in any way, is the parser's.
_USUAL_START = b"POST / HTTP/1.1\r\n"
_MOST_USUAL_BYTES = 64 * 1024
_MOST_USUAL_HEADERS = 64
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# A name or an address (RFC 3986's host, without the comma that a list of two would have), and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~%!$&'()*+;=-]*)(?::[0-9]{0,5})?")
_MOST_KEPT = 1000
_names: dict[str, str] = {}
_hosts: set[str | None] = set()


class BadRequest(Exception):
    """The request is refused, and its connection closed, since what follows cannot be told from it.

    Attributes:
        status: the HTTP status.
        message: tells a person who debugs the client what is wrong.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def _lower_name(name: str) -> str | None:
    """Return a header's name in lower case; None when it is no token."""
    lower = _names.get(name)
    if lower is None and _TOKEN.fullmatch(name):
        lower = name.lower()
        if len(_names) < _MOST_KEPT:
            _names[name] = lower
    return lower


def is_host(value: str) -> bool:
    """Whether `value` may be a Host header's; an empty one may."""
    if value in _hosts:
        return True
    if _HOST.fullmatch(value) is None:
        return False
    if len(_hosts) < _MOST_KEPT:
        _hosts.add(value)
    return True


def usual_request(data: bytes) -> HttpRequest | None:
    """Return the one whole request that `data` is; None when it is anything but that."""
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
    if host not in _hosts and (host is None or not is_host(host)):
        return None
    return HttpRequest("POST", "/", "", headers, data[end + 4 :])


class RequestHead:
    """A request's line and header fields, as the parser finds them.

    Attributes:
        headers: by lower-case name; a repeated header's values are joined with commas.
        method, path, query: as in `HttpRequest`, once it is complete.
        version: `1.0` or `1.1`, once it is complete.
        length: what Content-Length says, once it is complete; None without one.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.headers: dict[str, str] = {}
        self.method = "GET"
        self.version = "1.1"
        self.path = ""
        self.query = ""
        self.length: int | None = None
        self._bounds = bounds
        self._url = b""
        self._size_bytes = 0
        self._count = 0
        self._hosts = 0

    def add_target(self, target: bytes) -> None:
        """Take a part of the request line's target. Raises BadRequest."""
        self._url += target
        self._grow(len(target))

    def add_header(self, name: bytes, value: bytes) -> None:
        """Take a header field. Raises BadRequest."""
        self._count += 1
        self._grow(len(name) + len(value))
        key = name.decode("latin-1").lower()
        if key == "host":
            self._hosts += 1
        text = value.decode("latin-1").strip(" \t")  # llhttp keeps what trails
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known},{text}"

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._bounds.head_bytes or self._count > self._bounds.headers:
            raise BadRequest(431, "request header fields too large")

    def complete(self, method: str, version: str) -> None:
        """Check the whole of it. Raises BadRequest."""
        self.method, self.version = method, version
        if version not in ("1.0", "1.1"):
            raise BadRequest(505, "HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here")
        if method == "CONNECT":
            raise BadRequest(501, "this is no proxy")
        if self._hosts > 1 or (version == "1.1" and self._hosts == 0):
            raise BadRequest(400, "a request has one Host header")
        self._take_target(method)
        if not is_host(self.headers.get("host", "")):
            raise BadRequest(400, "the Host header is not a host and a port")
        coding = self.headers.get("transfer-encoding")
        if coding is not None and version == "1.0":
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        if coding is not None and coding.lower() != "chunked":
            raise BadRequest(501, "the only Transfer-Encoding known is chunked")
        length = self.headers.get("content-length")
        self.length = None if length is None else int(length)  # digits: the parser saw to it

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return "transfer-encoding" in self.headers

    def without_offer(self) -> bytes:
        """Return a head that says of the body and the connection what this one does, and offers no other protocol."""
        lines = ["POST / HTTP/1.1"]
        if self.chunked:
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append(f"Content-Length: {self.length or 0}")
        if "close" in self.headers.get("connection", "").lower():
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode()

    def _take_target(self, method: str) -> None:
        self.path, _, self.query = self._url.decode("latin-1").partition("?")
        if self.path.startswith("/") or (self.path == "*" and method == "OPTIONS"):
            return
        # Absolute form, as to a proxy: its host is the one that counts (RFC 9112, 3.2.2).
        scheme, found, rest = self._url.decode("latin-1").partition("://")
        if not found or scheme.lower() not in ("http", "https"):
            raise BadRequest(400, "the request's target is neither a path nor a URL")
        place, _, self.query = rest.partition("?")
        authority, slash, path = place.partition("/")
        if not authority or "@" in authority:
            raise BadRequest(400, "the request's target has no proper host")
        self.headers["host"] = authority
        self.path = slash + path or "/"
