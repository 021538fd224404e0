"""Chained agents: Flume's Avro source and sink, by the protocol that Flume itself speaks.

Avro's IPC (documented: https://avro.apache.org/docs/1.11.1/specification/#protocol-wire-format) in the framing of its
NettyTransceiver: serial number, count of buffers, then each with its length; the first request of a connection begins
with a handshake. Observed with avro-ipc 1.8.2's own classes (tests/clients/test_flume_avro.py).
"""

from __future__ import annotations

import hashlib
import json
import logging
import socket
import struct
from collections.abc import Callable, Iterator

from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import ChannelFull, Event, SinkFailed
from headrace.agent.flume.intake import Counts, Intake
from headrace.agent.flume.socket_sources import TcpServer, receive
from headrace.agent.flume.tls import client_tls, server_tls
from headrace.agent.properties import Section
from headrace.client.aggregation import varint
from headrace.core.clock import Clock

PROTOCOL = json.dumps({
    "protocol": "AvroSourceProtocol", "namespace": "org.apache.flume.source.avro",
    "types": [
        {"type": "enum", "name": "Status", "symbols": ["OK", "FAILED", "UNKNOWN"]},
        {"type": "record", "name": "AvroFlumeEvent", "fields": [
            {"name": "headers", "type": {"type": "map", "values": "string"}}, {"name": "body", "type": "bytes"}]},
    ],
    "messages": {
        "append": {"request": [{"name": "event", "type": "AvroFlumeEvent"}], "response": "Status"},
        "appendBatch": {
            "request": [{"name": "events", "type": {"type": "array", "items": "AvroFlumeEvent"}}], "response": "Status"
        },
    },
})  # fmt: skip
_HASH = hashlib.md5(PROTOCOL.encode(), usedforsecurity=False).digest()
_HEAD, _LENGTH = struct.Struct(">iI"), struct.Struct(">I")
_OK, _FAILED = 0, 1
_BOTH = 0
_NO_META = b"\x00"
MOST_REQUEST_BYTES, _MOST_BUFFERS = 64 << 20, 1 << 16
_LOG = logging.getLogger("headrace.agent")


class BadAvro(Exception):
    """The other side does not speak the protocol. The message is one sentence."""


def _long(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _event(event: Event) -> bytes:
    parts = [_long(len(event.headers))] if event.headers else []
    for name, value in event.headers.items():
        parts += [_bytes(name.encode()), _bytes(value.encode())]
    return b"".join([*parts, b"\x00", _bytes(event.body)])


class _Reader:
    """Avro's binary values. Raises BadAvro when they end too soon or are none."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fixed(self, count: int) -> bytes:
        value = self._data[self._at : self._at + count]
        if count < 0 or len(value) < count:
            raise BadAvro("a request ends too soon")
        self._at += count
        return value

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise BadAvro("a number is too long")

    def bytes_(self) -> bytes:
        return self.fixed(self.long())

    def text(self) -> str:
        try:
            return self.bytes_().decode()
        except UnicodeDecodeError as error:
            raise BadAvro("a text is not UTF-8") from error

    def items(self) -> Iterator[None]:
        """Yield once for each item of an array or a map, which the caller then reads."""
        while count := self.long():
            if count < 0:
                self.long()
            for _ in range(abs(count)):
                yield

    def optional(self, read: Callable[[], object]) -> None:
        """Pass over a value that may be null."""
        if self.long():
            read()

    def meta(self) -> None:
        for _ in self.items():
            self.text()
            self.bytes_()

    def event(self) -> Event:
        headers = {self.text(): self.text() for _ in self.items()}
        return Event(headers, self.bytes_())


def _frame(serial: int, data: bytes) -> bytes:
    return _HEAD.pack(serial, 1) + _LENGTH.pack(len(data)) + data


class _Connection:
    """Frames of one connection. For one thread."""

    def __init__(self, receive_part: Callable[[], bytes]) -> None:
        self._receive, self._data = receive_part, bytearray()

    def _exactly(self, count: int) -> bytes:
        while len(self._data) < count:
            part = self._receive()
            if not part:
                raise EOFError
            self._data += part
        value = bytes(self._data[:count])
        del self._data[:count]
        return value

    def frame(self) -> tuple[int, bytes]:
        """Return a frame's serial number and its bytes. Raises EOFError, BadAvro, and what receiving raises."""
        serial, count = _HEAD.unpack(self._exactly(_HEAD.size))
        if count > _MOST_BUFFERS:
            raise BadAvro(f"a request has {count} buffers")
        parts: list[bytes] = []
        size = 0
        for _ in range(count):
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            size += length
            if size > MOST_REQUEST_BYTES:
                raise BadAvro(f"a request has more than {MOST_REQUEST_BYTES} bytes")
            parts.append(self._exactly(length))
        return serial, b"".join(parts)


class AvroSource:
    """Takes the events of Flume's Avro sinks, RPC clients and Log4j appenders, a transaction for each request."""

    ends = False

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys and bind. Raises ConfigurationError, OSError."""
        del clock
        self._intake = intake
        _refuse_compression(section)
        tls = server_tls(section)
        if section.flag("ipFilter", default=False):
            raise section.error("ipFilter", f"ipFilter of {section.owner} is not built")
        section.ignore("threads", "ipFilterRules")
        self.server = TcpServer(
            section.text("bind"), [section.number("port", most=65_535)], self._serve, tls
        )

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        self.server.run(self._intake.stop)

    def _serve(self, client: socket.socket, port: int) -> None:
        connection = _Connection(lambda: receive(client, self._intake.stop))
        is_connected = False
        while True:
            try:
                serial, request = connection.frame()
                reader = _Reader(request)
                handshake = b"" if is_connected else _read_handshake(reader)
                client.sendall(_frame(serial, handshake + self._answer(reader)))
                is_connected = True
            except EOFError:
                return
            except BadAvro as error:
                _LOG.error(
                    "source %s: port %d: %s; its client is left", self._intake.name, port, error
                )
                return

    def _answer(self, reader: _Reader) -> bytes:
        reader.meta()
        message = reader.text()
        if message == "append":
            events = [reader.event()]
        elif message == "appendBatch":
            events = [reader.event() for _ in reader.items()]
        else:
            return _NO_META + b"\x01" + _long(0) + _bytes(f"there is no message {message}".encode())
        try:
            self._intake.put(events)
        except ChannelFull as error:
            self._intake.counts.failures += 1
            _LOG.warning("source %s: %s", self._intake.name, error)
            return _NO_META + b"\x00" + _long(_FAILED)
        return _NO_META + b"\x00" + _long(_OK)


def _read_handshake(reader: _Reader) -> bytes:
    """Pass over a client's handshake, and return the answer: that its protocol is ours too."""
    reader.fixed(16)
    reader.optional(reader.text)
    reader.fixed(16)
    reader.optional(reader.meta)
    # No protocol, no hash, no meta: the client keeps its own.
    return _long(_BOTH) + _long(0) + _long(0) + _long(0)


def _refuse_compression(section: Section) -> None:
    if section.choice("compression-type", ("none", "deflate"), "none") != "none":
        raise section.error("compression-type", f"compression-type of {section.owner} is not built")
    section.ignore("compression-level")


class AvroSink:
    """Sends events to another agent's Avro source. For one thread."""

    def __init__(self, section: Section, channel: MemoryChannel) -> None:
        """Take the keys. Raises ConfigurationError."""
        self.channel, self.counts = channel, Counts()
        self._address = section.text("hostname"), section.number("port", least=1, most=65_535)
        self._batch = section.number("batch-size", 100, least=1)
        self._connect_s = section.number("connect-timeout", 20_000, least=1) / 1000
        self._request_s = section.number("request-timeout", 20_000, least=1) / 1000
        _refuse_compression(section)
        self._tls = client_tls(section)
        section.ignore("reset-connection-interval", "maxIoWorkers", "maxConnections", "backoff")
        self._socket: socket.socket | None = None
        self._connection: _Connection | None = None
        self._serial = 0

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        try:
            self._request(_long(len(taken.events)) + b"".join(map(_event, taken.events)) + b"\x00")
        except (OSError, EOFError, BadAvro) as error:
            self.close()
            self.channel.rollback(taken)
            host, port = self._address
            raise SinkFailed(f"{host} port {port}: {error or type(error).__name__}") from error
        self.channel.commit(taken)
        self.counts.add(taken.events)
        return True

    def _request(self, events: bytes) -> None:
        """Send a batch, and return once the other agent's channel has it. Raises OSError, EOFError, BadAvro."""
        handshake = b""
        if self._socket is None:
            self._socket = client = socket.create_connection(self._address, self._connect_s)
            if self._tls is not None:
                self._socket = client = self._tls.wrap_socket(client)
            client.settimeout(self._request_s)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection = _Connection(lambda: client.recv(1 << 16))
            handshake = _HASH + _long(1) + _bytes(PROTOCOL.encode()) + _HASH + _long(0)
        assert self._connection is not None
        self._serial += 1
        self._socket.sendall(
            _frame(self._serial, handshake + _NO_META + _bytes(b"appendBatch") + events)
        )
        serial, answer = self._connection.frame()
        if serial != self._serial:
            raise BadAvro(f"the answer {serial} came for the request {self._serial}")
        reader = _Reader(answer)
        if handshake:
            if reader.long() > 1:
                raise BadAvro("the other side does not know Flume's protocol")
            for read in (reader.text, lambda: reader.fixed(16), reader.meta):
                reader.optional(read)
        reader.meta()
        if reader.fixed(1) != b"\x00":
            reader.long()
            raise BadAvro(f"the other agent answers: {reader.text()}")
        if reader.long() != _OK:
            raise BadAvro("the other agent's channel did not take the events")

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = self._connection = None
