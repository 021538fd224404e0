"""Decides with `--auth` who may see headrace's own pages: programs that sign requests, people who have the token.

Programs sign for the service `headrace`. People open the address that `headrace up` prints; its token becomes a cookie
that no script can read and no other site can send; it allows reading, and the dashboard's writes with their token.
Everybody may read health.

Answers a Spark job that asks whether its role may read or write a file in S3: `/_headrace/iam/s3`. The job's FileSystem
asks (`headrace/spark_submit/java/S3OfRole.java`) with a line for each S3 request that it would make: the operation, the
bucket and the key, quoted. A header holds the role's session token, which identifies the job.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import is_restricted
from headrace.aws.gateway.documents import API, json_response, refuse, refuse_large, restrain
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.aws.signatures.sigv4 import is_same
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.cloudformation.signals import PATH as ANSWERS_PATH

SERVICE = "headrace"
COOKIE = "headrace_pages"
_TOKEN = "token"
_COOKIE_LASTS_S = 30 * 24 * 3600
_READING = ("GET", "HEAD")
# Open to everybody: health; the answers of custom resources, whose path nobody can guess; and the S3 accesses of Spark
# jobs, which carry a session token.
_OPEN = ("/_headrace/health", "/_localstack/health", "/_localstack/init", "/_localstack/init/ready")
# More than AWS allows for a custom resource's answer: the stack reports one that is too long, and only a far longer
# one is refused here.
MOST_ANSWER_BYTES = 64 * 1024
# A job that moves a folder names all files in it.
MOST_ACCESS_BYTES = 16 * 1024 * 1024


class PageAccess:
    """Allows or refuses requests to headrace's own paths. Thread-safe."""

    def __init__(self, authentication: Authentication, *, for_operators: bool = False) -> None:
        """With `for_operators`, keys of users and sessions open nothing: no policy is about these pages."""
        self._authentication = authentication
        self._for_operators = for_operators
        token = authentication.keys.page_token
        self._token = token
        self._cookie = hmac.digest(token.encode(), COOKIE.encode(), "sha256").hex()

    def answer_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return a request's refusal, or the redirect that turns its token into a cookie; None lets it pass."""
        if _is_open(request) or self.knows(request, now_ms):
            return None
        if request.method in _READING and request.query:
            answer = self._take_token(request)
            if answer is not None:
                return answer
        return _key_needed(request)

    def head_refusal_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return a request's refusal when only its headers have arrived. Never blocks."""
        if request.path.startswith(ANSWERS_PATH):
            return refuse_large(request, MOST_ANSWER_BYTES)
        if request.path == S3_PATH:
            return refuse_large(request, MOST_ACCESS_BYTES)
        if _is_open(request) or request.method in _READING:
            return None
        if scope_of(request).service == SERVICE:
            try:
                self._authentication.verify_head(request, SERVICE, now_ms)
            except AwsError:
                return _key_needed(request)
            return None
        if _may_by_cookie(request) and is_same(self._cookie, _cookie_of(request)):
            return None
        return _key_needed(request)

    def knows(self, request: HttpRequest, now_ms: int) -> bool:
        """Whether a request has a valid signature or the pages' cookie."""
        if "authorization" in request.headers:
            if scope_of(request).service != SERVICE:
                return False
            try:
                key = self._authentication.verify(request, SERVICE, now_ms)
            except AwsError:
                return False
            is_operator = key in self._authentication.keys.operators or not is_restricted(key.id)
            return is_operator or not self._for_operators
        return _may_by_cookie(request) and is_same(self._cookie, _cookie_of(request))

    @staticmethod
    def hide_cookie(request: HttpRequest) -> None:
        """Remove the pages' cookie from a request before a function sees it."""
        cookies = request.headers.get("cookie")
        if cookies is None or COOKIE not in cookies:
            return
        kept = [part for part in cookies.split(";") if part.partition("=")[0].strip() != COOKIE]
        if kept:
            request.headers["cookie"] = ";".join(kept).strip()
        else:
            del request.headers["cookie"]

    def _take_token(self, request: HttpRequest) -> HttpResponse | None:
        params = parse_qsl(request.query, keep_blank_values=True)
        if not any(name == _TOKEN and is_same(self._token, value) for name, value in params):
            return None
        rest = urlencode([(name, value) for name, value in params if name != _TOKEN])
        cookie = f"{COOKIE}={self._cookie}; Path=/_headrace; Max-Age={_COOKIE_LASTS_S}; HttpOnly; SameSite=Strict"
        # Redirect to the same page without the token, so that the token does not stay in the address.
        there = f"{request.path}?{rest}" if rest else request.path
        headers = [("Location", there), ("Set-Cookie", cookie), ("Cache-Control", "no-store")]
        return restrain(HttpResponse(303, headers))


def _may_by_cookie(request: HttpRequest) -> bool:
    """Whether the cookie is enough: for reading, and for the dashboard's writes, which bring its token too."""
    return request.method in _READING or (request.method == "POST" and request.path.startswith(API))


def _key_needed(request: HttpRequest) -> HttpResponse:
    return refuse(
        request,
        403,
        "KeyNeeded",
        "This cloud was started with --auth: open its pages at the address that headrace up printed, or sign the"
        " request for the service headrace.",
    )


def _is_open(request: HttpRequest) -> bool:
    """Whether anybody may send a request."""
    if request.path in _OPEN:
        return request.method in _READING
    if request.path == S3_PATH:
        return request.method == "POST"
    return request.method == "PUT" and request.path.startswith(ANSWERS_PATH)


def _cookie_of(request: HttpRequest) -> str:
    try:
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


S3_PATH = "/_headrace/iam/s3"
_S3_OPERATIONS = frozenset({"GetObject", "PutObject", "DeleteObject", "ListObjectsV2"})


def answer_s3_access(decisions: Decisions, request: HttpRequest, __: list[str]) -> HttpResponse:
    """Record the accesses. Answer 204 if allowed, 403 with AWS's sentence if denied, 400 for a malformed request."""
    key = request.headers.get("x-headrace-key", "")
    token = request.headers.get("x-headrace-token", "")
    if decisions.mode == "off":
        return HttpResponse(204, [])
    # Nothing else proves who asks: a key alone is no secret.
    is_session = decisions.is_session(key, token)
    permit = decisions.permit_of(key, token, decisions.account) if is_session else None
    if permit is None:
        return json_response({"message": "Give the key and the token of a role's session."}, 400)
    region = request.headers.get("x-headrace-region", "") or decisions.region
    acting = permit.acting
    account = decisions.account if acting is None else acting.arn.split(":")[4]
    for line in request.body.decode(errors="replace").splitlines():
        operation, _, target = line.partition(" ")
        bucket, _, quoted = target.partition(" ")
        if operation not in _S3_OPERATIONS:
            return json_response({"message": f"{line} is not an access to S3."}, 400)
        params = _s3_params(operation, bucket, unquote_plus(quoted))
        try:
            permit.ask("s3", operation, params, account=account, region=region)
        except AwsError as refusal:
            return HttpResponse(
                403, [("Content-Type", "text/plain; charset=utf-8")], refusal.message.encode()
            )
    return HttpResponse(204, [])


def _s3_params(operation: str, bucket: str, key: str) -> dict[str, Any]:
    if operation == "ListObjectsV2":
        # As S3A lists: the prefix is the folder; for the bucket's root it is empty.
        return {"Bucket": bucket, "Prefix": f"{key}/" if key else "", "Delimiter": "/"}
    return {"Bucket": bucket, "Key": key}
