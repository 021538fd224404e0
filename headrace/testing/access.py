"""How tests reach any cloud: an account's boto3 sessions and clients, and headrace's pages.

A cloud seen from one account: a test that has its own account works with this view.

Connects to a cloud that is already running: checks that it answers, and which product it is.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import boto3

from headrace.core.config import DEFAULT_ACCOUNT_ID, DEFAULT_REGION
from headrace.testing import function_variables
from headrace.testing.waiting import (
    DEFAULT_TIMEOUT_S,
    NoSuchPage,
    Record,
    objects_under,
    records_of,
    until_drained,
)

_ANSWER_WITHIN_S = 30.0


class CloudAccess:
    """A cloud and how to reach it.

    Attributes:
        endpoint_url: the endpoint for SDKs; None for AWS.
        account: the default account of sessions.
        region: the default region of sessions.
        product: `headrace`, `localstack`, `ministack`, `floci`, `moto`, `aws`, or `unknown`.
    """

    product = "headrace"

    def __init__(
        self,
        endpoint_url: str | None,
        *,
        account: str = DEFAULT_ACCOUNT_ID,
        region: str = DEFAULT_REGION,
    ) -> None:
        self.endpoint_url = endpoint_url
        self.account = account
        self.region = region
        self._clients: dict[tuple[str, str, str], Any] = {}

    def session(self, *, account: str | None = None, region: str | None = None) -> boto3.Session:
        """Return an account's boto3 session; its clients reach this cloud whatever the environment says."""
        if self.endpoint_url is None:
            return boto3.Session(region_name=region or self.region)
        session = function_variables.session(
            aws_access_key_id=account or self.account,
            aws_secret_access_key=function_variables.SECRET,
            region_name=region or self.region,
        )
        endpoint_url = self.endpoint_url
        # A boto3 session takes an endpoint only from a configuration file.
        for name in ("client", "resource"):
            setattr(session, name, _bind(getattr(session, name), endpoint_url))
        return session

    def client(self, service: str, *, account: str | None = None, region: str | None = None) -> Any:
        """Return a boto3 client, made once for each service, account and region."""
        key = (service, account or self.account, region or self.region)
        client = self._clients.get(key)
        if client is None:
            session: Any = self.session(account=key[1], region=key[2])
            client = self._clients[key] = session.client(service)
        return client

    def page(self, path: str) -> Any:
        """Return the JSON of a page below /_headrace/. Raises NoSuchPage."""
        url = f"{self.endpoint_url}/_headrace/{path}"
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ValueError) as error:
            raise NoSuchPage(f"{url} shows nothing: {error}") from error

    @property
    def runs_folders(self) -> bool:
        """Whether functions run in this process, from folders of this machine."""
        return False

    @property
    def can_advance(self) -> bool:
        """Whether a test can move the cloud's time."""
        return False

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Move the cloud's time forward, for all accounts. Raises TypeError if the cloud's time cannot be moved."""
        raise TypeError(f"The time of {self.endpoint_url or 'AWS'} cannot be moved from here.")

    def until_drained(self, *, timeout_s: float = DEFAULT_TIMEOUT_S, may_lose: int = 0) -> None:
        """Wait until all records put so far are handled; see `headrace.testing.until_drained`."""
        until_drained(self, timeout_s=timeout_s, may_lose=may_lose)

    def records_of(self, stream: str) -> list[Record]:
        """Return every record of a stream; see `headrace.testing.records_of`."""
        return records_of(self, stream)

    def objects_under(self, bucket: str, prefix: str = "") -> dict[str, bytes]:
        """Return a bucket's objects; see `headrace.testing.objects_under`."""
        return objects_under(self, bucket, prefix)


def _bind(method: Any, endpoint_url: str) -> Any:
    @functools.wraps(method)
    def call_method(*args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("endpoint_url", endpoint_url)
        return method(*args, **kwargs)

    return call_method


class AccountView(CloudAccess):
    """A view of `cloud` whose clients use one account."""

    def __init__(self, cloud: CloudAccess, account: str) -> None:
        super().__init__(cloud.endpoint_url, account=account, region=cloud.region)
        self.product = cloud.product
        self.cloud = cloud

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`."""
        return self.cloud.page(path)

    @property
    def can_advance(self) -> bool:
        """See `CloudAccess.can_advance`."""
        return self.cloud.can_advance

    @property
    def runs_folders(self) -> bool:
        """See `CloudAccess.runs_folders`."""
        return self.cloud.runs_folders

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """See `CloudAccess.advance`."""
        self.cloud.advance(seconds=seconds, minutes=minutes, hours=hours, days=days)


_REMOTE_ANSWERS_WITHIN_S = 10.0
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
        with urllib.request.urlopen(asked, timeout=_REMOTE_ANSWERS_WITHIN_S) as answer:
            body: bytes = answer.read(100_000)
    except urllib.error.HTTPError as error:
        body = error.read(100_000)
    except OSError:
        return False
    return any(word in body for word in _OF_AWS_FORM)


def _json(url: str) -> Any:
    """Return a page's JSON, or None if there is no such page. Raises CloudUnusable when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=_REMOTE_ANSWERS_WITHIN_S) as answer:
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
