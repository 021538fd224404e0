"""Finds the page for a path, and makes what pages share: states, refusals, plain text, HTML or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import Html, element, json_response, page, restrain

READING = ("GET", "HEAD")
# Takes a request and the rest of its path after the route's path, split and then decoded.
Answer = Callable[[HttpRequest, list[str]], HttpResponse]


@dataclass(frozen=True, slots=True)
class Route:
    """A path, and the function that answers requests to it.

    Attributes:
        path: the path as on the wire.
        answer: answers a request.
        methods: the HTTP methods that it answers; empty for all.
        below: whether it also answers all paths below.
    """

    path: str
    answer: Answer
    methods: Sequence[str] = ()
    below: bool = False

    def fits(self, request: HttpRequest) -> bool:
        """Whether this route answers a request."""
        if self.methods and request.method not in self.methods:
            return False
        return request.path == self.path or (
            self.below and request.path.startswith(f"{self.path}/")
        )

    def rest_of(self, path: str) -> list[str]:
        """Return the rest of a path after the route's own."""
        # Split before decoding: an escaped slash belongs to an id, and separates nothing.
        rest = path.rstrip("/").removeprefix(self.path.rstrip("/"))
        return [unquote(part) for part in rest.split("/")[1:]]


def for_people(path: str, answer: Answer, *, below: bool = False) -> list[Route]:
    """Return the routes to a read-only page; other methods get a refusal."""

    def read(request: HttpRequest, rest: list[str]) -> HttpResponse:
        if request.method in READING:
            return answer(request, rest)
        sentence = f"{request.method} is not for {request.path}."
        return refusal(request, 405, "Not allowed", sentence)

    if below:
        return [Route(path, read, below=True)]
    return [Route(path, read), Route(f"{path}/", read)]


class Routes:
    """The routes of all pages. Thread-safe."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to one of headrace's own paths."""
        for route in self._routes:
            if route.fits(request):
                return restrain(route.answer(request, route.rest_of(request.path)))
        return json_response({"message": f"no page {request.path}"}, 404)


# The start page: its URL and its name.
HOME = ("/_headrace/", "headrace")
_GOOD = frozenset({"COMPLETED", "SUCCESS", "WAITING", "STARTED"})
_BAD = frozenset({"FAILED", "TERMINATED_WITH_ERRORS", "INTERRUPTED"})
_BUSY = frozenset(
    {"STARTING", "BOOTSTRAPPING", "RUNNING", "TERMINATING", "CANCEL_PENDING", "CANCELLING",
     "SUBMITTED", "SCHEDULED"}
)  # fmt: skip


def state(value: str) -> Html:
    """Return a state, coloured by how good it is."""
    kinds = ((_GOOD, "good"), (_BAD, "bad"), (_BUSY, "busy"))
    kind = next((name for states, name in kinds if value in states), "dim")
    return element("span", value, class_=f"state {kind}")


def wants_json(request: HttpRequest) -> bool:
    """Whether a request asks for a page's JSON."""
    form = request.query_params().get("format")
    if form is not None:
        return form == "json"
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def text_response(text: str) -> HttpResponse:
    """Return plain text that no browser interprets as another type."""
    kind = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
    return restrain(HttpResponse(200, kind, text.encode()))


def refusal(request: HttpRequest, status: int, title: str, sentence: str) -> HttpResponse:
    """Return the HTML or JSON page that says why a request is refused."""
    if wants_json(request):
        return json_response({"message": sentence}, status)
    return page(title, element("p", sentence), trail=[HOME], status=status)
