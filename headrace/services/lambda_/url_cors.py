"""Cross-origin headers of function URLs, as their Cors configuration says.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html (documented).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.http import HttpRequest, HttpResponse


def _allowed_origin(cors: Mapping[str, Any], request: HttpRequest) -> str | None:
    origin = request.headers.get("origin")
    if origin is None:
        return None
    for pattern in cors.get("AllowOrigins", []):
        if pattern == "*":
            return origin if cors.get("AllowCredentials") else "*"
        head, star, tail = pattern.partition("*")
        long_enough = len(origin) >= len(head) + len(tail)
        inside = origin.startswith(head) and origin.endswith(tail) and long_enough
        if origin == pattern or (star and inside):
            return origin
    return None


def cors_headers(cors: Mapping[str, Any], request: HttpRequest) -> list[tuple[str, str]]:
    """Return the headers of an answer to a page of an allowed origin; none to others."""
    origin = _allowed_origin(cors, request)
    if origin is None:
        return []
    headers = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
    if cors.get("AllowCredentials"):
        headers.append(("Access-Control-Allow-Credentials", "true"))
    if cors.get("ExposeHeaders"):
        headers.append(("Access-Control-Expose-Headers", ",".join(cors["ExposeHeaders"])))
    return headers


def preflight(cors: Mapping[str, Any], request: HttpRequest) -> HttpResponse:
    """Answer a browser's question, without the function."""
    headers = cors_headers(cors, request)
    if headers:
        for member, name in (
            ("AllowMethods", "Access-Control-Allow-Methods"),
            ("AllowHeaders", "Access-Control-Allow-Headers"),
        ):
            if cors.get(member):
                headers.append((name, ",".join(cors[member])))
        if "MaxAge" in cors:
            headers.append(("Access-Control-Max-Age", str(cors["MaxAge"])))
    return HttpResponse(200, headers)
