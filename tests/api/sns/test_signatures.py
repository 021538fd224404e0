"""Whoever verifies a notification finds its certificate where the message says.

The way of https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.cloud import ACCOUNT, InProcessCloud

# Not the cloud's own region: the certificate's URL does not name one.
REGION = "eu-west-1"
SIGNED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")


def fetch(cloud: InProcessCloud, url: str) -> HttpResponse:
    """Ask for a URL of this cloud's, without credentials."""
    assert url.startswith(f"{cloud.cloud.endpoint_url()}/")
    parts = urlsplit(url)
    return cloud.handle(HttpRequest("GET", parts.path, parts.query, {"host": parts.netloc}, b""))


def verify(message: dict[str, Any], pem: bytes) -> None:
    key = x509.load_pem_x509_certificate(pem).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    text = "".join(f"{name}\n{message[name]}\n" for name in SIGNED if name in message)
    algorithm = {"1": hashes.SHA1, "2": hashes.SHA256}[message["SignatureVersion"]]()
    signature = base64.b64decode(message["Signature"])
    key.verify(signature, text.encode(), padding.PKCS1v15(), algorithm)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_notification_is_verified_and_unsubscribed_by_its_urls(tmp_path: Path, version: str):
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        sns, sqs = cloud.client("sns", region=REGION), cloud.client("sqs", region=REGION)
        topic = sns.create_topic(Name="t", Attributes={"SignatureVersion": version})["TopicArn"]
        url = sqs.create_queue(QueueName="q", Attributes={"Policy": allow_topic(topic)})["QueueUrl"]
        queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
        sns.publish(TopicArn=topic, Message="m", Subject="s")
        (received,) = sqs.receive_message(QueueUrl=url)["Messages"]
        message = json.loads(received["Body"])
        assert message["SignatureVersion"] == version
        certificate = fetch(cloud, message["SigningCertURL"])
        assert certificate.status == 200
        assert isinstance(certificate.body, bytes)
        verify(message, certificate.body)
        assert fetch(cloud, message["UnsubscribeURL"]).status == 200
        assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


def allow_topic(topic: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "*",
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_another_certificate_is_not_there(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        url = f"{cloud.cloud.endpoint_url()}/SimpleNotificationService-{'0' * 32}.pem"
        assert fetch(cloud, url).status == 404
