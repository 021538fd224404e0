"""The first stop of every request: checks it, then passes it to the gateway or refuses it.

The front door checks browsers' requests, `--auth` verifies signatures, and then a function URL, one of the cloud's own
pages or the gateway answers. Thread-safe.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol

from headrace.aws.calls.http import Answer, Handler, HttpRequest, HttpResponse, NeedsThread
from headrace.aws.gateway.browser_rules import BrowserRules, OwnAddresses, is_of_a_browser
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.gateway.documents import (
    MOTO_RESET,
    is_admin,
    is_moto_reset,
    refuse,
    refuse_large,
)
from headrace.aws.server.answers import internal_failure
from headrace.core.clock import Clock

log = logging.getLogger(__name__)

# Of IoT's devices that speak MQTT over WebSocket; S3 would take it for a bucket's name.
_MQTT_PATH = "/mqtt"
# Other requests are the gateway's, unless their host is a resource's own.
_MAYBE_OWN = ("/restapis/", "/_", _MQTT_PATH, MOTO_RESET)
# Of clients of WebSocket APIs, after the stage.
_CONNECTIONS = "/@connections/"


class PageGuard(Protocol):
    """Decides who may see the cloud's own pages. Thread-safe."""

    def head_refusal_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return the refusal of a request by its head alone; None to accept it. Never blocks."""
        ...

    def answer_of(self, request: HttpRequest, now_ms: int) -> HttpResponse | None:
        """Return the refusal of a request, or the answer that logs a browser in; None to accept it."""
        ...

    def hide_cookie(self, request: HttpRequest) -> None:
        """Remove the pages' login cookie from a request to a function."""
        ...


class Entrance:
    """Checks requests and passes them on.

    Args:
        pages: answers a request to one of the cloud's own paths.
        page_guard: with `--auth` only.
    """

    def __init__(
        self,
        door: BrowserRules,
        *,
        gateway: Gateway,
        own_addresses: OwnAddresses,
        pages: Callable[[HttpRequest], HttpResponse],
        page_guard: PageGuard | None,
        clock: Clock,
    ) -> None:
        self._door = door
        self._hosts = door.hosts
        self._gateway = gateway
        self._own_addresses = own_addresses
        self._pages = pages
        self._page_guard = page_guard
        self._clock = clock

    def refuse(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return the refusal of a request by its head alone; None to accept it. Never blocks.

        `path` is percent-encoded, with question mark and query if they are known yet.
        """
        guard = self._page_guard
        if guard is None and self._is_plain(headers):
            return None
        path, is_whole, query = path.partition("?")
        request = HttpRequest(method, path, query, dict(headers))
        refusal = self._door.refusal_of(request) or _refuse_websocket(request)
        if refusal is not None or guard is None or method == "OPTIONS":
            return refusal  # a browser's preflight is not signed, and has no body
        if not is_whole and "authorization" not in headers:
            return None  # the query may hold a signature
        endpoints = self._own_addresses.endpoints_of(request)
        if endpoints is not None:
            return refuse_large(request, endpoints.most_bytes)
        if is_admin(path):
            return guard.head_refusal_of(request, self._clock.now_ms())
        return self._gateway.refusal_of(request)

    def answer_at_once(self, request: HttpRequest) -> Answer | Handler:
        """Refuse a complete request, or answer it as `answer_or_handler` does. Never raises."""
        is_plain = self._is_plain(request.headers)
        if not is_plain or self._page_guard is not None:
            try:
                path = f"{request.path}?{request.query}"
                refusal = self.refuse(request.method, path, request.headers)
            except Exception:
                log.exception(
                    "whether to refuse %s %s cannot be told", request.method, request.path
                )
                return internal_failure()
            if refusal is not None:
                return refusal
        return self._answer_or_handler(request, is_plain=is_plain)

    def answer_or_handler(self, request: HttpRequest) -> Answer | Handler:
        """Answer an accepted request if it never blocks, else return the function that answers it. Never raises."""
        return self._answer_or_handler(request, is_plain=self._is_plain(request.headers))

    def _answer_or_handler(self, request: HttpRequest, *, is_plain: bool) -> Answer | Handler:
        # Of a plain request neither the host nor, unless it says so, the path is the cloud's own or a function's.
        is_own = request.path != "/" and _may_be_own(request.path)
        of_path = self._answer if is_own else self._gateway.handle
        handler = of_path if is_plain else self._visit
        try:
            # A page or a function may take any time, whatever a request to it has as its target.
            request.at_once = is_plain and not is_own and self._gateway.inline.has(request)
            return handler(request) if request.at_once else handler
        except NeedsThread:
            request.at_once = False
            return handler
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return internal_failure()

    def handle(self, request: HttpRequest) -> Answer:
        """Answer a request."""
        if not self._is_plain(request.headers):
            return self._visit(request)
        if not _may_be_own(request.path):
            return self._gateway.handle(request)
        return self._answer(request)

    def _is_plain(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is not a browser's and its host is known, so that the front door need not check it.

        Kept here rather than in the front door for speed: every request passes.
        """
        return (
            "origin" not in headers
            and "sec-fetch-site" not in headers
            and headers.get("host") in self._hosts.known
            and not headers.get("user-agent", "").startswith("Mozilla/")
        )

    def _visit(self, request: HttpRequest) -> Answer:
        """Check a browser's request, or one with a Host that is not known yet."""
        door = self._door
        early = door.refusal_of(request) or door.preflight_of(request)
        if early is not None:
            return early
        answered = self._answer(request)
        if is_of_a_browser(request):
            if isinstance(answered, HttpResponse):
                door.add_browser_headers(request, answered)
            else:
                # This callback runs before those of the Future's waiters.
                answered.add_done_callback(functools.partial(_add_browser_headers, door, request))
        return answered

    def _answer(self, request: HttpRequest) -> Answer:
        endpoints = self._own_addresses.endpoints_of(request)
        if endpoints is not None:
            refusal = self._caller_refusal(request, endpoints.signing_name)
            return refusal or endpoints.answer(request)
        if is_admin(request.path):
            guard = self._page_guard
            early = None if guard is None else guard.answer_of(request, self._clock.now_ms())
            return early or self._pages(request)
        if is_moto_reset(request):
            return self._pages(request)
        return _refuse_websocket(request) or self._gateway.handle(request)

    def admit(self, request: HttpRequest, service: str) -> HttpResponse | None:
        """Note who signed a request to a port of the cloud's own; return the refusal of a foreign or wrong one."""
        refusal = self._door.refusal_of(request, has_resources=False)
        return refusal or self._gateway.admit(request, service)

    def _caller_refusal(self, request: HttpRequest, service: str) -> HttpResponse | None:
        """Refuse a wrongly signed request to a resource's endpoint, which itself decides about unsigned requests."""
        if self._page_guard is not None:
            self._page_guard.hide_cookie(request)
        return self._gateway.admit(request, service)


def _may_be_own(path: str) -> bool:
    return path != "/" and (path.startswith(_MAYBE_OWN) or _CONNECTIONS in path)


def _refuse_websocket(request: HttpRequest) -> HttpResponse | None:
    """Refuse MQTT over WebSocket by name, whatever signs it; None for another request."""
    if request.path != _MQTT_PATH or "sec-websocket-key" not in request.headers:
        return None
    sentence = (
        "MQTT over WebSocket has ports of its own: start headrace with --mqtt, and connect to wss://HOST:8883/mqtt, or"
        " to ws://HOST:1883/mqtt."
    )
    return refuse(request, 501, "NotImplemented", sentence)


def _add_browser_headers(
    door: BrowserRules, request: HttpRequest, answer: Future[HttpResponse]
) -> None:
    if answer.exception() is None:
        door.add_browser_headers(request, answer.result())
