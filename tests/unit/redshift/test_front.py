"""The front of a cluster's PostgreSQL: what it changes, what it passes on, and what it does not wait for."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.aws.server.tls import Tls
from headrace.services.redshift import front as front_module
from headrace.services.redshift.front import Front, without_redshift_parameters

HOST = "127.0.0.1"
_WAIT_S = 20


def first(code: int, rest: bytes = b"") -> bytes:
    return struct.pack("!ii", 8 + len(rest), code) + rest


def startup(*words: bytes) -> bytes:
    return first(196608, b"".join(word + b"\0" for word in words) + b"\0")


SSL, GSS, CANCEL = first(80877103), first(80877104), first(80877102, b"12345678")
PLAIN = startup(b"user", b"u", b"options", b"-c x=y")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as listening:
        listening.settimeout(_WAIT_S)
        yield listening


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path / "tls", lambda: HOST)


@pytest.fixture
def connect(server: socket.socket, tls: Tls) -> Iterator[Callable[[], socket.socket]]:
    listening = socket.create_server((HOST, 0))
    address = listening.getsockname()
    front = Front(listening, server.getsockname(), tls.context)
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection(address, timeout=_WAIT_S))
        return opened[-1]

    yield connect
    for client in opened:
        client.close()
    front.close()


def exactly(side: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (chunk := side.recv(count - len(data))):
        data += chunk
    return data


def accepted(server: socket.socket) -> socket.socket:
    side, _ = server.accept()
    side.settimeout(_WAIT_S)
    return side


@pytest.mark.parametrize(
    ("message", "passed"),
    [
        (PLAIN, PLAIN),
        (
            startup(
                b"user", b"u", b"database", b"d", b"application_name", b"os_version",
                b"client_protocol_version", b"2", b"driver_version", b"x", b"os_version", b"",
                b"driver_discovery_version", b"2", b"plugin_name", b"p",
            ),
            startup(b"user", b"u", b"database", b"d", b"application_name", b"os_version"),
        ),
        # What nobody knows is PostgreSQL's to refuse, and what is no message too.
        (startup(b"user", b"u", b"new_thing", b"1"), startup(b"user", b"u", b"new_thing", b"1")),
        (startup(), startup()),
        (first(196608), first(196608)),
        (first(196608, b"user"), first(196608, b"user")),
        (first(196608, b"user\0u\0os_version"), first(196608, b"user\0u\0os_version")),
        (first(196608, b"user\0u\0\0more\0"), first(196608, b"user\0u\0\0more\0")),
        (first(1 << 30, b"\xff\0\xfe\0\0"), first(1 << 30, b"\xff\0\xfe\0\0")),
    ],
)  # fmt: skip
def test_only_the_parameters_of_redshift_are_left_out(message: bytes, passed: bytes) -> None:
    assert without_redshift_parameters(message) == passed


def test_every_other_byte_passes_both_ways(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    client = connect()
    client.sendall(startup(b"user", b"u", b"os_version", b"x") + b"p and more")
    behind = accepted(server)
    assert exactly(behind, 26) == startup(b"user", b"u") + b"p and more"
    data = bytes(range(256)) * 4096
    behind.sendall(data)
    assert exactly(client, len(data)) == data
    # What the server sends last arrives, and its end too.
    behind.sendall(b"last")
    behind.close()
    assert exactly(client, 5) == b"last"


def test_a_clients_end_is_its_sessions_end(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    client = connect()
    client.sendall(PLAIN + b"X")
    client.close()
    behind = accepted(server)
    assert exactly(behind, len(PLAIN) + 2) == PLAIN + b"X"


@pytest.mark.parametrize("asked", [[], [GSS], [GSS, GSS]])
def test_gssapi_is_refused_and_the_client_goes_on(
    server: socket.socket, connect: Callable[[], socket.socket], asked: list[bytes]
) -> None:
    client = connect()
    for question in asked:
        client.sendall(question)
        assert exactly(client, 1) == b"N"
    client.sendall(PLAIN)
    assert exactly(accepted(server), len(PLAIN)) == PLAIN


@pytest.mark.parametrize(("before", "after"), [(b"", b""), (GSS, b""), (b"", GSS)])
def test_tls_ends_at_the_front(
    server: socket.socket,
    connect: Callable[[], socket.socket],
    tmp_path: Path,
    before: bytes,
    after: bytes,
) -> None:
    plain = connect()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "trusted.pem"))
    for question in filter(None, (before,)):
        plain.sendall(question)
        assert exactly(plain, 1) == b"N"
    plain.sendall(SSL)
    assert exactly(plain, 1) == b"S"
    with trusting.wrap_socket(plain, server_hostname="localhost") as client:
        for question in filter(None, (after,)):
            client.sendall(question)
            assert exactly(client, 1) == b"N"
        client.sendall(PLAIN)
        behind = accepted(server)
        assert exactly(behind, len(PLAIN)) == PLAIN
        large = bytes(range(256)) * 4096
        behind.sendall(large)
        assert exactly(client, len(large)) == large
        client.sendall(large)
        assert exactly(behind, len(large)) == large
        behind.close()
        assert client.recv(1) == b""


def test_bytes_before_the_handshake_are_not_taken_for_bytes_through_tls(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    client = connect()
    client.sendall(SSL + PLAIN)
    with contextlib.suppress(ConnectionResetError):
        assert b"received unencrypted data after SSL request" in exactly(client, 100)
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_a_broken_handshake_ends_its_connection_alone(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    client = connect()
    client.sendall(SSL)
    assert exactly(client, 1) == b"S"
    client.sendall(b"no handshake")
    with contextlib.suppress(ConnectionResetError):
        while client.recv(100):
            pass
    other = connect()
    other.sendall(PLAIN)
    assert exactly(accepted(server), len(PLAIN)) == PLAIN


def test_without_room_for_a_certificate_tls_is_refused(
    server: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> ssl.SSLContext:
        raise OSError(errno.ENOSPC, "No space left on device")

    listening = socket.create_server((HOST, 0))
    address = listening.getsockname()
    front = Front(listening, server.getsockname(), refuse)
    with socket.create_connection(address, timeout=_WAIT_S) as client:
        client.sendall(SSL)
        assert exactly(client, 1) == b"N"
        client.sendall(PLAIN)
        assert exactly(accepted(server), len(PLAIN)) == PLAIN
    front.close()
    assert "No space left on device" in caplog.text


def test_a_cancellation_is_passed_on(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    client = connect()
    client.sendall(CANCEL)
    behind = accepted(server)
    assert exactly(behind, len(CANCEL)) == CANCEL
    behind.close()
    assert exactly(client, 1) == b""


@pytest.mark.parametrize(
    "message",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03",
        struct.pack("!ii", 7, 196608),
        struct.pack("!ii", -1, 196608),
        struct.pack("!ii", 10_001, 196608),
    ],
)
def test_what_is_no_first_message_does_not_reach_the_server(
    server: socket.socket, connect: Callable[[], socket.socket], message: bytes
) -> None:
    client = connect()
    client.sendall(message)
    # Reset: the front closes with unread bytes.
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_endless_questions_end(connect: Callable[[], socket.socket]) -> None:
    client = connect()
    client.sendall(GSS * 3)
    assert exactly(client, 4) == b"NNN"


def test_a_silent_client_and_one_that_does_not_read_delay_nobody(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    connect().sendall(PLAIN[:5])
    connect().sendall(PLAIN)
    unread = accepted(server)
    unread.settimeout(2)
    # Every buffer is full: the front takes no more.
    with pytest.raises(TimeoutError):
        unread.sendall(bytes(1 << 28))
    client = connect()
    client.sendall(PLAIN)
    behind = accepted(server)
    assert exactly(behind, len(PLAIN)) == PLAIN
    behind.sendall(b"R")
    assert exactly(client, 1) == b"R"


def test_who_says_nothing_is_let_go(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[[], socket.socket]
) -> None:
    monkeypatch.setattr(front_module, "_FIRST_WITHIN_S", 0.05)
    client = connect()
    client.sendall(PLAIN[:5])
    assert client.recv(1) == b""


def test_one_client_too_many_gets_postgresqls_sentence(
    monkeypatch: pytest.MonkeyPatch, server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    monkeypatch.setattr(front_module, "_MOST_CLIENTS", 1)
    one = connect()
    one.sendall(PLAIN)
    behind = accepted(server)
    two = connect()
    assert b"C53300\0Msorry, too many clients already" in exactly(two, 100)
    # A place is free again when its client has gone.
    one.close()
    assert exactly(behind, len(PLAIN) + 1) == PLAIN
    behind.close()


def test_without_a_server_a_client_gets_a_sentence(
    server: socket.socket, connect: Callable[[], socket.socket]
) -> None:
    server.close()
    client = connect()
    client.sendall(PLAIN)
    assert b"C57P03\0Mthe database system is not up" in exactly(client, 100)


def test_a_front_that_closes_ends_its_clients(tls: Tls) -> None:
    with socket.create_server((HOST, 0)) as server:
        listening = socket.create_server((HOST, 0))
        address = listening.getsockname()
        front = Front(listening, server.getsockname(), tls.context)
        with socket.create_connection(address, timeout=_WAIT_S) as client:
            client.sendall(PLAIN)
            behind = accepted(server)
            assert exactly(behind, len(PLAIN)) == PLAIN
            front.close()
            assert client.recv(1) == b""
            assert behind.recv(1) == b""
