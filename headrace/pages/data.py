"""Serves the JSON pages that show a service's own data."""

from __future__ import annotations

from functools import partial

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import ADMIN, json_response
from headrace.aws.protocols.service import DataPage, NothingToShow
from headrace.pages.routes import Route


def path_of(page: DataPage) -> str:
    """Return the path that leads to a page."""
    return f"{ADMIN}/{page.path}"


def route_to(page: DataPage) -> Route:
    """Return the route to a page."""
    return Route(path_of(page), partial(_answer, page), ("GET",))


def _answer(page: DataPage, request: HttpRequest, _: list[str]) -> HttpResponse:
    try:
        return json_response(page.data(request.query_params()))
    except NothingToShow as error:
        return json_response({"message": str(error)}, 404)
