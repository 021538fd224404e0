"""Connects to a cloud that is already running: checks that it answers, and which product it is."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from headrace.testing.access import CloudAccess

_ANSWER_WITHIN_S = 10.0
# Every cloud has GetCallerIdentity; a cloud that checks signatures answers with an error in AWS's form.
_WHO_AM_I = b"Action=GetCallerIdentity&Version=2011-06-15"
_UNSIGNED = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sts/aws4_request,"
    " SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}
_OF_AWS_FORM = (b"GetCallerIdentityResponse", b"RequestId")
AWS = "aws"
# The page that identifies each product. The order matters: several products also answer LocalStack's page.
PRODUCT_PAGES = (
    ("headrace", "/_headrace/health"),
    ("ministack", "/_ministack/health"),
    ("floci", "/_floci/health"),
    ("localstack", "/_localstack/health"),
    ("moto", "/moto-api/data.json"),
)


class CloudUnusable(Exception):
    """No cloud answers at a URL; the text is one sentence."""


class RemoteCloud(CloudAccess):
    """A cloud behind a URL, or AWS. Raises CloudUnusable."""

    def __init__(self, target: str, **where: str) -> None:
        """Take `http://host:port`, or `aws`."""
        if target == AWS:
            super().__init__(None, **where)
            self.product = AWS
            return
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CloudUnusable(f"A cloud is http://host:port, or aws, not {target!r}.")
        super().__init__(target.rstrip("/"), **where)
        self.product = product_at(target.rstrip("/"))


def product_at(url: str) -> str:
    """Return the product at a URL: one of `PRODUCT_PAGES`, or `unknown` for any other that speaks AWS's protocol.

    Raises CloudUnusable.
    """
    for product, page in PRODUCT_PAGES:
        if _json(f"{url}{page}") is not None:
            return product
    if not _speaks_as_aws(url):
        raise CloudUnusable(
            f"What listens at {url} is not a cloud: it does not speak AWS's protocol."
        )
    return "unknown"


def _speaks_as_aws(url: str) -> bool:
    asked = urllib.request.Request(url, _WHO_AM_I, _UNSIGNED)
    try:
        with urllib.request.urlopen(asked, timeout=_ANSWER_WITHIN_S) as answer:
            body: bytes = answer.read(100_000)
    except urllib.error.HTTPError as error:
        body = error.read(100_000)
    except OSError:
        return False
    return any(word in body for word in _OF_AWS_FORM)


def _json(url: str) -> Any:
    """Return a page's JSON, or None if there is no such page. Raises CloudUnusable when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None
    except ValueError:
        return None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise CloudUnusable(
            f"No cloud answers at {url.partition('/_')[0]}: {reason}; start it, or leave --headrace-cloud out."
        ) from error
