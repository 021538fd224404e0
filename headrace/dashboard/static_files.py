"""Serves the page's own files: HTML, one style sheet, scripts; nothing inline, nothing from elsewhere."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.pages.routes import Route, for_people

FILES = "/_headrace/dashboard"
_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# Everything comes from this origin; uPlot and the bars set styles by script, which needs no permission.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),
)


def static_routes() -> list[Route]:
    """Return the routes to the files of the page."""
    return for_people(FILES, _named, below=True)


def page_file(request: HttpRequest, _: list[str]) -> HttpResponse:
    """Answer with the page itself."""
    return _file(request, "index.html")


def _named(request: HttpRequest, rest: list[str]) -> HttpResponse:
    return _file(request, "/".join(rest))


def _file(request: HttpRequest, name: str) -> HttpResponse:
    data = _files().get(name)
    if data is None:
        return HttpResponse(404, [*_HEADERS, ("Content-Type", _TYPES["txt"])], b"no such file\n")
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = [*_HEADERS, ("ETag", tag), ("Content-Type", _TYPES[name.rpartition(".")[2]])]
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(304, headers)
    return HttpResponse(200, headers, data)


@functools.cache
def _files() -> dict[str, bytes]:
    """Return the files by their path; read once, so that no path of a request reaches the disk."""
    root = resources.files("headrace.dashboard") / "static"
    files = {one.name: one.read_bytes() for one in root.iterdir() if one.is_file()}
    vendored = (root / "vendor").iterdir()
    files.update({f"vendor/{one.name}": one.read_bytes() for one in vendored if one.is_file()})
    return files
