"""Prints a new key and a certificate of it, as PEM: `identity_child.py HOST DAYS`.

It runs in a process of its own: the library that signs would stay in an idle cloud's memory for what happens once.
"""

from __future__ import annotations

import ipaddress
import sys
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_identity(host: str, days: int) -> str:
    """Return a new key and a certificate of it for `host` and this machine's own names, valid for `days`, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace")])
    addresses = {"127.0.0.1", "::1"}
    names = {
        "localhost",
        "*.localhost",
        "localhost.localstack.cloud",
        "*.localhost.localstack.cloud",
    }
    try:
        addresses.add(str(ipaddress.ip_address(host)))
    except ValueError:
        names.add(host)
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    alternatives: list[x509.GeneralName] = [x509.DNSName(each) for each in sorted(names)]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()


if __name__ == "__main__":
    sys.stdout.write(new_identity(sys.argv[1], int(sys.argv[2])))
