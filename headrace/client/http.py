"""Sends HTTP requests to a cloud's own pages. Standard library only."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

_without_proxies = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def is_here(url: str) -> bool:
    """Whether a URL names this machine, for which no proxy is used."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.endswith(".localhost") or host.startswith("127.")


def ask(request: urllib.request.Request | str, timeout_s: float) -> Any:
    """Send a request and return the answer, a context manager. Proxies are used for other machines only.

    Raises OSError, urllib's HTTPError among them, or ValueError when the text is not a URL.
    """
    url = request if isinstance(request, str) else request.full_url
    try:
        if is_here(url):
            return _without_proxies.open(request, timeout=timeout_s)
        return urllib.request.urlopen(request, timeout=timeout_s)
    except HTTPException as error:
        raise OSError(f"{url} does not speak HTTP") from error
