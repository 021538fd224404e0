"""Signs requests to the cloud's own pages, as `headrace up --auth` requires; standard library only.

The keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or else from the
cloud's data directory (HEADRACE_DATA_DIR, or `.headrace`). Without keys, requests are not signed, which a cloud without
`--auth` accepts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

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
