"""The CORS headers of function URLs, according to their Cors configuration.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html (documented).
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.shapes.lambda_ import Cors

# The methods that a page may use without a preflight request if there is no AllowMethods.
_SIMPLE_METHODS = ("GET", "HEAD", "POST")


class FunctionUrlRules:
    """Decides by Cors configurations about browsers' requests. Implements `browser_rules.OwnRules`."""

    def __init__(
        self,
        is_function_url: Callable[[HttpRequest], bool],
        has_own_host: Callable[[HttpRequest], bool],
        cors_of: Callable[[HttpRequest], Cors],
    ) -> None:
        """Take the functions that recognise function URLs and their hosts, and that return a Cors configuration."""
        self._is_function_url = is_function_url
        self._has_own_host = has_own_host
        self._cors_of = cors_of

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`."""
        return self._is_function_url(request)

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`."""
        return self._has_own_host(request)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`. With a Cors configuration, headrace answers preflight requests for the function."""
        cors = self._cors_of(request)
        if not cors:
            return False
        if request.method == "OPTIONS" and "origin" in request.headers:
            return True
        methods = cors.get("AllowMethods") or _SIMPLE_METHODS
        may = request.method in methods or "*" in methods
        return may and _find_allowed_origin(cors, origin) is not None


def _find_allowed_origin(cors: Cors, origin: str) -> str | None:
    for pattern in cors.get("AllowOrigins", []):
        if pattern == "*":
            return origin if cors.get("AllowCredentials") else "*"
        head, star, tail = pattern.partition("*")
        long_enough = len(origin) >= len(head) + len(tail)
        inside = origin.startswith(head) and origin.endswith(tail) and long_enough
        if origin == pattern or (star and inside):
            return origin
    return None


def build_cors_headers(cors: Cors, request: HttpRequest) -> list[tuple[str, str]]:
    """Return the CORS headers of a response to a page of an allowed origin, or [] for any other request."""
    sent = request.headers.get("origin")
    origin = None if sent is None else _find_allowed_origin(cors, sent)
    if origin is None:
        return []
    headers = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
    if cors.get("AllowCredentials"):
        headers.append(("Access-Control-Allow-Credentials", "true"))
    exposed = cors.get("ExposeHeaders")
    if exposed:
        headers.append(("Access-Control-Expose-Headers", ",".join(exposed)))
    return headers


def answer_preflight(cors: Cors, request: HttpRequest) -> HttpResponse:
    """Answer a browser's preflight request without invoking the function."""
    headers = build_cors_headers(cors, request)
    if headers:
        for allowed, name in (
            (cors.get("AllowMethods"), "Access-Control-Allow-Methods"),
            (cors.get("AllowHeaders"), "Access-Control-Allow-Headers"),
        ):
            if allowed:
                headers.append((name, ",".join(allowed)))
        if "MaxAge" in cors:
            headers.append(("Access-Control-Max-Age", str(cors["MaxAge"])))
        if request.headers.get("access-control-request-private-network") == "true":
            # AWS does not send this header; browsers require it from servers on the same machine or in a local network.
            headers.append(("Access-Control-Allow-Private-Network", "true"))
    return HttpResponse(200, headers)
