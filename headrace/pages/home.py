"""The start page, `/_headrace/`: a list of all pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import ADMIN, json_response, page
from headrace.core.html import element, link, table
from headrace.pages.parts import wants_json
from headrace.pages.routes import Route, for_people


class Listed(NamedTuple):
    """A page in the list; `query` is an example of its required parameters."""

    path: str
    title: str
    query: str = ""


def routes(pages: Sequence[Listed], endpoint_url: Callable[[], str]) -> list[Route]:
    """Return the routes to the list."""

    def answer(request: HttpRequest, _: list[str]) -> HttpResponse:
        if wants_json(request):
            base = endpoint_url()
            shown = [each for each in pages if not each.query]
            return json_response({"pages": {f"{base}{each.path}": each.title for each in shown}})
        rows = [
            (
                element("code", each.path + each.query)
                if each.query
                else link(each.path, each.path),
                each.title,
            )
            for each in pages
        ]
        return page("headrace", table((), rows))

    return for_people(ADMIN, answer)
