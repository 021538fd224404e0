"""Receives the answers of CloudFormation's custom resources: `PUT /_headrace/cfn-response/<token>`."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.pages.routes import Route
from headrace.services.cloudformation.custom_responses import PATH


def routes(receive: Callable[[str, bytes], bool]) -> list[Route]:
    """Return the route; `receive` takes a token and an answer, and returns whether a stack waits for it."""

    def answer(request: HttpRequest, _: list[str]) -> HttpResponse:
        token = request.path.removeprefix(PATH)
        return HttpResponse(200 if receive(token, request.body) else 404)

    return [Route(PATH.rstrip("/"), answer, ("PUT",), below=True)]
