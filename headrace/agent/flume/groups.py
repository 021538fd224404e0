"""Flume's sink groups: failover to the next sink, or the load spread over all.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#flume-sink-processors. A sink that
fails is left alone for one second, then two, four and so on.

TLS of Flume's sources and of its Avro sink, by the keys and keystores that Flume takes.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#ssl-tls-support. Keystores are
PKCS #12, which Java's keytool has written since Java 9 whatever the file's name; the older JKS is refused with the
command that converts it.
"""

from __future__ import annotations

import logging
import os
import random
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.agent.config.properties import Section
from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.events import SinkFailed
from headrace.agent.flume.sinks.base import Sink
from headrace.core.clock import Clock

_FIRST_PENALTY_MS = 1000
_LOG = logging.getLogger("headrace.agent")


class _Member:
    """A sink of a group, and until when it is left alone."""

    def __init__(self, name: str, sink: Sink, priority: int = 0) -> None:
        self.name, self.sink, self.priority = name, sink, priority
        self.failures, self.free_at_s = 0, 0.0


class Group:
    """Sinks of which one at a time takes a transaction. For one thread."""

    def __init__(
        self, members: Sequence[_Member], clock: Clock, *, most_penalty_ms: int, order: str
    ) -> None:
        """Take the sinks; `order` is failover, round_robin or random; no penalty: `most_penalty_ms` is 0."""
        self._members, self._clock, self._most_ms, self._order = (
            list(members),
            clock,
            most_penalty_ms,
            order,
        )
        self._turn, self._chance = 0, random.Random()

    @property
    def channels(self) -> list[MemoryChannel]:
        """What the sinks take from."""
        return [member.sink.channel for member in self._members]

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`; raises SinkFailed only when every sink has failed or is left alone."""
        now_s, failure = self._clock.monotonic_s(), None
        free = [member for member in self._ordered() if member.free_at_s <= now_s]
        for member in free:
            try:
                is_busy = member.sink.process(timeout_s)
            except SinkFailed as error:
                failure = error
                self._punish(member, now_s, error)
            else:
                member.failures = 0
                return is_busy
        raise SinkFailed(
            str(failure) if failure else "every sink of the group has failed and is left alone"
        )

    def _ordered(self) -> list[_Member]:
        if self._order == "failover":
            return sorted(self._members, key=lambda member: -member.priority)
        if self._order == "random":
            return self._chance.sample(self._members, len(self._members))
        self._turn = (self._turn + 1) % len(self._members)
        return self._members[self._turn :] + self._members[: self._turn]

    def _punish(self, member: _Member, now_s: float, error: SinkFailed) -> None:
        member.failures += 1
        penalty_ms = min(_FIRST_PENALTY_MS << min(member.failures - 1, 16), self._most_ms)
        member.free_at_s = now_s + penalty_ms / 1000
        _LOG.error("sink %s: %s; another takes over", member.name, error)

    def close(self) -> None:
        """See `Sink.close`."""
        for member in self._members:
            member.sink.close()


def group_of(section: Section, sinks: Mapping[str, Sink], clock: Clock) -> Group:
    """Return what a group's keys say. Raises ConfigurationError."""
    names = section.words("sinks")
    for name in names:
        if name not in sinks:
            raise section.error(
                "sinks", f"{section.owner} names {name!r}, which is no sink, or in a group already"
            )
    if not names:
        raise section.error("sinks", f"{section.owner} needs sinks")
    kind = section.choice("processor.type", ("default", "failover", "load_balance"), "default")
    if kind == "default" and len(names) > 1:
        raise section.error(
            "processor.type",
            f"the processor default of {section.owner} takes one sink, not {len(names)}",
        )
    if kind != "load_balance":
        priorities = {
            name: section.number(
                f"processor.priority.{name}", 0 if kind == "default" else None, least=-(1 << 31)
            )
            for name in names
        }
        if kind == "failover" and len(set(priorities.values())) < len(names):
            raise section.error(
                "processor.type", f"two sinks of {section.owner} have the same priority"
            )
        members = [_Member(name, sinks[name], priorities[name]) for name in names]
        penalty = section.number("processor.maxpenalty", 30_000)
        result = Group(
            members, clock, most_penalty_ms=penalty if kind == "failover" else 0, order="failover"
        )
    else:
        order = section.text("processor.selector", "round_robin").lower()
        if order not in ("round_robin", "random"):
            raise section.error("processor.selector", f"the selector {order!r} is not built")
        most = section.number("processor.selector.maxTimeOut", 30_000)
        backs_off = section.flag("processor.backoff", default=False)
        members = [_Member(name, sinks[name]) for name in names]
        result = Group(members, clock, most_penalty_ms=most if backs_off else 0, order=order)
    section.finish()
    return result


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_JKS = b"\xfe\xed\xfe\xed"


def server_tls(section: Section) -> ssl.SSLContext | None:
    """Take a source's keys of TLS; return its context, or None for plain text. Raises ConfigurationError."""
    is_on = section.flag("ssl", default=section.flag("enableSSL", default=False))
    old = section.text("keystorePassword", os.environ.get("FLUME_SSL_KEYSTORE_PASSWORD", ""))
    path = section.text("keystore", os.environ.get("FLUME_SSL_KEYSTORE_PATH", ""))
    password = section.text("keystore-password", old)
    section.choice("keystore-type", ("JKS", "PKCS12"), "JKS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that sends its lines and closes has not read the tickets: the system would reset the connection, and what
    # was not yet received of the lines would be lost.
    context.num_tickets = 0
    _set_protocols(section, context)
    if not is_on:
        return None
    if not path:
        raise section.error("ssl", f"{section.owner} needs keystore, since ssl is true")
    _load_chain(section, context, *_read_keystore(section, "keystore", path, password))
    return context


def client_tls(section: Section) -> ssl.SSLContext | None:
    """Take a sink's keys of TLS; return its context, or None for plain text. Raises ConfigurationError.

    As Flume's, it checks the server's certificate and not the name in it (assumed).
    """
    is_on = section.flag("ssl", default=False)
    trusts_all = section.flag("trust-all-certs", default=False)
    path = section.text("truststore", os.environ.get("FLUME_SSL_TRUSTSTORE_PATH", ""))
    password = section.text(
        "truststore-password", os.environ.get("FLUME_SSL_TRUSTSTORE_PASSWORD", "")
    )
    section.choice("truststore-type", ("JKS", "PKCS12"), "JKS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _set_protocols(section, context)
    if not is_on:
        return None
    if trusts_all:
        context.verify_mode = ssl.CERT_NONE
    elif path:
        _, certificates = _read_keystore(section, "truststore", path, password)
        context.load_verify_locations(cadata=certificates)
    else:
        context.load_default_certs()
    return context


def _set_protocols(section: Section, context: ssl.SSLContext) -> None:
    included = section.words("include-protocols", "") or list(_VERSIONS)
    excluded = section.words("exclude-protocols", section.text("excludeProtocols", "SSLv3"))
    names = [name for name in _VERSIONS if name in included and name not in excluded]
    if not names:
        key = "include-protocols" if section.has("include-protocols") else "exclude-protocols"
        raise section.error(
            key, f"{section.owner} has neither {' nor '.join(_VERSIONS)} among its protocols"
        )
    context.minimum_version, context.maximum_version = _VERSIONS[names[0]], _VERSIONS[names[-1]]
    for key in ("include-cipher-suites", "exclude-cipher-suites"):
        if section.text(key, ""):
            raise section.error(key, f"{key} of {section.owner} is not built")


def _read_keystore(
    section: Section, key: str, path: str, password: str
) -> tuple[bytes, str]:  # fmt: skip
    """Return the private key (empty without one) and the certificates, its own first, as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise section.error(key, f"{key} of {section.owner}: {path}: {error.strerror}") from error
    if content.startswith(_JKS):
        raise section.error(
            key, f"{path} is a JKS keystore; keytool -importkeystore -deststoretype PKCS12 converts it"
        )  # fmt: skip
    try:
        store = load_pkcs12(content, password.encode() or None)
    except ValueError as error:
        raise section.error(
            key, f"{path} cannot be opened as PKCS #12 with its password"
        ) from error
    chain = [store.cert] if store.cert else []
    certificates = [
        item.certificate.public_bytes(serialization.Encoding.PEM).decode()
        for item in (*chain, *store.additional_certs)
    ]
    if not certificates:
        raise section.error(key, f"{path} has no certificate")
    if store.key is None:
        return b"", "".join(certificates)
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return store.key.private_bytes(serialization.Encoding.PEM, form, plain), "".join(certificates)


def _load_chain(
    section: Section, context: ssl.SSLContext, private_key: bytes, chain: str
) -> None:  # fmt: skip
    if not private_key:
        raise section.error("keystore", f"the keystore of {section.owner} has no private key")
    # Python reads keys from files alone; this one is its owner's, and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(private_key + chain.encode())
        file.flush()
        context.load_cert_chain(file.name)
