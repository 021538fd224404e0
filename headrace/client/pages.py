"""Sends HTTP requests to a cloud's own pages. Standard library only.

Asks a running cloud which requests AWS would deny and why, and for the smallest policy for a role.

    for row in Iam("http://127.0.0.1:4566").report()["denied"]:
        print(row["principal"], row["action"], row["resource"], row["reason"])

Requests are signed, as `headrace up --auth` requires. The keys come from the environment (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or else from the cloud's data directory (HEADRACE_DATA_DIR, or `.headrace`).
Without keys, requests are not signed, which a cloud without `--auth` accepts. Not thread-safe.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

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


_SERVICE = "headrace"
_REGION = "us-east-1"
_ALGORITHM = "AWS4-HMAC-SHA256"
_SECRETS_FILE = "auth.json"


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key id, its secret, and its session token, if any."""

    access_key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def find_keys(
    environment: Mapping[str, str] | None = None, data_dir: Path | None = None
) -> Keys | None:
    """Return the keys of the environment, else those of the data directory; None when there are none."""
    values = os.environ if environment is None else environment
    access_key, secret = values.get("AWS_ACCESS_KEY_ID"), values.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret:
        return Keys(access_key, secret, values.get("AWS_SESSION_TOKEN") or None)
    folder = data_dir or Path(values.get("HEADRACE_DATA_DIR") or ".headrace")
    return keys_of(folder)


def keys_of(data_dir: Path) -> Keys | None:
    """Return the keys in a cloud's data directory; None when there are none that this process may read."""
    try:
        kept = json.loads((data_dir / _SECRETS_FILE).read_text())
        return Keys(str(kept["access_key_id"]), str(kept["secret_access_key"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def signed_headers(
    keys: Keys | None, method: str, url: str, body: bytes = b"", *, now: datetime | None = None
) -> dict[str, str]:
    """Return the headers that sign a request; none without keys.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (documented).
    """
    if keys is None:
        return {}
    parts = urlsplit(url)
    timestamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-date": timestamp}
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        (
            method,
            quote(parts.path or "/", safe="/~"),
            "&".join(
                sorted(
                    part if "=" in part else f"{part}=" for part in parts.query.split("&") if part
                )
            ),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{timestamp[:8]}/{_REGION}/{_SERVICE}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{timestamp}\n{scope}\n{digest}"
    key = f"AWS4{keys.secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    del headers["host"]  # the HTTP client sets it
    credential = f"Credential={keys.access_key}/{scope}"
    headers["authorization"] = (
        f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={key.hex()}"
    )
    return headers
