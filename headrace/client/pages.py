"""Sends HTTP requests to a cloud's own pages. Standard library only.

Asks a running cloud which requests AWS would deny and why, and for the smallest policy for a role.

    for row in Iam("http://127.0.0.1:4566").report()["denied"]:
        print(row["principal"], row["action"], row["resource"], row["reason"])

Standard library only. Requests are signed for a cloud with `--auth`, see `headrace.client.signing`. Not thread-safe.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from headrace.client.signing import find_keys, signed_headers

# Imported by the first request: a command that sends none starts sooner.
if TYPE_CHECKING:
    from urllib.request import OpenerDirector, Request

_PATH = "/_headrace/iam"
_TIMEOUT_S = 60.0


class IamError(Exception):
    """The cloud cannot answer, or there is no cloud; the message is one sentence."""


class Iam:
    """The permissions report of one cloud."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        """Take the cloud's URL; default: AWS_ENDPOINT_URL. This sends nothing yet."""
        url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or "http://127.0.0.1:4566"
        self._url = url.rstrip("/") + _PATH

    def report(self) -> dict[str, Any]:
        """Return the requests that AWS would deny (`denied`), and how many were checked. Raises IamError."""
        return self._ask("GET", "?format=json", "denied")

    def clear(self) -> int:
        """Clear the report; return how many accesses it had. Raises IamError."""
        return int(self._ask("DELETE", "", "forgotten")["forgotten"])

    def policy(self, role: str) -> dict[str, Any]:
        """Return the smallest policy for a role's requests, and the statements that none used. Raises IamError."""
        return self._ask("GET", f"/policy?{urlencode({'role': role})}", "policy")

    def why(self, arn: str, action: str, resource: str) -> dict[str, Any]:
        """Return the decision on an access, statement by statement. Raises IamError."""
        query = urlencode({"arn": arn, "action": action, "resource": resource})
        return self._ask("GET", f"/why?{query}", "allowed")

    def _ask(self, method: str, path: str, expected: str) -> dict[str, Any]:
        from urllib.error import HTTPError
        from urllib.request import Request

        request = Request(self._url + path, method=method)
        for name, text in signed_headers(find_keys(), method, request.full_url, b"").items():
            request.add_header(name, text)
        try:
            with ask(request, _TIMEOUT_S) as response:
                answer: Any = json.load(response)
        except HTTPError as error:
            with error:
                raise IamError(self._sentence(error.read())) from None
        except OSError as error:
            raise IamError(f"No cloud answers at {self._url}; start one: headrace up") from error
        except ValueError as error:
            raise IamError(f"{self._url} is not a headrace cloud's page.") from error
        if not (isinstance(answer, dict) and expected in answer):
            raise IamError(f"{self._url} is not a headrace cloud's page.")
        return cast("dict[str, Any]", answer)

    def _sentence(self, body: bytes) -> str:
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return f"{self._url} is not a headrace cloud's page."


@functools.cache
def _without_proxies() -> OpenerDirector:
    from urllib.request import ProxyHandler, build_opener

    return build_opener(ProxyHandler({}))


def is_here(url: str) -> bool:
    """Whether a URL names this machine, for which no proxy is used."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.endswith(".localhost") or host.startswith("127.")


def ask(request: Request | str, timeout_s: float) -> Any:
    """Send a request and return the answer, a context manager. Proxies are used for other machines only.

    Raises OSError, urllib's HTTPError among them, or ValueError when the text is not a URL.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    url = request if isinstance(request, str) else request.full_url
    try:
        if is_here(url):
            return _without_proxies().open(request, timeout=timeout_s)
        return urlopen(request, timeout=timeout_s)
    except HTTPException as error:
        raise OSError(f"{url} does not speak HTTP") from error
