"""Resources with endpoints of their own: functions with a URL, and APIs of API Gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.browser_rules import OwnRules


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of one kind of resource. Their functions are thread-safe.

    Attributes:
        has: whether a request is for such an endpoint; the request's head is enough.
        answer: answers a request to such an endpoint.
        rules: the resources' own rules for browsers.
        signing_name: the service that signed requests to these endpoints name.
        most_bytes: the largest body of a request, as on AWS.
    """

    has: Callable[[HttpRequest], bool]
    answer: Callable[[HttpRequest], HttpResponse]
    rules: OwnRules
    signing_name: str
    most_bytes: int


class OwnAddresses:
    """All kinds of endpoints together, for the entrance and the front door. Thread-safe."""

    def __init__(self, *kinds: Endpoints) -> None:
        self._kinds = kinds

    def endpoints_of(self, request: HttpRequest) -> Endpoints | None:
        """Return the kind of endpoints that a request is for; None when it is for a service or a page."""
        return next((kind for kind in self._kinds if kind.has(request)), None)

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`."""
        return any(kind.rules.covers(request) for kind in self._kinds)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`."""
        return any(
            kind.rules.permits(request, origin)
            for kind in self._kinds
            if kind.rules.covers(request)
        )

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`."""
        return any(kind.rules.is_alone(request) for kind in self._kinds)
