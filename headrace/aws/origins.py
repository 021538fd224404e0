"""Decides by a request's headers which site's page made the browser send it, and which sites may.

A browser names the page's origin in `Origin` whenever the request can change something or its answer can be read, and
newer ones say in `Sec-Fetch-Site` how near the page is (https://www.w3.org/TR/fetch-metadata/, documented). A page
can neither leave these out nor change them. Programs send neither, and their requests are nobody's page's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The origin of a page that must not have one: of a sandboxed frame, a file, what a redirect from elsewhere leads to.
NULL = "null"
# Of another site, which is not named: an image or a link of a page that withholds its address.
UNNAMED = ""

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#\s@,*]+)(?=[/?#]|$)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
_OWN_SITES = ("same-origin", "none")


class OriginRefused(ValueError):
    """What `--allow-origin` was given is no origin; its text is one sentence."""


def origin_of(url: str) -> str | None:
    """Return the origin of a URL as browsers write it; None when it has none."""
    match = _ORIGIN.match(url.lower())
    if match is None:
        return None
    scheme, host = match.groups()
    return f"{scheme}://{host.removesuffix(_DEFAULT_PORTS.get(scheme, ' '))}"


def foreign_origin(headers: Mapping[str, str]) -> str | None:
    """Return the origin of the page that a request comes from: None when it is this cloud's own, or no page's.

    NULL and UNNAMED are foreign too. The Host header has been found to be ours before.
    """
    origin = headers.get("origin")
    near = headers.get("sec-fetch-site") in (None, *_OWN_SITES)
    if origin is None:
        if near:
            return None
        return origin_of(headers.get("referer", "")) or UNNAMED
    if is_own(origin, headers):
        # Own, but led through another site: browsers say null then, and so do we.
        return None if near else NULL
    return origin.lower()


def page_origin(headers: Mapping[str, str]) -> str | None:
    """Return the origin of the page that a request comes from, be it the cloud's own; None when no page is known of."""
    foreign = foreign_origin(headers)
    if foreign is not None:
        return foreign
    if "origin" in headers or headers.get("sec-fetch-site") == "same-origin":
        return own_origin(headers)
    return None


def is_own(origin: str, headers: Mapping[str, str]) -> bool:
    """Whether `origin` is that of the address which a request was sent to."""
    return origin.lower() == own_origin(headers)


def own_origin(headers: Mapping[str, str]) -> str:
    """Return the origin of what is answered under the Host of a request."""
    return f"http://{headers.get('host', '').lower().removesuffix(':80')}"


class AllowedOrigins:
    """The origins of `--allow-origin`, whose pages may use the whole cloud."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Take origins such as `http://localhost:3000`, or `*`. Raises OriginRefused."""
        listed = [origin.strip() for origin in allowed]
        self.any = "*" in listed
        self._listed = frozenset(_checked(origin) for origin in listed if origin != "*")

    def __contains__(self, origin: str) -> bool:
        return self.any or origin in self._listed


def _checked(text: str) -> str:
    if text.lower() == NULL:
        raise OriginRefused(
            "--allow-origin does not take null, which any web page can make itself; to let every page in say '*'."
        )
    origin = origin_of(text)
    if origin is None or _ORIGIN.fullmatch(text.lower().removesuffix("/")) is None:
        raise OriginRefused(
            f"--allow-origin takes an origin such as http://localhost:3000, or '*', not {text!r}."
        )
    return origin
