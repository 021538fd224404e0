"""The start page, `/_headrace/`: the dashboard for people, a list of all pages for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import ADMIN, json_response
from headrace.pages.routes import Answer, Route, for_people, wants_json


class Listed(NamedTuple):
    """A page in the list; `query` is an example of its required parameters."""

    path: str
    title: str
    query: str = ""


def routes(pages: Sequence[Listed], endpoint_url: Callable[[], str], page: Answer) -> list[Route]:
    """Return the routes: `page` answers people, and programs get the list of all pages."""

    def answer(request: HttpRequest, rest: list[str]) -> HttpResponse:
        if wants_json(request):
            base = endpoint_url()
            listed = [page for page in pages if not page.query]
            return json_response(
                {"pages": {f"{base}{entry.path}": entry.title for entry in listed}}
            )
        return page(request, rest)

    return for_people(ADMIN, answer)
