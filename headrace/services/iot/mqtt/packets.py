"""MQTT's packets, versions 3.1.1 and 5: bytes to values and back. It knows no session and no socket.

Sources: the OASIS standards (docs.oasis-open.org/mqtt/mqtt/v3.1.1, .../v5.0). A packet of QoS 2 is read as far as its
QoS, since AWS ends such a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

V3, V5 = 4, 5
CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = 8, 9, 10, 11
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14

# Properties of MQTT 5, by their numbers.
EXPIRY_S, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, SUBSCRIPTION_ID = 2, 3, 8, 9, 11
SESSION_EXPIRY_S, ASSIGNED_ID, KEEP_ALIVE_S, WILL_DELAY_S, REASON = 17, 18, 19, 24, 31
RECEIVE_MAXIMUM, ALIAS_MAXIMUM, ALIAS, MAXIMUM_QOS, RETAIN_AVAILABLE = 33, 34, 35, 36, 37
USER, LARGEST_PACKET, WILDCARDS, IDS_AVAILABLE, SHARED = 38, 39, 40, 41, 42
FORMAT = 1
# The largest packet that MQTT has.
MOST_PACKET_BYTES = 268_435_455 + 5
# A protocol error in each packet that has them: 0 in these, and what is neither 0 nor 1 in those.
_NOT_ZERO = (RECEIVE_MAXIMUM, LARGEST_PACKET, SUBSCRIPTION_ID)
_TRUTH = (FORMAT, 23, 25)
# The properties that a message takes from its publisher to its subscribers.
OF_MESSAGES = (FORMAT, EXPIRY_S, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, USER)

Properties = Mapping[int, Any]
_NONE: Properties = {}


class MqttError(Exception):
    """What ends a connection: a reason code of MQTT 5, and a sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


MALFORMED, PROTOCOL, NOT_AUTHORIZED, TAKEN_OVER = 0x81, 0x82, 0x87, 0x8E
BAD_FILTER, BAD_TOPIC, BAD_ALIAS, TOO_LARGE = 0x8F, 0x90, 0x94, 0x95
QUOTA, NO_QOS, UNSPECIFIED, SERVER_BUSY, BAD_ID = 0x97, 0x9B, 0x80, 0x89, 0x85
BAD_VERSION, KEEP_ALIVE, SHUTTING_DOWN, NOT_IMPLEMENTED = 0x84, 0x8D, 0x8B, 0x83


@dataclass(frozen=True, slots=True)
class Publish:
    """A message as it travels. `packet_id` is 0 at QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    is_repeated: bool = False
    packet_id: int = 0
    properties: Properties = field(default_factory=dict[int, Any])


@dataclass(frozen=True, slots=True)
class Connect:
    """What a client says first."""

    version: int
    client_id: str
    is_clean: bool
    keep_alive_s: int
    will: Publish | None
    properties: Properties
    username: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """PUBACK: the subscriber has a message."""

    packet_id: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The filters that a client asks for, each with its options' byte."""

    packet_id: int
    filters: tuple[tuple[str, int], ...]
    properties: Properties


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The filters that a client no longer asks for."""

    packet_id: int
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """The client is alive."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The client leaves: in MQTT 5 with code 4 its will is published all the same."""

    code: int
    properties: Properties


Packet = Connect | Publish | Acknowledge | Subscribe | Unsubscribe | Ping | Disconnect


class PacketReader:
    """Cuts a client's bytes into packets. Not thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        """Take the largest packet that is read."""
        self._most_bytes = most_bytes
        self._held = bytearray()
        self.version = 0

    @property
    def has_begun(self) -> bool:
        """Whether any byte has come."""
        return bool(self.version or self._held)

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that are complete. Raises MqttError."""
        held = self._held
        held += data
        packets: list[Packet] = []
        at = 0
        while len(held) - at >= 2:
            length, start = self._length(at + 1)
            if start < 0:
                break
            if length > self._most_bytes:
                raise MqttError(
                    TOO_LARGE, f"a packet has {length} bytes, more than {self._most_bytes}"
                )
            if len(held) < start + length:
                break
            body = bytes(held[start : start + length])
            packets.append(self._packet(held[at], body))
            at = start + length
        del held[:at]
        return packets

    def _length(self, at: int) -> tuple[int, int]:
        """Return the remaining length and where the body starts; (0, -1) when bytes are missing."""
        length = 0
        for step in range(4):
            if at + step >= len(self._held):
                return 0, -1
            byte = self._held[at + step]
            length |= (byte & 0x7F) << (7 * step)
            if not byte & 0x80:
                return length, at + step + 1
        raise MqttError(MALFORMED, "a packet's length has more than four bytes")

    def _packet(self, first: int, body: bytes) -> Packet:
        kind, flags = first >> 4, first & 0x0F
        if (self.version == 0) != (kind == CONNECT):
            raise MqttError(PROTOCOL, "CONNECT comes first, and once")
        parse = _PARSERS.get(kind)
        if parse is None:
            raise MqttError(PROTOCOL, f"a client sends no packet of type {kind}")
        if kind != PUBLISH and flags != _FLAGS.get(kind, 0):
            raise MqttError(MALFORMED, f"a packet of type {kind} has the flags {flags}")
        packet = parse(_Fields(body), self.version, flags)
        if isinstance(packet, Connect):
            self.version = packet.version
        return packet


class _Fields:
    """Reads the fields of a packet's body. Raises MqttError when it ends too early."""

    __slots__ = ("_body", "at")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 0

    @property
    def is_left(self) -> bool:
        return self.at < len(self._body)

    def take(self, count: int) -> bytes:
        taken = self._body[self.at : self.at + count]
        if len(taken) < count:
            raise MqttError(MALFORMED, "a packet ends inside a field")
        self.at += count
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._body) - self.at)

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def data(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        try:
            text = self.data().decode()
        except UnicodeDecodeError as error:
            raise MqttError(MALFORMED, "a text is not UTF-8") from error
        if "\x00" in text:
            raise MqttError(MALFORMED, "a text has a null character")
        return text

    def varint(self) -> int:
        value = 0
        for step in range(4):
            byte = self.number(1)
            value |= (byte & 0x7F) << (7 * step)
            if not byte & 0x80:
                return value
        raise MqttError(MALFORMED, "a number has more than four bytes")

    def properties(self, version: int) -> dict[int, Any]:
        """Read MQTT 5's properties; nothing in 3.1.1. User properties are a list of pairs."""
        values: dict[int, Any] = {}
        if version < V5:
            return values
        end = self.varint() + self.at
        while self.at < end:
            number = self.number(1)
            read = _READERS.get(number)
            if read is None:
                raise MqttError(MALFORMED, f"MQTT has no property {number}")
            value = read(self)
            if number in _NOT_ZERO and not value:
                raise MqttError(PROTOCOL, f"the property {number} is 0")
            if number in _TRUTH and value > 1:
                raise MqttError(PROTOCOL, f"the property {number} is neither 0 nor 1")
            if number == USER:
                values.setdefault(USER, []).append(value)
            elif number in values:
                raise MqttError(PROTOCOL, f"the property {number} comes twice")
            else:
                values[number] = value
        return values


def _number(count: int) -> Callable[[_Fields], Any]:
    return lambda fields: fields.number(count)


def _pair(fields: _Fields) -> list[str]:
    return [fields.text(), fields.text()]


_READERS: dict[int, Callable[[_Fields], Any]] = {
    **dict.fromkeys((1, 23, 25, 36, 37, 40, 41, 42), _number(1)),
    **dict.fromkeys((19, 33, 34, 35), _number(2)),
    **dict.fromkeys((2, 17, 24, 39), _number(4)),
    **dict.fromkeys((3, 8, 18, 21, 26, 28, 31), _Fields.text),
    **dict.fromkeys((9, 22), _Fields.data),
    SUBSCRIPTION_ID: _Fields.varint,
    USER: _pair,
}


# --- reading --------------------------------------------------------------------------------------


def _connect(fields: _Fields, _: int, __: int) -> Connect:
    protocol, version = fields.data(), fields.number(1)
    if protocol != b"MQTT" or version not in (V3, V5):
        raise MqttError(BAD_VERSION, "the protocol is neither MQTT 3.1.1 nor MQTT 5")
    flags, keep_alive_s = fields.number(1), fields.number(2)
    if flags & 1:
        raise MqttError(MALFORMED, "the reserved flag of CONNECT is set")
    properties = fields.properties(version)
    client_id = fields.text()
    will = _will(fields, version, flags) if flags & 0x04 else None
    username = fields.text() if flags & 0x80 else ""
    if flags & 0x40:
        fields.data()
    is_clean = bool(flags & 0x02)
    return Connect(version, client_id, is_clean, keep_alive_s, will, properties, username)


def _will(fields: _Fields, version: int, flags: int) -> Publish:
    properties = fields.properties(version)
    topic, payload, qos = fields.text(), fields.data(), (flags >> 3) & 3
    if qos > 1:
        raise MqttError(NO_QOS, "AWS IoT has no QoS 2")
    return Publish(topic, payload, qos, bool(flags & 0x20), properties=properties)


def _publish(fields: _Fields, version: int, flags: int) -> Publish:
    qos = (flags >> 1) & 3
    if qos > 1:
        raise MqttError(NO_QOS, "AWS IoT has no QoS 2")
    topic = fields.text()
    packet_id = fields.number(2) if qos else 0
    if qos and not packet_id:
        raise MqttError(PROTOCOL, "a packet's identifier is 0")
    properties = fields.properties(version)
    return Publish(
        topic, fields.rest(), qos, bool(flags & 1), bool(flags & 8), packet_id, properties
    )


def _acknowledge(fields: _Fields, _: int, __: int) -> Acknowledge:
    return Acknowledge(fields.number(2))


def _subscribe(fields: _Fields, version: int, _: int) -> Subscribe:
    packet_id, properties = fields.number(2), fields.properties(version)
    filters: list[tuple[str, int]] = []
    while fields.is_left:
        filters.append((fields.text(), fields.number(1)))
    return Subscribe(packet_id, _some(filters), properties)


def _unsubscribe(fields: _Fields, version: int, _: int) -> Unsubscribe:
    packet_id = fields.number(2)
    fields.properties(version)
    filters: list[str] = []
    while fields.is_left:
        filters.append(fields.text())
    return Unsubscribe(packet_id, _some(filters))


def _some(filters: list[Any]) -> tuple[Any, ...]:
    if not filters:
        raise MqttError(PROTOCOL, "no topic filter is named")
    return tuple(filters)


def _disconnect(fields: _Fields, version: int, _: int) -> Disconnect:
    code = fields.number(1) if fields.is_left else 0
    return Disconnect(code, fields.properties(version) if fields.is_left else _NONE)


_PARSERS: dict[int, Callable[[_Fields, int, int], Packet]] = {
    CONNECT: _connect,
    PUBLISH: _publish,
    PUBACK: _acknowledge,
    SUBSCRIBE: _subscribe,
    UNSUBSCRIBE: _unsubscribe,
    PINGREQ: lambda _, __, ___: Ping(),
    DISCONNECT: _disconnect,
}
_FLAGS = {SUBSCRIBE: 2, UNSUBSCRIBE: 2}


# --- writing --------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    row = bytearray()
    while True:
        value, byte = value >> 7, value & 0x7F
        row.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(row)


def _text(text: str) -> bytes:
    return _data(text.encode())


def _data(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


_SIZES = {1: 1, 19: 2, 33: 2, 34: 2, 35: 2, 2: 4, 17: 4, 24: 4, 39: 4}


def _properties(version: int, properties: Properties = _NONE) -> bytes:
    if version < V5:
        return b""
    row = bytearray()
    for number, value in properties.items():
        for value_of_property in value if number == USER else [value]:
            row.append(number)
            if number == USER:
                row += _text(value_of_property[0]) + _text(value_of_property[1])
            elif isinstance(value, str):
                row += _text(value)
            elif isinstance(value, bytes):
                row += _data(value)
            else:
                row += int(value).to_bytes(_SIZES.get(number, 1), "big")
    return _varint(len(row)) + bytes(row)


def _packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + _varint(len(body)) + body


def connack(version: int, code: int, *, is_present: bool, properties: Properties = _NONE) -> bytes:
    """Return CONNACK; `code` is one of MQTT 5, and becomes that of 3.1.1."""
    if version < V5:
        code = {0: 0, BAD_VERSION: 1, BAD_ID: 2, SERVER_BUSY: 3, NOT_AUTHORIZED: 5}.get(code, 3)
    body = bytes([is_present, code]) + _properties(version, properties)
    return _packet(CONNACK, body)


def publish(version: int, message: Publish) -> bytes:
    """Return PUBLISH."""
    packet_id = message.packet_id.to_bytes(2, "big") if message.qos else b""
    flags = message.qos << 1 | message.retain | message.is_repeated << 3
    head = _text(message.topic) + packet_id + _properties(version, message.properties)
    return _packet(PUBLISH, head + message.payload, flags)


def puback(version: int, packet_id: int, code: int = 0) -> bytes:
    """Return PUBACK; 3.1.1 has no place for a code."""
    body = packet_id.to_bytes(2, "big")
    return _packet(PUBACK, body + bytes([code]) if code and version >= V5 else body)


def suback(version: int, packet_id: int, codes: list[int]) -> bytes:
    """Return SUBACK; `codes` are those of MQTT 5."""
    if version < V5:
        codes = [min(UNSPECIFIED, code) for code in codes]
    return _packet(SUBACK, packet_id.to_bytes(2, "big") + _properties(version) + bytes(codes))


def unsuback(version: int, packet_id: int, codes: list[int]) -> bytes:
    """Return UNSUBACK."""
    body = packet_id.to_bytes(2, "big") + _properties(version)
    return _packet(UNSUBACK, body + bytes(codes) if version >= V5 else body)


def disconnect(version: int, code: int, sentence: str = "") -> bytes:
    """Return DISCONNECT with its reason; nothing in 3.1.1, where a server only closes."""
    if version < V5:
        return b""
    reason = {REASON: sentence} if sentence else _NONE
    return _packet(DISCONNECT, bytes([code]) + _properties(version, reason))


PONG = _packet(PINGRESP, b"")
