"""Decides which Host headers name this cloud: the machine's addresses, `localhost`, names that SDKs derive.

A web page whose domain name resolves to 127.0.0.1 (DNS rebinding) has the same origin as the server there, so only the
name distinguishes its requests from the user's own tools. Names that nobody else can point at an address are accepted;
every other name must be listed by `--allow-host`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

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
