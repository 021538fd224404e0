"""Decides which Host headers name this cloud: the machine's addresses, `localhost`, names that SDKs derive.

A web page whose domain name resolves to 127.0.0.1 (DNS rebinding) has the same origin as the server there, so only the
name distinguishes its requests from the user's own tools. Names that nobody else can point at an address are accepted;
every other name must be listed by `--allow-host`.

Finds the origin of the web page that made a browser send a request, and decides whether it is allowed.

A browser names the page's origin in `Origin` whenever the request can change something or its answer can be read, and
newer ones say in `Sec-Fetch-Site` how near the page is (https://www.w3.org/TR/fetch-metadata/, documented). A page can
neither omit nor change these headers. Programs send neither, and their requests have no origin.
"""

from __future__ import annotations

import ipaddress
import re
import socket
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


# How many names are cached; beyond that the cache is emptied.
MOST_REMEMBERED = 1000

# A name or an address in brackets, and a port. Any other Host, an empty one too, is not this cloud's.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::[0-9]{1,5})?")
_OF_A_RESOURCE = (".lambda-url.", ".execute-api.")
_LOCAL_NAMES = ("localhost", "localhost.localstack.cloud")
_ALLOWED = re.compile(r"\*|(?:\*\.)?[0-9a-z_-][0-9a-z._-]*|\[?[0-9a-f:.]+\]?")


class HostRefused(ValueError):
    """The value of `--allow-host` is not a host's name; the message is one sentence."""


class Hosts:
    """Decides which Host headers name this cloud. Thread-safe: its set only grows, or is emptied whole.

    Attributes:
        known: headers that were found to be this cloud's, for direct lookups where every microsecond counts. The hosts
            of functions and APIs are never in it. None is in it: a request without Host does not come from a browser,
            and the server refuses it on a socket.
    """

    def __init__(self, allowed: Iterable[str] = (), *, bound: str = "127.0.0.1") -> None:
        """Take the names of `--allow-host`: `name`, `*.name` or `*`, without ports. Raises HostRefused.

        `bound` is the name or address that the cloud listens on, which is also one of its names.
        """
        self.known: set[str | None] = {None}
        self._names: set[str] = {*_LOCAL_NAMES, bound.lower()}
        self._suffixes = {f".{name}" for name in _LOCAL_NAMES}
        self._any = False
        for name in allowed:
            self._allow(name.strip().lower().rstrip("."))

    def _allow(self, name: str) -> None:
        if _ALLOWED.fullmatch(name) is None:
            raise HostRefused(
                f"--allow-host takes a host's name without a port, such as cloud.test or *.test, not {name!r}."
            )
        if name == "*":
            self._any = True
        elif name.startswith("*."):
            self._suffixes.add(name[1:])
        else:
            self._names.add(name.strip("[]"))

    def owns(self, host: str) -> bool:
        """Whether a Host header (or HTTP/2's `:authority`) is this cloud's."""
        if host in self.known:
            return True
        if not self._is_ours(host):
            return False
        if not any(mark in host for mark in _OF_A_RESOURCE):
            if len(self.known) >= MOST_REMEMBERED:
                self.known = {None}
            self.known.add(host)
        return True

    def _is_ours(self, host: str) -> bool:
        if self._any:
            return True
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match[1] or match[2]).lower().removesuffix(".")
        if name in self._names or any(name.endswith(suffix) for suffix in self._suffixes):
            return True
        return _is_own_address(name)


def _is_own_address(text: str) -> bool:
    """Whether `text` is an address of this machine, or a name below a loopback one, as in `bucket.127.0.0.1`.

    No DNS resolver is asked for these, so nobody else can point such a name at this machine.
    """
    address = _address(text)
    if address is None:
        below = re.fullmatch(r".+\.(127\.[0-9]+\.[0-9]+\.[0-9]+)", text)
        return below is not None and _address(below[1]) is not None
    return address.is_loopback or address.is_unspecified or _is_of_an_interface(address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_of_an_interface(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an interface of this machine has the address: only then can a socket be bound to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` is reachable from this machine only. Raises OSError for an unknown name."""
    address = _address(host)
    if address is not None:
        return address.is_loopback
    addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in addresses)
