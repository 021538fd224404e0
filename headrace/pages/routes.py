"""Finds the page of a path: one list of routes, of which the first that fits answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.aws.documents import json_response, restrained
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.pages.parts import refusal

READING = ("GET", "HEAD")
# Takes a request and what follows the route's path in the request's, split and then decoded.
Answer = Callable[[HttpRequest, list[str]], HttpResponse]


@dataclass(frozen=True, slots=True)
class Route:
    """A path, and who answers requests to it.

    Attributes:
        path: as on the wire.
        answer: answers a request.
        methods: which requests it is for; all when there are none.
        below: whether it is for all paths below, too.
    """

    path: str
    answer: Answer
    methods: Sequence[str] = ()
    below: bool = False

    def fits(self, request: HttpRequest) -> bool:
        """Whether it is for a request."""
        if self.methods and request.method not in self.methods:
            return False
        return request.path == self.path or (
            self.below and request.path.startswith(f"{self.path}/")
        )

    def rest_of(self, path: str) -> list[str]:
        """Return what follows in a path that it is for."""
        # Split before it is decoded: an id with an escaped slash is an id, and no such thing.
        rest = path.rstrip("/").removeprefix(self.path.rstrip("/"))
        return [unquote(part) for part in rest.split("/")[1:]]


def for_people(path: str, answer: Answer, *, below: bool = False) -> list[Route]:
    """Return the routes to a page that is only read, and that says so to other methods."""

    def read(request: HttpRequest, rest: list[str]) -> HttpResponse:
        if request.method in READING:
            return answer(request, rest)
        sentence = f"{request.method} is not for {request.path}."
        return refusal(request, 405, "Not allowed", sentence)

    if below:
        return [Route(path, read, below=True)]
    return [Route(path, read), Route(f"{path}/", read)]


class Routes:
    """All pages. Thread-safe."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to one of the cloud's own paths."""
        for route in self._routes:
            if route.fits(request):
                return restrained(route.answer(request, route.rest_of(request.path)))
        return json_response({"message": f"no page {request.path}"}, 404)
