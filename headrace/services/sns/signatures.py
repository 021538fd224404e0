"""Signs SNS's notifications, with a key and a certificate for each region, created at its first message."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.values import iso_of
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from headrace.services.sns import queues

# Certificates from earlier starts that can still be downloaded.
MOST_CERTIFICATES = 10


_SIGNED = (
    "Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip


def post_data(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a notification, signed by the version in the topic's SignatureVersion."""
    topic = subscription.topic
    notification: dict[str, Any] = {
        "Type": "Notification",
        "MessageId": message_id,
        **({"SequenceNumber": queues.sequence_number(topic)} if queues.is_fifo(topic) else {}),
        "TopicArn": topic.arn,
        **({"Subject": subject} if subject else {}),
        "Message": message,
        "Timestamp": now(),
    }
    version = str(getattr(topic, "signature_version", "1"))
    signed = sign(subscription, notification, version=version)
    if queues.is_fifo(topic):  # recorded: without a signature
        signed = {"UnsubscribeURL": signed["UnsubscribeURL"]}
    notification |= signed
    if message_attributes:
        notification["MessageAttributes"] = message_attributes
    return notification


def sign(subscription: Any, notification: Mapping[str, Any], *, version: str) -> dict[str, str]:
    """Return a notification's signature (SHA-1 in version 1, SHA-256 in version 2) with the members beside it.

    Source: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html (documented).
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    region = subscription.topic.sns_backend.region_name
    text = "".join(f"{name}\n{notification[name]}\n" for name in _SIGNED if notification.get(name))
    key, certificate = _get_signing_key(region)
    # AWS's default is SHA-1, which verifiers expect.
    algorithm = hashes.SHA256() if version == "2" else hashes.SHA1()
    signature = key.sign(text.encode(), padding.PKCS1v15(), algorithm)
    host = f"https://sns.{region}.amazonaws.com/"
    return {
        "SignatureVersion": version,
        "Signature": base64.b64encode(signature).decode(),
        "SigningCertURL": f"{host}{certificate}",
        "UnsubscribeURL": f"{host}?Action=Unsubscribe&SubscriptionArn={subscription.arn}",
    }


_KEYS: dict[int, tuple[Any, str]] = {}


def _get_signing_key(region: str) -> tuple[Any, str]:
    """Return a region's key, and its certificate's name; created at its first message after a start."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.sns.models import sns_backends

    # Certificates are downloaded without credentials, so they are in moto's default account.
    backend: Any = sns_backends[DEFAULT_ACCOUNT_ID][region]
    known = _KEYS.get(id(backend))
    if known is not None and known[1] in backend._message_public_keys:
        return known
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


def now() -> str:
    """Return the time in SNS's form."""
    return iso_of(CURRENT.clock.now_ms())
