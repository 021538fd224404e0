"""Where a TemplateURL leads: always to this cloud's own S3."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from headrace.services.cloudformation.errors import TemplateError

_HOST_STYLE = re.compile(r"(?P<bucket>.+?)\.s3[.-].*")
_PATH_STYLE = re.compile(r"s3[.-].*")


def bucket_and_key(url: str, endpoint_url: str) -> tuple[str, str]:
    """Return (bucket, key) of an S3 address, path-style or host-style. Raises TemplateError."""
    parts = urlsplit(url)
    path = unquote(parts.path.lstrip("/"))
    host = parts.hostname or ""
    if parts.scheme == "s3":
        return host, path
    if parts.scheme in ("http", "https"):
        host_style = _HOST_STYLE.fullmatch(host)
        if host_style is not None:
            return host_style.group("bucket"), path
        if (
            _PATH_STYLE.fullmatch(host)
            or host == urlsplit(endpoint_url).hostname
            or host == "localhost"
        ):
            bucket, _, key = path.partition("/")
            return bucket, key
    raise TemplateError("TemplateURL must be a supported URL.")
