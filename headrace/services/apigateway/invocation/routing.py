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
    found: list[tuple[list[int], str, dict[str, str]]] = []
    for template in templates:
        fit = _fit(parts, _parts(template))
        if fit is not None:
            found.append((fit[0], template, fit[1]))
    if not found:
        return None
    _, template, parameters = min(found, key=lambda each: each[0])
    return template, parameters


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _fit(parts: list[str], template: list[str]) -> tuple[list[int], dict[str, str]] | None:
    kinds: list[int] = []
    parameters: dict[str, str] = {}
    for at, wanted in enumerate(template):
        name = wanted[1:-1] if wanted.startswith("{") and wanted.endswith("}") else ""
        if name.endswith("+"):
            if at >= len(parts):
                return None
            parameters[name[:-1]] = unquote("/".join(parts[at:]))
            return [*kinds, _REST], parameters
        if at >= len(parts) or (not name and unquote(parts[at]) != wanted):
            return None
        if name:
            parameters[name] = unquote(parts[at])
        kinds.append(_PARAMETER if name else _LITERAL)
    return (kinds, parameters) if len(parts) == len(template) else None
