"""Finds the REST API resource or HTTP API route that matches a path. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

# The better first: a literal part, a parameter, the rest of the path (documented:
# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html).
_LITERAL, _PARAMETER, _REST = 0, 1, 2


def best_match(path: str, templates: Iterable[str]) -> tuple[str, dict[str, str]] | None:
    """Return the template that matches a path best, such as `/items/{id}/{proxy+}`, and its parameters' values."""
    parts = _parts(path)
    fits: list[tuple[list[int], str, dict[str, str]]] = []
    for template in templates:
        fit = _fit(parts, _parts(template))
        if fit is not None:
            fits.append((fit[0], template, fit[1]))
    if not fits:
        return None
    _, template, parameters = min(fits, key=lambda each: each[0])
    return template, parameters


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _fit(parts: list[str], template: list[str]) -> tuple[list[int], dict[str, str]] | None:
    kinds: list[int] = []
    parameters: dict[str, str] = {}
    for at, segment in enumerate(template):
        name = segment[1:-1] if segment.startswith("{") and segment.endswith("}") else ""
        if name.endswith("+"):
            if at >= len(parts):
                return None
            parameters[name[:-1]] = unquote("/".join(parts[at:]))
            return [*kinds, _REST], parameters
        if at >= len(parts) or (not name and unquote(parts[at]) != segment):
            return None
        if name:
            parameters[name] = unquote(parts[at])
        kinds.append(_PARAMETER if name else _LITERAL)
    return (kinds, parameters) if len(parts) == len(template) else None
