"""Building blocks of pages: coloured states, refusals, plain text, and the choice between HTML and JSON."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response, page, restrain
from headrace.core.html import Html, element

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
