"""TLS of Flume's sources and of its Avro sink, by the keys and keystores that Flume takes.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#ssl-tls-support. Keystores are
PKCS #12, which Java's keytool has written since Java 9 whatever the file's name; the older JKS is refused with the
command that converts it.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from headrace.agent.properties import Section

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
