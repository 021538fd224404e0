"""The clouds that the pipeline and its tests run on: headrace, LocalStack, others behind an address, and AWS."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headrace.testing.access import PRODUCT_PAGES

HEADRACE, LOCALSTACK, MINISTACK, MOTO, FLOCI = (
    "headrace",
    "localstack",
    "ministack",
    "moto",
    "floci",
)
AWS = "aws"
ACCOUNT, REGION = "000000000000", "us-east-1"
_ANSWER_WITHIN_S = 5.0
_VERSION_KEYS = ("version", "server_version")


class TargetError(RuntimeError):
    """A target is unknown, does not run, or is another product; the message is one sentence."""


@dataclass(frozen=True)
class Target:
    """A cloud: its product and its address; for AWS `endpoint_url` is empty."""

    product: str
    endpoint_url: str
    version: str = ""

    @property
    def is_aws(self) -> bool:
        """Whether the cloud is AWS, where calls cost money."""
        return self.product == AWS

    @property
    def title(self) -> str:
        """The product with its version, for people."""
        return f"{self.product} {self.version}".strip()

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of its boto3 clients; on AWS the credentials are the user's own."""
        if self.is_aws:
            return {}
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": REGION,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    def environment(self) -> Mapping[str, str]:
        """Return the variables that point every AWS tool at it; none for AWS."""
        if self.is_aws:
            return {}
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }


def check_name(cloud: str) -> str:
    """Return `cloud` when it names a target: headrace, localstack, aws or http://host:port. Raises TargetError."""
    if cloud in (HEADRACE, LOCALSTACK, MINISTACK, MOTO, AWS):
        return cloud
    parts = urlsplit(cloud)
    if parts.scheme in ("http", "https") and parts.hostname and not parts.path.strip("/"):
        if _has_port(cloud):
            return cloud.rstrip("/")
        raise TargetError(f"{cloud} names no port: a cloud is http://host:port.")
    raise TargetError(
        f"There is no cloud {cloud!r}: take {HEADRACE}, {LOCALSTACK}, {AWS} or http://host:port."
    )


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port is not None
    except ValueError:
        return False


def identify(endpoint_url: str) -> Target:
    """Return the cloud at an address. Raises TargetError if nothing answers, or no known product."""
    reached = False
    for product, page in PRODUCT_PAGES:
        try:
            with urllib.request.urlopen(endpoint_url + page, timeout=_ANSWER_WITHIN_S) as answer:
                reached, body = True, answer.read(1_000_000)
        except urllib.error.HTTPError:
            reached = True
            continue
        except (OSError, urllib.error.URLError):
            continue
        health = _json(body)
        if health is not None:
            return Target(product, endpoint_url, _version(health))
    if reached:
        raise TargetError(
            f"What listens at {endpoint_url} is none of {', '.join(name for name, _ in PRODUCT_PAGES)}."
        )
    raise TargetError(f"No cloud is up at {endpoint_url}.")


def expect(endpoint_url: str, product: str) -> Target:
    """Return the target at an address, which must be `product`. Raises TargetError."""
    found = identify(endpoint_url)
    if found.product != product:
        raise TargetError(f"What is up at {endpoint_url} is {found.product}, not {product}.")
    return found


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _version(health: dict[str, Any]) -> str:
    for key in _VERSION_KEYS:
        value = health.get(key)
        if isinstance(value, str) and re.fullmatch(r"[\w.+-]{1,40}", value):
            return value
    return ""
