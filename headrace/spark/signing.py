"""Signs requests to AWS (documented: Signature Version 4), with the standard library alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from urllib.parse import parse_qsl, quote, urlsplit


@dataclass(frozen=True)
class Keys:
    """The credentials of one request."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def signed_headers(
    keys: Keys,
    service: str,
    region: str,
    request: tuple[str, str, Mapping[str, str], bytes],
    moment: datetime | None = None,
) -> dict[str, str]:
    """Return a request's headers with its signature.

    Args:
        keys: who signs.
        service: as in the scope of the signature, such as `s3`.
        region: as in the scope.
        request: method, URL (its path as it is sent), headers, body.
        moment: the time of the signature; now by default.
    """
    method, url, headers, body = request
    at = (moment or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    digest = hashlib.sha256(body).hexdigest()
    signed = {name.lower(): value.strip() for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-date": at, "x-amz-content-sha256": digest}
    if keys.token:
        signed["x-amz-security-token"] = keys.token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            _path(parts.path, service),
            _query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in (at[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return signed


def _path(path: str, service: str) -> str:
    # Every service but S3 has the path quoted once more.
    return (path if service == "s3" else quote(path, safe="/~")) or "/"


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(f"{quote(n, safe='~')}={quote(v, safe='~')}" for n, v in sorted(pairs))
