"""SNS: the signatures of notifications, and the certificates that verify them.

The URLs beside a signature are this cloud's own, so that whoever verifies it can fetch the certificate. A region's key
and certificate are made at its first message.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES

# Certificates from earlier starts that can still be downloaded.
MOST_CERTIFICATES = 10


_SIGNED = (
    "Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip


def sign(subscription: Any, notification: Mapping[str, Any], *, version: str) -> dict[str, str]:
    """Return a notification's signature (SHA-1 in version 1, SHA-256 in version 2) with the members beside it.

    Source: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html (documented).
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    region = subscription.topic.sns_backend.region_name
    text = "".join(f"{name}\n{notification[name]}\n" for name in _SIGNED if notification.get(name))
    key, certificate = signing_key(region)
    # AWS's default is SHA-1, which verifiers expect.
    algorithm = hashes.SHA256() if version == "2" else hashes.SHA1()
    signature = key.sign(text.encode(), padding.PKCS1v15(), algorithm)
    own_url = CURRENT.endpoint_url()
    return {
        "SignatureVersion": version,
        "Signature": base64.b64encode(signature).decode(),
        "SigningCertURL": f"{own_url}/{certificate}",
        "UnsubscribeURL": f"{own_url}/?Action=Unsubscribe&SubscriptionArn={subscription.arn}",
    }


def serve_certificate(
    request: Any, full_url: str, headers: Any
) -> tuple[int, dict[str, str], bytes]:
    """Answer a certificate by its name; the URL does not say whose region it is."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.sns.models import sns_backends

    name = full_url.rpartition("/")[2]
    for backend in dict(sns_backends[DEFAULT_ACCOUNT_ID]).values():
        certificate = backend._message_public_keys.get(name)
        if certificate is not None:
            return 200, {"content-type": "application/x-pem-file"}, certificate
    return 404, {"content-type": "text/plain"}, f"There is no certificate {name}.".encode()


_KEYS: dict[int, tuple[Any, str]] = {}


def signing_key(region: str, *, may_make: bool = True) -> Any:
    """Return a region's key, and its certificate's name; made (it takes long) at the first use, or None then."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.sns.models import sns_backends

    # Certificates are downloaded without credentials, so they are in moto's default account.
    backend: Any = sns_backends[DEFAULT_ACCOUNT_ID][region]
    known = _KEYS.get(id(backend))
    is_kept = known is not None and known[1] in backend._message_public_keys
    if is_kept or not may_make:
        return known if is_kept else None
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, serial_number = _certificate(key)
    name = f"SimpleNotificationService-{serial_number:032x}.pem"
    certificates = backend._message_public_keys
    certificates[name] = pem
    while len(certificates) > MOST_CERTIFICATES:
        del certificates[next(iter(certificates))]
    if len(_KEYS) > 100:
        _KEYS.clear()
    _KEYS[id(backend)] = key, name
    CHANGES.made("sns")
    return key, name


def _certificate(key: Any) -> tuple[bytes, int]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    def name(**parts: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(getattr(NameOID, k), v) for k, v in parts.items()])

    made_at = datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC)
    serial_number = x509.random_serial_number() >> 32
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name(COMMON_NAME="sns.amazonaws.com"))
        .issuer_name(
            name(
                COUNTRY_NAME="US",
                ORGANIZATION_NAME="Amazon",
                COMMON_NAME="Amazon RSA 2048 M01",
            )
        )
        .public_key(key.public_key())
        .serial_number(serial_number)
        .not_valid_before(made_at)
        .not_valid_after(made_at + timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), serial_number
