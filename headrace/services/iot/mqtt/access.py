"""Who an MQTT client is, and what IoT's policies let it do.

A client is its certificate: registered, active, and the policies attached to it and to the groups of its things decide.
Documented: docs.aws.amazon.com/iot/latest/developerguide/iot-policies.html, iot-policy-actions.html,
thing-policy-variables.html, cert-policy-variables.html. Whoever calls holds moto's lock.

What the broker and the connections of clients tell each other, and what AWS grants a client.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Protocol

from headrace.aws.calls.operation import Permit, Signer
from headrace.core.arn import partition_of
from headrace.core.clock import TokenBucket
from headrace.core.config import Iam
from headrace.moto.storage.changes import CHANGES
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal
from headrace.services.iot.mqtt import packets
from headrace.services.iot.mqtt.packets import MqttError, Publish
from headrace.services.iot.mqtt.sessions import MOST_IN_FLIGHT, Receiver, Session

# The ARN of a certificate, what it did, and AWS's sentence when its policies do not allow it, else "".
Note = Callable[[str, Access, str], None]
_MOST_KEPT = 20_000
_SUBJECT = {
    "commonName": "commonname",
    "countryName": "country",
    "organizationName": "organization",
    "organizationalUnitName": "organizationalunit",
    "stateOrProvinceName": "state",
    "serialNumber": "serialnumber",
}


@dataclass(frozen=True, slots=True)
class Device:
    """A client that may connect: by its certificate, by a signature, or as the account itself, which may everything.

    Attributes:
        certificate_id, arn: of its certificate; empty without one.
        user_id, permit: of who signed its WebSocket's request; `permit` is None for the account itself.
    """

    account: str
    region: str
    certificate_id: str = ""
    arn: str = ""
    client_id: str = ""
    address: str = ""
    user_id: str = ""
    permit: Permit | None = None

    @property
    def principal(self) -> str:
        """What AWS calls its principal in rules and events; empty for a client without certificate and signature."""
        return self.certificate_id or self.user_id


class DeviceAccess:
    """Finds certificates and decides by their policies; decisions are kept until IoT's state changes."""

    def __init__(
        self, *, account: str, region: str, mode: Iam, needs_certificate: bool, note: Note
    ) -> None:
        """Take the account and region of clients without a certificate, and whether there may be any.

        In mode `report` every client may do everything, and `note` gets what its policies would have decided.
        """
        self._account, self._region = account, region
        self._mode, self._note = mode, note
        self._needs_certificate = needs_certificate
        self._kept: dict[tuple[Device, str, str], tuple[Access, str]] = {}
        self._by_id: dict[str, tuple[str, str, Any]] | None = None

    def forget(self) -> None:
        """Certificates, policies or things may have changed."""
        self._kept.clear()
        self._by_id = None

    def pems(self) -> Iterator[str]:
        """Yield every registered certificate."""
        for _, _, certificate in self._certificates().values():
            yield str(certificate.certificate_pem)

    def identify(
        self, der: bytes | None, signer: Signer | None, client_id: str, address: str
    ) -> Device | None:
        """Return who presents a certificate, or signed a WebSocket's request; None when it may not connect at all."""
        if signer is not None:
            return Device(
                signer.account, self._region, client_id=client_id, address=address,
                user_id=signer.user_id, permit=signer.permit,
            )  # fmt: skip
        if der is None:
            if self._needs_certificate:
                return None
            return Device(self._account, self._region, client_id=client_id, address=address)
        certificate_id = sha256(der).hexdigest()
        account, region, certificate = self._certificates().get(certificate_id, ("", "", None))
        if certificate is None or certificate.status != "ACTIVE":
            return None
        arn = str(certificate.arn)
        return Device(account, region, str(certificate.certificate_id), arn, client_id, address)

    def is_still_active(self, device: Device) -> bool:
        """Whether a connected client's certificate still lets it in."""
        if not device.certificate_id:
            return True
        from moto.iot.models import iot_backends

        backends: Any = iot_backends
        certificate = backends[device.account][device.region].certificates.get(
            device.certificate_id
        )
        return certificate is not None and certificate.status == "ACTIVE"

    def may(self, device: Device, action: str, resource: str) -> bool:
        """Whether a client may do an action (`iot:Publish`) to a resource (`topic/a`)."""
        if self._mode == "off":
            return True
        if device.permit is not None:
            return not device.permit.denial(action, _arn(device, resource), {})
        if not device.certificate_id:
            return True
        key = (device, action, resource)
        decision = self._kept.get(key)
        if decision is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            decision = self._kept[key] = _decide(device, action, resource)
        if self._mode == "enforce":
            return not decision[1]
        self._note(device.arn, *decision)
        return True

    def _certificates(self) -> dict[str, tuple[str, str, Any]]:
        """Return every certificate by the fingerprint of its bytes."""
        if self._by_id is None:
            CHANGES.load_deferred("iot")
            from moto.iot.models import iot_backends

            backends: Any = iot_backends
            self._by_id = {
                fingerprint: (account, region, certificate)
                for account, regions in list(backends.items())
                for region, backend in list(regions.items())
                for certificate in backend.certificates.values()
                if (fingerprint := _fingerprint(str(certificate.certificate_pem)))
            }
        return self._by_id


@functools.lru_cache(maxsize=65_536)
def _fingerprint(pem: str) -> str:
    """Return what AWS makes a certificate's id of; empty for what is no certificate."""
    try:
        return sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest()
    except ValueError:
        return ""


def _arn(device: Device, resource: str) -> str:
    return f"arn:{partition_of(device.region)}:iot:{device.region}:{device.account}:{resource}"


def _decide(device: Device, action: str, resource: str) -> tuple[Access, str]:
    """Return an access, and AWS's sentence when the device's policies do not allow it."""
    from moto.iot.models import iot_backends

    backends: Any = iot_backends
    backend = backends[device.account][device.region]
    access = Access(action, _arn(device, resource), device.account, _context(backend, device))
    principal = Principal("user", device.arn, device.account, device.arn)
    try:
        policies = tuple(
            NamedPolicy.of(name, text, arn) for name, text, arn in _policies(backend, device.arn)
        )
    except UnreadableDocument as error:
        return access, str(error)
    decision = evaluate(principal, access, Policies(identity=policies))
    return access, "" if decision.allowed else denial(principal, access, decision)


def _policies(backend: Any, arn: str) -> Iterator[tuple[str, str, str]]:
    """Yield the policies of a certificate and of its things' groups, those above included: name, text, ARN."""
    things = {name for target, name in backend.principal_things if target == arn}
    groups = {
        str(group.arn): group
        for group in backend.thing_groups.values()
        if things & {str(thing.thing_name) for thing in group.things.values()}
    }
    by_name = {str(group.thing_group_name): group for group in backend.thing_groups.values()}
    for group in list(groups.values()):
        above = by_name.get(str(group.parent_group_name or ""))
        while above is not None and str(above.arn) not in groups:
            groups[str(above.arn)] = above
            above = by_name.get(str(above.parent_group_name or ""))
    for (target, _), (_, policy) in backend.principal_policies.items():
        if target == arn or target in groups:
            document = policy.document
            text = document if isinstance(document, str) else json.dumps(document)
            yield str(policy.name), text, str(policy.arn)


def _context(backend: Any, device: Device) -> dict[str, tuple[str, ...]]:
    values = {"iot:clientid": device.client_id, "aws:sourceip": device.address}
    certificate = backend.certificates.get(device.certificate_id)
    if certificate is not None:
        values |= _subject(str(certificate.certificate_pem))
    # Documented: the client's id is the name of its thing.
    is_attached = (device.arn, device.client_id) in backend.principal_things
    values["iot:connection.thing.isattached"] = "true" if is_attached else "false"
    if is_attached:
        _, thing = backend.principal_things[device.arn, device.client_id]
        values["iot:connection.thing.thingname"] = str(thing.thing_name)
        if thing.thing_type is not None:
            name = str(thing.thing_type.thing_type_name)
            values["iot:connection.thing.thingtypename"] = name
        for name, value in (thing.attributes or {}).items():
            values[f"iot:connection.thing.attributes[{str(name).lower()}]"] = str(value)
    return {key: (value,) for key, value in values.items() if value}


@functools.lru_cache(maxsize=4096)
def _subject(pem: str) -> dict[str, str]:
    from cryptography import x509

    try:
        subject = x509.load_pem_x509_certificate(pem.encode()).subject
    except ValueError:
        return {}
    return {
        f"iot:certificate.subject.{_SUBJECT[attribute.oid._name]}": str(attribute.value)
        for attribute in subject
        if attribute.oid._name in _SUBJECT
    }


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
