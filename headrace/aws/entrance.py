"""All that stands between the socket and the services: the front door for browsers, and with `--auth` the keys.

`headrace.cloud` asks it before the body of a request is read, before a request is answered, and before the pages and
function URLs, which the gateway does not see. Thread-safe.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from headrace.aws.authentication import Authentication
from headrace.aws.errors import AwsError
from headrace.aws.front_door import FrontDoor, is_of_a_browser
from headrace.aws.gateway import Gateway, scope_of
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Call
from headrace.aws.page_access import MOST_ANSWER_BYTES, PageAccess, is_answer, without_cookie
from headrace.aws.pages import is_admin, json_response
from headrace.aws.refusals import error_answer
from headrace.core.clock import Clock

Answer = HttpResponse | Future[HttpResponse]
# Of a request to a function URL, on AWS too.
MOST_FUNCTION_URL_BYTES = 6 * 1024 * 1024


class Entrance:
    """Judges requests. With no `authentication`, who sends them is not asked."""

    def __init__(
        self,
        door: FrontDoor,
        *,
        gateway: Gateway,
        is_function_url: Callable[[HttpRequest], bool],
        authentication: Authentication | None,
        clock: Clock,
    ) -> None:
        self._door = door
        self._gateway = gateway
        self._is_function_url = is_function_url
        self._authentication = authentication
        self._page_access = None if authentication is None else PageAccess(authentication)
        self._clock = clock

    def refuse(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return the refusal of a request of which no more than the head has come; None to go on. Never blocks.

        `path` is as on the wire, with its question mark and query if they are known yet.
        """
        if self._page_access is None and self._door.is_plain(headers):
            return None
        path, is_whole, query = path.partition("?")
        request = HttpRequest(method, path, query, dict(headers))
        refusal = self._door.refusal_of(request)
        if refusal is not None or self._page_access is None or method == "OPTIONS":
            return refusal  # browsers ask without signing, and send no body
        if not is_whole and "authorization" not in headers:
            return None  # it may be presigned
        if self._is_function_url(request) or is_answer(request):
            return _refuse_large(request)
        if is_admin(path):
            return self._page_access.head_refusal_of(request, self._clock.now_ms())
        return self._gateway.refusal_of(request)

    def visit(self, request: HttpRequest, answer: Callable[[HttpRequest], Answer]) -> Answer:
        """Let a browser in or refuse it, or whoever asks by a name that is not known yet; `answer` answers."""
        door = self._door
        early = door.refusal_of(request) or door.preflight_of(request)
        if early is not None:
            return early
        answered = answer(request)
        if is_of_a_browser(request):
            if isinstance(answered, HttpResponse):
                door.dress(request, answered)
            else:
                # Runs before whoever waits for the Future is told.
                answered.add_done_callback(functools.partial(_dress, door, request))
        return answered

    def page_answer(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal of a request to the cloud's own pages, or what opens them; None to go on."""
        if self._page_access is None:
            return None
        return self._page_access.answer_of(request, self._clock.now_ms())

    def knows(self, request: HttpRequest) -> bool:
        """Whether a request to a page that is everybody's is of somebody who may see all of it."""
        access = self._page_access
        return access is None or access.knows(request, self._clock.now_ms())

    def caller_refusal(self, request: HttpRequest) -> HttpResponse | None:
        """Refuse who signs a request to a function URL wrongly; who does not sign, the URL's AuthType judges."""
        if self._authentication is None:
            return None
        without_cookie(request)
        if not scope_of(request).access_key:
            return None
        now_ms = self._clock.now_ms()
        try:
            key = self._authentication.verify(request, "lambda", now_ms)
        except AwsError as error:
            return error_answer(request, "lambda", error, "")
        account = key.account or self._gateway.account_of(key.id)
        request.call = Call(account, "", "", now_ms, "lambda", access_key=key.id)
        return None


def _refuse_large(request: HttpRequest) -> HttpResponse | None:
    """Refuse what anybody may send without a key, unless it says that it is small."""
    headers = request.headers
    length = headers.get("content-length", "" if "transfer-encoding" in headers else "0")
    if not length.isdigit():
        return json_response({"message": "The request must say its length."}, 411)
    if int(length) > (MOST_ANSWER_BYTES if is_answer(request) else MOST_FUNCTION_URL_BYTES):
        return json_response({"message": "Request Entity Too Large"}, 413)
    return None


def _dress(door: FrontDoor, request: HttpRequest, answer: Future[HttpResponse]) -> None:
    if answer.exception() is None:
        door.dress(request, answer.result())
