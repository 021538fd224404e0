"""Who may speak on a function's Runtime API: its process, and no web page that tries this machine's ports."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from headrace.services.lambda_.runtime.channel import (
    Invocation,
    ReadyForInvocation,
    Responded,
    RuntimeChannel,
)


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
        assert channel.send(Invocation("r2", "arn", b"{}", "trace"), 7)
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
