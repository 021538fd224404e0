"""Resources with endpoints of their own: functions with a URL, and APIs of API Gateway."""

from __future__ import annotations

from typing import Protocol

from headrace.aws.front_door import OwnRules
from headrace.aws.http import HttpRequest, HttpResponse


class Answering(Protocol):
    """Answers requests to the endpoints of one kind. Thread-safe."""

    def is_function_url(self, request: HttpRequest) -> bool:
        """Whether a request is for such an endpoint; the request's head is enough."""
        ...

    def answer_url(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to such an endpoint."""
        ...


class OwnAddresses:
    """All kinds of endpoints together, for the entrance and the front door. Thread-safe."""

    def __init__(self, *kinds: tuple[Answering, OwnRules]) -> None:
        """Take the handlers of each kind of endpoint, and their rules for browsers."""
        self._kinds = kinds

    def is_function_url(self, request: HttpRequest) -> bool:
        """See `Answering.is_function_url`."""
        return any(answering.is_function_url(request) for answering, _ in self._kinds)

    def answer_url(self, request: HttpRequest) -> HttpResponse:
        """See `Answering.answer_url`."""
        answering = next(each for each, _ in self._kinds if each.is_function_url(request))
        return answering.answer_url(request)

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`."""
        return any(rules.covers(request) for _, rules in self._kinds)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`."""
        return any(
            rules.permits(request, origin) for _, rules in self._kinds if rules.covers(request)
        )

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`."""
        return any(rules.is_alone(request) for _, rules in self._kinds)
