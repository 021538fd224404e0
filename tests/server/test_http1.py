"""The short way through HTTP/1.1 is the long way: one piece or many, the same request is taken, or none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.usual_request import KeptHead, usual_request
from tests.support.wire import Wire, server_at, settle


def taken(*pieces: bytes) -> tuple[list[HttpRequest], bool]:
    """Return the requests that were taken, and whether the connection goes on."""
    requests: list[HttpRequest] = []

    def handle(request: HttpRequest) -> HttpResponse:
        request.head = request.fields()  # the same of both readers
        requests.append(request)
        return HttpResponse(200)

    async def talk() -> bool:
        wire = Wire(server_at(handle, Path("/tmp")))
        for piece in pieces:
            wire.send(piece)
            await settle(3)
        return wire.closed or wire.sent_eof

    return requests, asyncio.run(talk())


NAMES = st.one_of(
    st.sampled_from(
        [
            "Content-Type",
            "X-Amz-Target",
            "x-amz-target",
            "Host",
            "Authorization",
            "Expect",
            "Connection",
            "Upgrade",
            "Transfer-Encoding",
            "Content-Length",
        ]
    ),
    st.text(alphabet="abcXYZ-_!#:(\t\x01\xe9", max_size=8),
)
VALUES = st.one_of(
    st.sampled_from(
        ["", " ", "application/x-amz-json-1.1", "close", "chunked", "100-continue", "a:80", "a b"]
    ),
    st.text(alphabet=[chr(code) for code in range(256)], max_size=12),
)
BODIES = st.binary(max_size=40)
STARTS = st.sampled_from(
    [
        *("POST /", "GET /", "PUT /a-b/c.d~e_f", "GET /a/../b//c", "POST /a?b=c&d", "GET /a?", "PUT /a?b?c"),
        *("GET /a%20b", "GET /a?x=%2f+:", "GET /a#b", "GET /\xe9", "GET /a b", "HEAD /a", "DELETE /a"),
        *("GET a", "GET *", "PUT  /a", "get /a", "GET http://t/a", "POST //t/a?b"),
    ]
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), BODIES, st.integers(-2, 2), st.data())
@example([("Host", "t")], b"", 0, None)
@example([("Host", "t"), ("X:", "")], b"", 0, None)
@example([("Host", "t"), ("X", "a \t")], b"", 0, None)
@example([], b"", 0, None)
@example([("Host", "t"), ("Host", "t")], b"", 0, None)
@example([("Host", "a,b")], b"", 0, None)
def test_one_piece_or_two(
    headers: list[tuple[str, str]], body: bytes, off: int, data: st.DataObject | None
):
    if data and data.draw(st.booleans()):
        headers = [("Host", "t"), *headers]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    length = max(0, len(body) + (off if data and data.draw(st.booleans()) else 0))
    start = data.draw(STARTS) if data else "POST /"
    says_length = data is None or data.draw(st.booleans())
    lines += f"Content-Length: {length}\r\n" if says_length else ""
    head = f"{start} HTTP/1.1\r\n{lines}\r\n"
    whole = head.encode("latin-1") + body
    cut = data.draw(st.integers(1, len(whole) - 1)) if data else 5
    assert taken(whole) == taken(whole[:cut], whole[cut:])


LINES = st.sampled_from(
    [
        "Host: t",
        "host: u",
        "X-Amz-Target: A.B",
        "X-Amz-Target: A.C",
        "User-Agent: sdk",
        "Authorization: a",
        "Authorization: b",
        "Authorization: a b=c,\td",
        "Authorization: \xe9",
        "X-Amz-Date: 1",
        "X-Amz-Date: 1 \t",
        "X-Amz-Date:1",
        "X-Amz-Date: ",
        "Connection: close",
        "Expect: 100-continue",
        "no field",
        "X: \x01",
        "Y: \xe9",
    ]
)
HEADS = st.lists(LINES, max_size=6).map(
    lambda lines: "".join(f"{line}\r\n" for line in ["Host: t", *lines])
)


@settings(max_examples=300)
@given(st.lists(st.tuples(STARTS, HEADS, BODIES), min_size=2, max_size=4))
def test_what_is_kept_of_a_head_changes_no_request(sent: list[tuple[str, str, bytes]]):
    kept = KeptHead()
    for start, lines, body in sent:
        head = f"{start} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        data = head.encode("latin-1") + body
        assert usual_request(data, kept) == usual_request(data)


def test_a_second_head_is_parsed_from_the_first_field_that_varies():
    begin = b"Host: t\r\nX-Amz-Target: A.B\r\n"
    kept = KeptHead()
    for start, date in ((b"POST /", b"1"), (b"POST /", b"2"), (b"PUT /other", b"3")):
        data = (
            start
            + b" HTTP/1.1\r\n"
            + begin
            + b"X-Amz-Date: "
            + date
            + b"\r\nContent-Length: 0\r\n\r\n"
        )
        request = usual_request(data, kept)
        assert request is not None
        assert request.headers["x-amz-date"] == date.decode()
        assert kept.begin == begin
        assert kept.cut is not None
        assert kept.cut(f"X-Amz-Date: {date.decode()}\r\nContent-Length: 0") is not None


def test_a_head_of_other_names_makes_no_pattern():
    kept = KeptHead()
    head = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\nX-Any: 1\r\n\r\n"
    assert usual_request(head, kept) == usual_request(head, kept) == usual_request(head)
    assert kept.cut is None


@pytest.mark.parametrize("cut", [None, 30])
def test_header_fields_are_kept_as_the_client_wrote_them(cut: int | None):
    data = b"GET /x HTTP/1.1\r\nHost: t\r\nX-API-Key: a\r\nx-LOWER:  b \r\n\r\n"
    ((request,), _) = taken(*([data] if cut is None else [data[:cut], data[cut:]]))
    assert request.fields() == [("Host", "t"), ("X-API-Key", "a"), ("x-LOWER", "b")]
    assert request.headers == {"host": "t", "x-api-key": "a", "x-lower": "b"}
    twice = data.replace(b"x-LOWER", b"X-Api-key")
    ((request,), _) = taken(twice)
    assert request.fields()[1:] == [("X-API-Key", "a"), ("X-Api-key", "b")]
    assert request.headers["x-api-key"] == "a,b"


def test_what_sdks_send_takes_the_short_way(monkeypatch: pytest.MonkeyPatch):
    fields = b" HTTP/1.1\r\nHost: t\r\nX-Amz-Target: A.B\r\nContent-Length: 2\r\n\r\n"
    monkeypatch.setattr("httptools.HttpRequestParser", lambda _: None)  # any use of it fails
    headers = {"host": "t", "x-amz-target": "A.B", "content-length": "2"}
    requests, ended = taken(
        b"POST /" + fields + b"{}",
        # Many clients send the body by itself.
        b"PUT /bucket/key?x-id=PutObject" + fields,
        b"{}",
        b"GET /bucket/key HTTP/1.1\r\nHost: t\r\n\r\n",
    )
    assert not ended
    members = [(r.method, r.path, r.query, r.headers, r.body) for r in requests]
    assert members == [
        ("POST", "/", "", headers, b"{}"),
        ("PUT", "/bucket/key", "x-id=PutObject", headers, b"{}"),
        ("GET", "/bucket/key", "", {"host": "t"}, b""),
    ]


def test_short_and_long_ways_follow_one_another():
    head = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n"
    pieces = [head + b"1", head, b"2", head + b"3", head + b"4" + head, b"5", head + b"6"]
    pieces += [head, b"7" + head, b"8"]
    requests, ended = taken(*pieces)
    assert [int(request.body) for request in requests] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not ended


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_small_body_comes_in_pieces_and_late(looks: int):
    """What waits for a body's end is the parser's once the server has looked, and at the body's second piece."""
    bodies: list[bytes] = []

    def handle(request: HttpRequest) -> HttpResponse:
        bodies.append(request.body)
        return HttpResponse(200)

    async def talk() -> None:
        server = server_at(handle, Path("/tmp"))
        wire = Wire(server)
        wire.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\n")
        for piece in (b"1", b"2", b"34POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n"):
            assert not bodies
            for _ in range(looks):
                server.look(1.0)
            wire.send(piece)
            await settle(3)
        assert not wire.closed

    asyncio.run(talk())
    assert bodies == [b"1234", b""]
