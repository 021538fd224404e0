"""What the broker and the connections of clients tell each other, and what AWS grants a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.aws.signatures.signers import Signer
from headrace.services.iot.mqtt import packets
from headrace.services.iot.mqtt.access import Device
from headrace.services.iot.mqtt.sessions import MOST_IN_FLIGHT, Receiver, Session

# Documented: AWS's longest keep-alive, which also holds for a client that asks for none.
LONGEST_KEEP_ALIVE_S = 1200
# Documented: what CONNACK of MQTT 5 says.
MOST_ALIASES = 8
LARGEST_PACKET = 149_504


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
