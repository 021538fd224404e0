"""Decides with `--auth` who may see headrace's own pages: programs that sign requests, people who have the token.

Programs sign for the service `headrace`. People open the address that `headrace up` prints; its token becomes a cookie
that no script can read and no other site can send; it allows reading, and the dashboard's writes with their token.
Everybody may read health.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import is_restricted
from headrace.aws.gateway.documents import API, refuse, refuse_large, restrain
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.aws.signatures.sigv4 import is_same
from headrace.pages.s3_access import PATH as ACCESS_PATH
from headrace.services.cloudformation.signals import PATH as ANSWERS_PATH

SERVICE = "headrace"
COOKIE = "headrace_pages"
_TOKEN = "token"
_COOKIE_LASTS_S = 30 * 24 * 3600
_READING = ("GET", "HEAD")
# Open to everybody: health; the answers of custom resources, whose path nobody can guess; and the S3 accesses of Spark
# jobs, which carry a session token.
_OPEN = ("/_headrace/health", "/_localstack/health")
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
        if request.path == ACCESS_PATH:
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
    if request.path == ACCESS_PATH:
        return request.method == "POST"
    return request.method == "PUT" and request.path.startswith(ANSWERS_PATH)


def _cookie_of(request: HttpRequest) -> str:
    try:
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value
