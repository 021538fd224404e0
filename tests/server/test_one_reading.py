"""A request that could be read in two ways is refused, and its connection closed: no client's bytes become another's.

Source of the forms: RFC 9112, 3.2, 5.1, 5.2, 6.1 and 6.3, and the published attacks by request smuggling (CL.TE, TE.CL,
TE.TE, folded lines, bare LF, spaces before the colon). Documented.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.frames import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    HELLO,
    PROTOCOL_ERROR,
    body_of,
    encoded,
    frame,
    frames_of,
    goaway_of,
)
from tests.support.wire import Wire, server_at, settle

# What an attacker hopes will be taken for a request of its own.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: t\r\n\r\n"


def talk(*pieces: bytes) -> tuple[list[HttpRequest], Wire]:
    """Send pieces; return the requests that were taken, and the connection."""
    taken: list[HttpRequest] = []

    def handle(request: HttpRequest) -> HttpResponse:
        taken.append(request)
        return HttpResponse(200, [], b"echo " + request.body)

    async def run() -> Wire:
        wire = Wire(server_at(handle, Path("/tmp")))
        for piece in pieces:
            wire.send(piece)
            await settle(5)
        await settle(20)
        return wire

    return taken, asyncio.run(run())


def statuses(wire: Wire) -> list[int]:
    return [int(part[:3]) for part in wire.took.split(b"HTTP/1.1 ")[1:]]


def ended(wire: Wire) -> bool:
    return wire.closed or wire.sent_eof


HEAD = b"POST /seen HTTP/1.1\r\nHost: t\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b"0\r\n\r\n"

REFUSED = {
    "length and coding": HEAD + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + BODY,
    "coding and length": HEAD + CHUNKED + b"Content-Length: 5\r\n\r\n" + BODY,
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n" + b"12345",
    "one length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + b"12345",
    "a list of lengths": HEAD + b"Content-Length: 5, 5\r\n\r\n" + b"12345",
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\n" + b"12345",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n" + b"12345",
    "a hexadecimal length": HEAD + b"Content-Length: 0x5\r\n\r\n" + b"12345",
    "an empty length": HEAD + b"Content-Length:\r\n\r\n",
    "a length over 2^64": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + BODY,
    "no coding": HEAD + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
    "an empty coding": HEAD + b"Transfer-Encoding:\r\n\r\n" + BODY,
    "two codings": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY,
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + BODY,
    "chunked twice": HEAD + CHUNKED + CHUNKED + b"\r\n" + BODY,
    "chunked, then not": HEAD + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
    "a vertical tab": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + BODY,
    "a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + BODY,
    "a length with a space before the colon": HEAD + b"Content-Length : 5\r\n\r\n12345",
    "a folded line": HEAD + b"X: a\r\n b\r\n\r\n",
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + BODY,
    "a space before the first header": b"POST /seen HTTP/1.1\r\n Host: t\r\n\r\n",
    "bare LF": b"POST /seen HTTP/1.1\nHost: t\n\n",
    "bare LF after one header": HEAD + b"X: a\nY: b\r\n\r\n",
    "bare CR": HEAD + b"X: a\rY: b\r\n\r\n",
    "bare LF in a chunk": HEAD + CHUNKED + b"\r\n3\nabc\r\n0\r\n\r\n",
    "bare LF in an extension": HEAD + CHUNKED + b"\r\n3;a\nabc\r\n0\r\n\r\n",
    "a chunk that is too long": HEAD + CHUNKED + b"\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a chunk's size with a sign": HEAD + CHUNKED + b"\r\n+3\r\nabc\r\n0\r\n\r\n",
    "a chunk's size with 0x": HEAD + CHUNKED + b"\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk's size over 2^64": HEAD + CHUNKED + b"\r\nffffffffffffffff1\r\nabc\r\n0\r\n\r\n",
    "a name that is none": HEAD + b"X\x00: a\r\n\r\n",
    "a line without a colon": HEAD + b"nonsense\r\n\r\n",
    "a NUL in a value": HEAD + b"X: a\x00b\r\n\r\n",
    "coding in HTTP/1.0": b"POST /seen HTTP/1.0\r\nHost: t\r\n" + CHUNKED + b"\r\n" + BODY,
    "HTTP/0.9": b"GET /seen\r\n\r\n",
    "HTTP/2 without its preface": b"GET /seen HTTP/2.0\r\nHost: t\r\n\r\n",
    "a method in lower case": b"get /seen HTTP/1.1\r\nHost: t\r\n\r\n",
    "a tunnel": b"CONNECT t:80 HTTP/1.1\r\nHost: t\r\n\r\n",
    "a space in the target": b"GET /se en HTTP/1.1\r\nHost: t\r\n\r\n",
    "a target that is no path": b"GET seen HTTP/1.1\r\nHost: t\r\n\r\n",
    "a target for all": b"GET * HTTP/1.1\r\nHost: t\r\n\r\n",
    "another scheme": b"GET ftp://t/seen HTTP/1.1\r\nHost: t\r\n\r\n",
    "no Host": b"GET /seen HTTP/1.1\r\n\r\n",
    "two Hosts": HEAD + b"Host: u\r\n\r\n",
    "one Host twice": HEAD + b"Host: t\r\n\r\n",
    "two Hosts in HTTP/1.0": b"GET /seen HTTP/1.0\r\nHost: t\r\nHost: t\r\n\r\n",
    "no Host by the short way": b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two Hosts by the short way": b"POST / HTTP/1.1\r\nHost: t\r\nHost: t\r\nContent-Length: 0\r\n\r\n",
    "a list of Hosts": b"GET /seen HTTP/1.1\r\nHost: t, u\r\n\r\n",
    "a Host with a path": b"GET /seen HTTP/1.1\r\nHost: t/x\r\n\r\n",
    "a Host with a user": b"GET /seen HTTP/1.1\r\nHost: a@t\r\n\r\n",
    "a Host with a space": b"POST / HTTP/1.1\r\nHost: t u\r\nContent-Length: 0\r\n\r\n",
    "a Host that is folded": b"GET /seen HTTP/1.1\r\nHost: t\r\n u\r\n\r\n",
    "a URL with a user": b"GET http://a@t/seen HTTP/1.1\r\nHost: t\r\n\r\n",
    "a URL without a host": b"GET http:///seen HTTP/1.1\r\nHost: t\r\n\r\n",
    "a URL and no Host": b"GET http://t/seen HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_connection_closed(name: str):
    data = REFUSED[name]
    for pieces in ((data + HIDDEN,), (data[:20], data[20:] + HIDDEN), (data, HIDDEN)):
        taken, wire = talk(*pieces)
        assert taken == []
        assert len(statuses(wire)) == 1
        assert statuses(wire)[0] in (400, 501, 505), wire.took
        assert ended(wire)


def test_a_length_of_eighteen_exabytes_is_refused_at_once():
    """As S3 does (documented: ErrorResponses, EntityTooLarge); nothing is waited for."""
    taken, wire = talk(HEAD + b"Content-Length: 18446744073709551615\r\n\r\n")
    assert (taken, statuses(wire), ended(wire)) == ([], [400], True)
    assert b"<Code>EntityTooLarge</Code>" in wire.took
    target = b"X-Amz-Target: Kinesis_20131202.PutRecord\r\n"
    _, wire = talk(HEAD + target + b"Content-Length: 18446744073709551615\r\n\r\n")
    assert statuses(wire) == [413]
    assert b'"__type":"RequestEntityTooLargeException"' in wire.took


TAKEN = {
    "HTTP/1.0 without a Host": (b"GET /a HTTP/1.0\r\n\r\n", "/a", ""),
    "an empty Host": (b"GET /a HTTP/1.1\r\nHost:\r\n\r\n", "/a", ""),
    "a port": (b"GET /a HTTP/1.1\r\nHost: t:4566\r\n\r\n", "/a", "t:4566"),
    "an address": (b"GET /a HTTP/1.1\r\nHost: [::1]:4566\r\n\r\n", "/a", "[::1]:4566"),
    "a bucket": (b"GET /a HTTP/1.1\r\nHost: b_1.s3.localhost\r\n\r\n", "/a", "b_1.s3.localhost"),
    "a URL": (b"GET http://u:80/a?b HTTP/1.1\r\nHost: t\r\n\r\n", "/a", "u:80"),
    "a URL without a path": (b"GET http://u?b HTTP/1.1\r\nHost: t\r\n\r\n", "/", "u"),
    "a URL in a path": (b"GET /a://u/c HTTP/1.1\r\nHost: t\r\n\r\n", "/a://u/c", "t"),
    "options for all": (b"OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n", "*", "t"),
    "a blank line before": (b"\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n", "/a", "t"),
    "an offer of HTTP/2": (
        b"GET /a HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "/a",
        "t",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_allowed_is_taken(name: str):
    data, path, host = TAKEN[name]
    for pieces in ((data,), (data[:7], data[7:])):
        (request,), wire = talk(*pieces)
        assert (request.path, request.headers.get("host", "")) == (path, host)
        assert statuses(wire) == [200]
        assert ended(wire) is (b"HTTP/1.0" in data)


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
BODIES = {
    "none": (b"\r\n", b""),
    "with a length": (b"Content-Length: %d\r\n\r\n%b" % (len(HIDDEN), HIDDEN), HIDDEN),
    "in chunks": (CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), HIDDEN),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_client_that_offers_http2_goes_on_with_http1(name: str):
    """Its body is a body, and no request: the parser by itself stops before it."""
    rest, body = BODIES[name]
    first = HEAD + OFFER + rest
    for cut in range(1, len(first)):
        taken, wire = talk(first[:cut], first[cut:] + HIDDEN)
        assert [request.body for request in taken] == [body, b""]
        assert (taken[0].method, taken[0].path) == ("POST", "/seen")
        assert statuses(wire) == [200, 200]
        assert not ended(wire)


def test_an_offer_and_the_end_of_the_connection():
    taken, wire = talk(HEAD + OFFER[:21] + b"close\r\nUpgrade: h2c\r\n" + BODIES["in chunks"][0])
    assert [request.body for request in taken] == [HIDDEN]
    assert (statuses(wire), ended(wire)) == ([200], True)


def test_trailers_are_no_headers():
    """What the door and the service were shown must be what the request was (RFC 9110, 6.5.1)."""
    data = HEAD + CHUNKED + b"\r\n3\r\nabc\r\n0\r\nHost: evil\r\nX-Amz-Target: A.B\r\n\r\n"
    (request, hidden), wire = talk(data + HIDDEN)
    assert request.body == b"abc"
    assert request.headers == {"host": "t", "transfer-encoding": "chunked"}
    assert hidden.path == "/hidden"
    assert statuses(wire) == [200, 200]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_body_where_none_is_usual_is_read_as_one(method: str):
    data = f"{method} /a HTTP/1.1\r\nHost: t\r\nContent-Length: {len(HIDDEN)}\r\n\r\n".encode()
    (request, second), wire = talk(data + HIDDEN + HIDDEN)
    assert (request.method, request.body, second.path) == (method, HIDDEN, "/hidden")
    assert (b"echo GET /hidden" in wire.took) is (method != "HEAD")
    assert statuses(wire) == [200, 200]


WHOLE = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n"


def test_a_piece_of_a_body_that_looks_like_a_whole_request_is_body():
    head = HEAD + f"Content-Length: {2 * len(WHOLE)}\r\n\r\n".encode()
    (_, request), wire = talk(WHOLE, head, WHOLE, WHOLE)
    assert (request.path, request.body) == ("/seen", 2 * WHOLE)
    assert statuses(wire) == [200, 200]


def test_a_piece_of_a_head_that_looks_like_a_whole_request_is_head():
    (first,), wire = talk(WHOLE, HEAD + b"X: ", WHOLE)
    assert first.path == "/"
    assert statuses(wire) == [200, 400]  # it has two Hosts
    assert ended(wire)


def test_after_connection_close_nothing_is_taken():
    taken, wire = talk(HEAD + b"Connection: close\r\n\r\n" + HIDDEN, HIDDEN)
    assert [request.path for request in taken] == ["/seen"]
    assert statuses(wire) == [200]
    assert b"Connection: close" in wire.took
    assert ended(wire)


def test_an_answer_cannot_be_split_by_what_a_client_chose():
    """An object's metadata, or S3's response-content-type, may hold a line's end."""

    def handle(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, [("X-A", "a\r\nSet-Cookie: b\r\n\r\n<html>"), ("X-B", "c")], b"d")

    async def run(data: bytes) -> bytes:
        wire = Wire(server_at(handle, Path("/tmp")))
        wire.send(data)
        await settle(20)
        return wire.took

    came = asyncio.run(run(HEAD + b"\r\n"))
    head, _, body = came.partition(b"\r\n\r\n")
    assert b"\r\nX-A: a Set-Cookie: b <html>\r\nX-B: c\r\n" in head + b"\r\n"
    assert body == b"d"
    assert goaway_of(asyncio.run(run(HELLO + request2()))) is None


# --- HTTP/2 -----------------------------------------------------------------------------------

USUAL = [(":method", "POST"), (":scheme", "http"), (":path", "/a")]


def request2(*fields: tuple[str, str]) -> bytes:
    """Return a request's frame; without `fields` a good one."""
    block = encoded([*USUAL, *(fields or [(":authority", "t")])])
    return frame(HEADERS, block, flags=END_HEADERS | END_STREAM, stream=1)


@pytest.mark.parametrize(
    "fields",
    [
        [(":authority", "t"), ("host", "u")],
        [(":authority", "t"), (":authority", "t")],
        [(":authority", "t"), ("host", "t"), ("host", "t")],
        [("accept", "*/*")],  # neither of them
        [(":authority", "t"), ("transfer-encoding", "chunked")],
        [(":authority", "t"), ("connection", "close")],
        [(":authority", "t"), ("X-Upper", "1")],
        [(":authority", "t"), ("x", "a\r\nb: c")],
        [(":authority", "t"), ("x y", "a")],
        [(":authority", "t"), (":path", "/b")],
        [("accept", "*/*"), (":authority", "t")],
    ],
)
def test_over_http2_what_is_malformed_ends_the_connection(fields: list[tuple[str, str]]):
    taken, wire = talk(HELLO + request2(*fields))
    assert taken == []
    assert goaway_of(wire.took) == PROTOCOL_ERROR
    assert ended(wire)


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/a", [(":authority", "t, u")], b"400"),
        ("/a", [(":authority", "a@t")], b"400"),
        ("/a", [(":authority", "t"), ("content-length", "0"), ("content-length", "0")], b"400"),
        ("/a", [(":authority", "t"), ("content-length", "99999999999999")], b"400"),
        ("a", [(":authority", "t")], b"400"),
        ("http://u/a", [(":authority", "t")], b"400"),
        ("/a b", [(":authority", "t")], b"400"),
        ("/\xe9", [(":authority", "t")], b"400"),
        ("*", [(":authority", "t")], b"400"),
    ],
)
def test_over_http2_what_cannot_be_meant_is_refused(
    path: str, fields: list[tuple[str, str]], status: bytes
):
    block = encoded([(":method", "GET"), (":scheme", "http"), (":path", path), *fields])
    bad = frame(HEADERS, block, flags=END_HEADERS, stream=1)
    good = request2().replace(b"\0\0\0\1", b"\0\0\0\3", 1)
    taken, wire = talk(HELLO + bad + good)
    assert [request.path for request in taken] == ["/a"]
    assert goaway_of(wire.took) is None
    import hpack

    decoder = hpack.Decoder()
    heads = {
        f.stream: decoder.decode(f.payload, raw=True) for f in frames_of(wire.took) if f.kind == 1
    }
    assert heads[1][0] == (b":status", status)
    assert heads[3][0] == (b":status", b"200")
    assert body_of(wire.took, 3) == (b"echo ", True)
