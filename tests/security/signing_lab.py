"""An enforcing cloud with one caller of each kind, and every way to sign a request, for the matrix of signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import boto3
from botocore import UNSIGNED
from botocore.auth import (
    HmacV1Auth,
    HmacV1QueryAuth,
    S3SigV4Auth,
    S3SigV4QueryAuth,
    SigV4Auth,
    SigV4QueryAuth,
)
from botocore.awsrequest import AWSRequest
from botocore.config import Config as BotocoreConfig
from botocore.credentials import Credentials

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.testing.in_process import http_request_of
from tests.security.auth_lab import HOST, Guarded
from tests.support.clients import ENDPOINT_URL
from tests.support.iam import ACCOUNT, REGION, allow, statements, trust

OTHER = "111111111111"
EVERYTHING = json.dumps(statements(allow("*", "*")))
_EXPIRES_S = 600
# The code and the status of an answer; the code is empty for a success.
Refusal = tuple[str, int]
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller's credentials, and how a cloud that enforces permissions names it."""

    credentials: Credentials
    arn: str = ""
    user_id: str = ""


class Captured(Exception):
    """A request of botocore that is not sent."""


def unsigned_request(service: str, method: str, params: dict[str, Any]) -> AWSRequest:
    """Return the request that boto3 would sign for an operation."""
    client: Any = boto3.client(
        service,
        region_name=REGION,
        endpoint_url=ENDPOINT_URL,
        config=BotocoreConfig(
            signature_version=UNSIGNED, s3={"addressing_style": "path"}, inject_host_prefix=False
        ),
    )
    kept: list[Any] = []

    def keep(request: Any, **_: Any) -> None:
        kept.append(request)
        raise Captured

    client.meta.events.register_first("before-send.*", keep)
    with suppress(Captured):
        getattr(client, method)(**params)
    (sent,) = kept
    headers = {n: v for n, v in http_request_of(sent).headers.items() if n != "user-agent"}
    if headers.get("content-type", "").startswith(_FORM):
        # botocore's signer of URLs removes the header that has a charset too.
        headers["content-type"] = _FORM
    return AWSRequest(sent.method, sent.url, headers=headers, data=sent.body)


class _QueryBesideBody(SigV4QueryAuth):
    """botocore's signer of URLs, which leaves the body where it is."""

    def _modify_request_before_signing(self, request: Any) -> None:
        body, request.data = request.data, b""
        super()._modify_request_before_signing(request)
        request.data = body


@contextmanager
def at_time_of(guarded: Guarded) -> Iterator[None]:
    """Let botocore sign at the time of the cloud's clock."""
    at = datetime.fromtimestamp(guarded.clock.now_ms() / 1000, UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=at):
        yield


class SigningLab:
    """The cloud, its callers by kind, and requests that they sign."""

    def __init__(self, guarded: Guarded) -> None:
        self.guarded = guarded
        self.callers = _callers(guarded)

    def send(self, request: HttpRequest) -> HttpResponse:
        """Answer a request."""
        return self.guarded.cloud.handle(request)

    def signed(
        self, way: str, request: AWSRequest, caller: Caller | None, scope: str
    ) -> HttpRequest:
        """Return a request that a caller has signed in one of `WAYS`, for the service `scope`."""
        ours = AWSRequest(
            request.method, request.url, headers=dict(request.headers), data=request.data
        )
        if caller is not None:
            WAYS[way](caller.credentials, scope).add_auth(ours)
        arrived = http_request_of(ours.prepare())
        arrived.headers.setdefault("host", HOST)
        return arrived


def _v4(credentials: Credentials, scope: str) -> Any:
    return (S3SigV4Auth if scope == "s3" else SigV4Auth)(credentials, scope, REGION)


def _query(credentials: Credentials, scope: str) -> Any:
    kind = S3SigV4QueryAuth if scope == "s3" else _QueryBesideBody
    return kind(credentials, scope, REGION, expires=_EXPIRES_S)


WAYS: dict[str, Callable[[Credentials, str], Any]] = {
    "header": _v4,
    "query": _query,
    "old header": lambda credentials, _: HmacV1Auth(credentials),
    "old query": lambda credentials, _: HmacV1QueryAuth(credentials, expires=_EXPIRES_S),
}


def _callers(guarded: Guarded) -> dict[str, Caller]:
    iam, sts = guarded.client("iam"), guarded.client("sts")
    iam.create_role(
        RoleName="reader",
        AssumeRolePolicyDocument=json.dumps(trust(f"arn:aws:iam::{ACCOUNT}:root")),
    )
    iam.create_role(
        RoleName="idle", AssumeRolePolicyDocument=json.dumps(trust(f"arn:aws:iam::{ACCOUNT}:root"))
    )
    iam.put_role_policy(RoleName="reader", PolicyName="own", PolicyDocument=EVERYTHING)
    keys = guarded.cloud.cloud.keys
    assert keys is not None
    others = guarded.client("iam", OTHER, keys.secret_for(OTHER))
    callers = {
        "root": Caller(guarded.credentials(), f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT),
        "user with the policy": _user(iam, "ann", EVERYTHING),
        "user without a policy": _user(iam, "bob", ""),
        "role session": _session(sts, "reader"),
        "role session without a policy": _session(sts, "idle"),
        "another account's root": Caller(
            Credentials(OTHER, keys.secret_for(OTHER)), f"arn:aws:iam::{OTHER}:root", OTHER
        ),
        "another account's user": _user(others, "eve", EVERYTHING),
    }
    # Issued two hours ago, for one.
    guarded.clock.advance(-7200)
    with at_time_of(guarded):
        callers["expired session"] = _session(guarded.client("sts"), "reader", name="old")
    guarded.clock.advance(7200)
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY"
    own = callers["user with the policy"].credentials
    session = callers["role session"].credentials
    callers["unknown key"] = Caller(Credentials("AKIAIOSFODNN7EXAMPLE", secret))
    callers["wrong secret"] = Caller(Credentials(own.access_key, secret))
    callers["session without its token"] = Caller(
        Credentials(session.access_key, session.secret_key)
    )
    return callers


def _user(iam: Any, name: str, policy: str) -> Caller:
    made = iam.create_user(UserName=name)["User"]
    if policy:
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    credentials = Credentials(key["AccessKeyId"], key["SecretAccessKey"])
    return Caller(credentials, made["Arn"], made["UserId"])


def _session(sts: Any, role: str, name: str = "s1") -> Caller:
    made = sts.assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{role}", RoleSessionName=name, DurationSeconds=3600
    )
    keys, who = made["Credentials"], made["AssumedRoleUser"]
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    return Caller(credentials, who["Arn"], who["AssumedRoleId"])


def said(answer: HttpResponse) -> Refusal:
    """Return the code and the status of an answer; the code is empty for a success."""
    assert isinstance(answer.body, bytes)
    if answer.status < 300:
        return "", answer.status
    text = answer.body.decode()
    found = re.search(r"<Code>(.*?)</Code>", text)
    if found is not None:
        return found[1], answer.status
    kind = {name.lower(): value for name, value in answer.headers}.get("x-amzn-errortype", "")
    members = json.loads(text) if text.startswith("{") else {}
    code = str(members.get("__type") or kind)
    return code.rpartition("#")[2].partition(":")[0], answer.status
