"""Who may see the cloud's own pages with `--auth`: programs that sign their requests, people who have the token.

Programs sign for the service `headrace`. People open the address that `headrace up` prints; its token becomes a cookie
that no script can read and no other site can send, and that is good for looking only. Health is everybody's.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from headrace.aws.authentication import Authentication
from headrace.aws.documents import restrained
from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.refusals import refuse_large, refused
from headrace.aws.service_names import scope_of
from headrace.aws.sigv4 import is_same
from headrace.pages.s3_access import PATH as ACCESS_PATH
from headrace.services.cloudformation.custom_responses import PATH as ANSWERS_PATH

SERVICE = "headrace"
COOKIE = "headrace_pages"
_TOKEN = "token"
_COOKIE_LASTS_S = 30 * 24 * 3600
_READING = ("GET", "HEAD")
# Everybody's: health, custom resources' answers, whose path nobody can guess, and what Spark jobs tell of their files,
# with the token of a session.
_OPEN = ("/_headrace/health", "/_localstack/health")
# More than AWS takes of a custom resource: a longer answer is told to its stack, and only a far longer one refused.
MOST_ANSWER_BYTES = 64 * 1024
# A job that moves a folder names all files in it.
MOST_ACCESS_BYTES = 16 * 1024 * 1024


class PageAccess:
    """Judges requests to the cloud's own paths. Thread-safe."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        token = authentication.keys.page_token
        self._token = token
        self._cookie = hmac.digest(token.encode(), COOKIE.encode(), "sha256").hex()

    def answer_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return the refusal of a request, or what makes a token a cookie; None lets it go on."""
        if _is_open(request) or self.knows(request, now_ms):
            return None
        if request.method in _READING and request.query:
            answer = self._take_token(request)
            if answer is not None:
                return answer
        return _key_needed(request)

    def head_refusal_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return the refusal of a request of which only the head has come. Never blocks."""
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
        return _key_needed(request)

    def knows(self, request: HttpRequest, now_ms: int) -> bool:
        """Whether a request comes from somebody who has a key, or the cookie for looking."""
        if "authorization" in request.headers:
            if scope_of(request).service != SERVICE:
                return False
            try:
                self._authentication.verify(request, SERVICE, now_ms)
            except AwsError:
                return False
            return True
        return request.method in _READING and is_same(self._cookie, _cookie_of(request))

    @staticmethod
    def hide_cookie(request: HttpRequest) -> None:
        """Take the pages' cookie away from a request that a function is going to see."""
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
        # To the same page without the token, which is not to stand in the address.
        there = f"{request.path}?{rest}" if rest else request.path
        headers = [("Location", there), ("Set-Cookie", cookie), ("Cache-Control", "no-store")]
        return restrained(HttpResponse(303, headers))


def _key_needed(request: HttpRequest) -> HttpResponse:
    return refused(
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
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
