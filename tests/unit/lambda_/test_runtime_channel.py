"""Who may speak on a function's Runtime API: its process, and no web page that tries this machine's ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.lambda_.runtime.channel import (
    READ_BYTES,
    RuntimeChannel,
    RuntimeConnection,
    Wait,
)
from headrace.services.lambda_.runtime.messages import (
    Invocation,
    Message,
    ProcessEnded,
    ReadyForInvocation,
    Responded,
)
from headrace.services.lambda_.runtime.steps import Steps, take_step, watch


@pytest.fixture
def channel() -> Iterator[RuntimeChannel]:
    made = RuntimeChannel(lambda _: None)
    yield made
    made.close()


def said(channel: RuntimeChannel, *headers: str) -> bool:
    """Ask for the next invocation; return whether the function is taken to be ready."""
    host, _, port = channel.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as asking:
        lines = "".join(f"{header}\r\n" for header in headers)
        asking.sendall(f"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\n{lines}\r\n".encode())
        # The connection comes, then the request.
        messages = [message for _ in range(2) for message in channel.poll(5.0)]
        heard = any(isinstance(message, ReadyForInvocation) for message in messages)
        assert heard or asking.recv(1) == b""  # it was hung up
        return heard


def test_the_functions_process_is_heard(channel: RuntimeChannel):
    assert said(channel, f"Host: {channel.address}", "User-Agent: awslambdaric")


@pytest.mark.parametrize(
    "header",
    ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Host: evil.example",
     "Host: 127.0.0.1.evil.example"],
)  # fmt: skip
def test_a_web_page_is_not(channel: RuntimeChannel, header: str):
    hosts = [] if header.startswith("Host") else [f"Host: {channel.address}"]
    assert not said(channel, *hosts, header)
    assert not channel.ready


def test_what_a_process_sends_in_one_write_is_answered_in_one(channel: RuntimeChannel):
    host, _, port = channel.address.partition(":")
    head = f"HTTP/1.1\r\nHost: {channel.address}\r\n"
    with socket.create_connection((host, int(port)), timeout=5) as process:
        process.sendall(
            f"POST /2018-06-01/runtime/invocation/r1/response {head}Content-Length: 4\r\n\r\nnull"
            f"GET /2018-06-01/runtime/invocation/next {head}\r\n".encode()
        )
        messages = [message for _ in range(2) for message in channel.poll(5.0)]
        assert messages == [Responded("r1", b"null"), ReadyForInvocation()]
        process.setblocking(False)
        with pytest.raises(BlockingIOError):
            process.recv(1)
        process.settimeout(5)
        assert channel.send(Invocation("r2", "arn", b"{}", "trace"), 7) == b""
        both = process.recv(4096)
        assert both.startswith(b"HTTP/1.1 202 Accepted\r\n")
        assert b'{"status":"OK"}HTTP/1.1 200 OK\r\n' in both


def test_a_process_that_never_stops_writing_is_read_in_part(
    channel: RuntimeChannel, monkeypatch: pytest.MonkeyPatch
):
    output, write_end = os.pipe()
    channel.attach(output=output, end_signal=None)
    monkeypatch.setattr(os, "read", lambda _fd, _size: b"line\n")
    channel.drain_output()
    os.close(write_end)


def test_a_brief_look_does_not_pass_over_what_a_process_said_last(channel: RuntimeChannel):
    body = b"1" * 100_000

    def hear() -> Steps[list[Message]]:
        # No messages are silence to the steps, and the silence of a process that has ended is its failure.
        return (yield Wait(channel, 0.0))

    output, write_end = os.pipe()
    end, ended = os.pipe()
    channel.attach(output=output, end_signal=end)
    steps = hear()
    wait = next(steps)
    with connected(channel) as process:
        process.sendall(
            f"POST /2018-06-01/runtime/invocation/r1/response HTTP/1.1\r\nHost: {channel.address}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        os.close(ended)
        assert take_step(steps, wait, briefly=True) is wait
        with pytest.raises(StopIteration) as heard:
            take_step(steps, wait)
    assert heard.value.value == [Responded("r1", body), ProcessEnded()]
    os.close(write_end)
    os.close(end)


def test_an_answer_that_cannot_be_made_keeps_nobody_waiting() -> None:
    def run_nothing() -> Steps[Any]:
        return None
        yield

    def fail(_: Any) -> None:
        raise ValueError("no answer")

    async def invoke() -> BaseException | None:
        return watch(run_nothing(), fail).exception()

    assert str(asyncio.run(invoke())) == "no answer"


def connected(channel: RuntimeChannel) -> socket.socket:
    host, _, port = channel.address.partition(":")
    process = socket.create_connection((host, int(port)), timeout=5)
    channel.poll(5.0)
    return process


def serve(channel: RuntimeChannel, process: socket.socket, sent: bytes) -> bool:
    """Let a process send, and serve it; return whether it is connected still."""
    process.setblocking(False)
    with contextlib.suppress(BlockingIOError, ConnectionError):
        process.send(sent)
    channel.poll(1.0, briefly=True)
    return bool(channel._connections)


def test_a_process_that_does_not_read_its_replies_is_hung_up_on_without_a_wait(
    channel: RuntimeChannel, monkeypatch: pytest.MonkeyPatch
):
    waits: list[float | None] = []
    monkeypatch.setattr(socket.socket, "settimeout", lambda _, seconds: waits.append(seconds))
    asked = f"GET /none HTTP/1.1\r\nHost: {channel.address}\r\n\r\n".encode() * 1000
    with connected(channel) as process:
        rounds = 0
        while serve(channel, process, asked):
            rounds += 1
            assert rounds < 10_000
    assert waits == [] or set(waits) <= {5}


def test_a_process_that_waits_and_asks_on_is_hung_up_on(channel: RuntimeChannel):
    head = f"HTTP/1.1\r\nHost: {channel.address}\r\n\r\n"
    with connected(channel) as process:
        assert serve(channel, process, f"GET /2018-06-01/runtime/invocation/next {head}".encode())
        rounds = 0
        while serve(channel, process, f"GET /none {head}".encode() * 100):
            rounds += 1
            assert rounds < 1000
    assert not channel.ready


def test_an_event_that_does_not_fit_into_the_socket_is_sent_in_two_parts(channel: RuntimeChannel):
    head = f"HTTP/1.1\r\nHost: {channel.address}\r\n\r\n"
    payload = b"1" * (16 << 20)
    with connected(channel) as process:
        serve(channel, process, f"GET /2018-06-01/runtime/invocation/next {head}".encode())
        rest = channel.send(Invocation("r", "arn", payload, "trace"), 7)
        assert rest
        sending = threading.Thread(target=channel.send_rest, args=(rest,))
        sending.start()
        process.settimeout(5)
        taken = b""
        while not taken.endswith(payload):
            taken += process.recv(1 << 20)
        sending.join()


def test_a_brief_look_leaves_what_takes_long(channel: RuntimeChannel):
    output, write_end = os.pipe()
    end, ended = os.pipe()
    channel.attach(output=output, end_signal=end)
    head = f"HTTP/1.1\r\nHost: {channel.address}\r\n"
    with connected(channel) as process:
        process.sendall(
            f"POST /2018-06-01/runtime/invocation/r/response {head}Content-Length: 300000\r\n\r\n".encode()
            + b"1" * 300_000
        )
        assert channel.poll(5.0, briefly=True) == []
        assert channel.is_busy
        messages: list[Message] = []
        while not messages:
            messages = channel.poll(5.0)
        assert messages == [Responded("r", b"1" * 300_000)]
        assert not channel.is_busy
    while channel._connections:
        channel.poll(5.0)
    os.write(write_end, b"x" * 65536)
    assert not channel.drain_output(briefly=True)
    assert channel.drain_output()
    os.write(ended, b"x")
    assert channel.poll(5.0, briefly=True) == []
    assert channel.is_busy
    assert channel.poll(5.0) == [ProcessEnded()]
    for descriptor in (write_end, end, ended):
        os.close(descriptor)


# --- a response and the next question in one piece --------------------------------------------------

IDS = st.text("abc-_9", min_size=1, max_size=8)
TYPES = st.sampled_from(["application/json", "text/html; charset=utf-8", "", "a\tb", "é"])
BODIES = st.binary(max_size=40) | st.just(
    b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\n\r\n"
)


@given(
    IDS,
    TYPES,
    BODIES,
    st.sampled_from([0, 0, 0, -1, 1]),
    st.sampled_from(["next", "next", "other", ""]),
    st.booleans(),
)
def test_a_round_is_read_as_the_parser_reads_it(
    request_id: str, content_type: str, body: bytes, more: int, then: str, is_here: bool
):
    host = "127.0.0.1:7" if is_here else "localhost:7"
    head = (
        f"POST /2018-06-01/runtime/invocation/{request_id}/response HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {max(len(body) + more, 0)}\r\n\r\n"
    ).encode("latin-1", "replace")
    question = f"GET /2018-06-01/runtime/invocation/{then} HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n"
    data = head + body + (question.encode() if then else b"")
    assert heard(data, len(data)) == heard(data, 1) == heard(data, 50)


def heard(data: bytes, piece_bytes: int) -> tuple[list[Message], bytes]:
    """Return what a process says that sends `data` in pieces, and what waits for it."""
    channel = RuntimeChannel(lambda _: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection = RuntimeConnection(ours)
        for start in range(0, len(data), piece_bytes):
            theirs.sendall(data[start : start + piece_bytes])
            if not connection.receive(READ_BYTES):
                break
        channel._connections.add(connection)
        theirs.shutdown(socket.SHUT_WR)
        for item in connection.take():
            channel._hear(connection, item)
        messages, unsent = channel._messages, connection.unsent
    channel.close()
    return messages, unsent


def test_a_process_that_answers_is_heard_before_the_rest_is_looked_at(channel: RuntimeChannel):
    head = f"HTTP/1.1\r\nHost: {channel.address}\r\n"
    with connected(channel) as process:
        serve(channel, process, f"GET /2018-06-01/runtime/invocation/next {head}\r\n".encode())
        assert channel.send(Invocation("r", "arn", b"{}", "trace"), 7) == b""
        process.settimeout(5)
        process.recv(4096)
        other = connected_later(channel)
        process.sendall(
            f"POST /2018-06-01/runtime/invocation/r/response {head}Content-Length: 1\r\n\r\n1".encode()
        )
        assert channel.poll(5.0, briefly=True) == [Responded("r", b"1")]
        assert len(channel._connections) == 1
        channel.poll(5.0)
        assert len(channel._connections) == 2
        other.close()


def connected_later(channel: RuntimeChannel) -> socket.socket:
    """Return a connection that the channel has not accepted yet."""
    host, _, port = channel.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=5)
