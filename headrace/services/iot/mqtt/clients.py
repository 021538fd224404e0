"""What the broker and the connections of clients tell each other, and what AWS grants a client."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headrace.aws.calls.operation import Signer
from headrace.core.clock import TokenBucket
from headrace.services.iot.mqtt import packets
from headrace.services.iot.mqtt.access import Device
from headrace.services.iot.mqtt.packets import MqttError, Publish
from headrace.services.iot.mqtt.sessions import MOST_IN_FLIGHT, Receiver, Session

log = logging.getLogger(__name__)

# Documented: AWS's longest keep-alive, which also holds for a client that asks for none.
LONGEST_KEEP_ALIVE_S = 1200
# Documented: what CONNACK of MQTT 5 says.
MOST_ALIASES = 8
LARGEST_PACKET = 149_504
# Documented: publishes and bytes a second of one connection.
_PUBLISHES_PER_S, _BYTES_PER_S = 100, 512 * 1024

# Documented: how a client names its authorizer (developerguide/custom-auth.html), in its user name, query or headers.
CUSTOM_AUTHORIZER = "x-amz-customauthorizer-"
NO_AUTHORIZERS = "headrace has no custom authorizers"


class Lost:
    """The connection has ended; sent in the place of a packet."""


class Review:
    """Certificates may have been revoked; sent in the place of a packet, by no client."""


LOST, REVIEW = Lost(), Review()


class Client(Receiver, Protocol):
    """A connection, as the broker sees it. The broker writes `session`, `device` and `version`."""

    device: Device | None
    session: Session | None
    address: str
    certificate: bytes | None
    signer: Signer | None
    keep_alive_s: int
    largest_packet: int

    def settle(self, answers: Answers) -> None:
        """Write answers; called on the thread of the connections' loop."""
        ...


@dataclass(slots=True)
class Answers:
    """What a round has for one connection: bytes, how many packets it carried out, and whether it ends."""

    parts: list[bytes] = field(default_factory=list[bytes])
    done: int = 0
    ends: bool = False
    # Of messages of QoS 0, which nothing else bounds.
    best_effort_bytes: int = 0


class Aliases:
    """The topics that a client of MQTT 5 has named by numbers. One thread."""

    def __init__(self) -> None:
        self._topics: dict[int, str] = {}

    def resolve(self, message: Publish) -> Publish:
        """Return a message with its topic. Raises MqttError for a number that names none."""
        alias = message.properties.get(packets.ALIAS)
        if alias is None:
            return message
        if not 1 <= alias <= MOST_ALIASES or (not message.topic and alias not in self._topics):
            raise MqttError(packets.BAD_ALIAS, f"The topic alias {alias} is not known")
        if message.topic:
            self._topics[alias] = message.topic
        return replace(message, topic=self._topics[alias])


class Rates:
    """How much one connection may publish a second, as on AWS. One thread."""

    def __init__(self, now_ms: int) -> None:
        self._publishes = TokenBucket(_PUBLISHES_PER_S, now_ms)
        self._bytes = TokenBucket(_BYTES_PER_S, now_ms)
        self._has_warned = False

    def let_in(self, message: Publish, now_ms: int, address: str) -> bool:
        """Whether a message of the client at `address` may pass; the log names the first that may not."""
        size = len(message.payload)
        if self._publishes.has(1, now_ms) and self._bytes.has(size, now_ms):
            self._publishes.take(1)
            self._bytes.take(size)
            return True
        if not self._has_warned:
            self._has_warned = True
            log.warning("messages of an MQTT client at %s are throttled", address)
        return False


def connack_properties(
    packet: packets.Connect, session: Session, keep_alive_s: int, assigned: str
) -> dict[int, Any]:
    """Return the properties of CONNACK; none in 3.1.1."""
    if packet.version < packets.V5:
        return {}
    properties: dict[int, Any] = {
        packets.SESSION_EXPIRY_S: session.expiry_s,
        packets.RECEIVE_MAXIMUM: MOST_IN_FLIGHT,
        packets.MAXIMUM_QOS: 1,
        packets.RETAIN_AVAILABLE: 1,
        packets.LARGEST_PACKET: LARGEST_PACKET,
        packets.ALIAS_MAXIMUM: MOST_ALIASES,
        packets.WILDCARDS: 1,
        packets.IDS_AVAILABLE: 0,
        packets.SHARED: 1,
        packets.KEEP_ALIVE_S: keep_alive_s,
    }
    if assigned:
        properties[packets.ASSIGNED_ID] = assigned
    return properties
