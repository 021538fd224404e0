"""Finds the origin of the web page that made a browser send a request, and decides whether it is allowed.

A browser names the page's origin in `Origin` whenever the request can change something or its answer can be read, and
newer ones say in `Sec-Fetch-Site` how near the page is (https://www.w3.org/TR/fetch-metadata/, documented). A page can
neither omit nor change these headers. Programs send neither, and their requests have no origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The opaque origin: of a sandboxed frame, a file, or a request that another site redirected.
NULL = "null"
# An unnamed page of another site: for an image or a link of a page that withholds its address.
UNNAMED = ""

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#\s@,*]+)(?=[/?#]|$)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
_OWN_SITES = ("same-origin", "none")


class OriginRefused(ValueError):
    """The value of `--allow-origin` is not an origin; the message is one sentence."""


def origin_of(url: str) -> str | None:
    """Return the origin of a URL as browsers write it; None when it has none."""
    match = _ORIGIN.match(url.lower())
    if match is None:
        return None
    scheme, host = match.groups()
    return f"{scheme}://{host.removesuffix(_DEFAULT_PORTS.get(scheme, ' '))}"


def foreign_origin(headers: Mapping[str, str]) -> str | None:
    """Return the origin of the page that sent a request; None for this cloud's own pages and for programs.

    NULL and UNNAMED are foreign too. The caller has checked that the Host header names this cloud.
    """
    origin = headers.get("origin")
    near = headers.get("sec-fetch-site") in (None, *_OWN_SITES)
    if origin is None:
        if near:
            return None
        return origin_of(headers.get("referer", "")) or UNNAMED
    if is_own(origin, headers):
        # Own, but redirected by another site: browsers send null then, and headrace does the same.
        return None if near else NULL
    return origin.lower()


def page_origin(headers: Mapping[str, str]) -> str | None:
    """Return the origin of the page that sent a request, even the cloud's own; None when no page is known."""
    foreign = foreign_origin(headers)
    if foreign is not None:
        return foreign
    if "origin" in headers or headers.get("sec-fetch-site") == "same-origin":
        return own_origin(headers)
    return None


def is_own(origin: str, headers: Mapping[str, str]) -> bool:
    """Whether `origin` is the origin of the address to which a request was sent."""
    return origin.lower() == own_origin(headers)


def own_origin(headers: Mapping[str, str]) -> str:
    """Return the origin of documents under the Host of a request."""
    return f"http://{headers.get('host', '').lower().removesuffix(':80')}"


class AllowedOrigins:
    """The origins of `--allow-origin`, whose pages may use the cloud."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Take origins such as `http://localhost:3000`, or `*`. Raises OriginRefused."""
        listed = [origin.strip() for origin in allowed]
        self.any = "*" in listed
        self._listed = frozenset(_check_origin(origin) for origin in listed if origin != "*")

    def __contains__(self, origin: str) -> bool:
        return self.any or origin in self._listed


def _check_origin(text: str) -> str:
    if text.lower() == NULL:
        raise OriginRefused(
            "--allow-origin does not take null, the origin that any web page can have; to allow every page, use '*'."
        )
    origin = origin_of(text)
    if origin is None or _ORIGIN.fullmatch(text.lower().removesuffix("/")) is None:
        raise OriginRefused(
            f"--allow-origin takes an origin such as http://localhost:3000, or '*', not {text!r}."
        )
    return origin
