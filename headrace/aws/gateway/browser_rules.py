"""Accepts or refuses a request by its method, path and headers, before its body is parsed.

It makes two checks. The Host must be one of this cloud's names (`headrace.aws.gateway.hosts`). And when a browser sends
the request for a page of another origin (`headrace.aws.gateway.hosts`), that origin must be allowed: by
`--allow-origin`, by the CORS rules of the bucket, or by the Cors configuration of the function URL. Without these
checks, every web page that the user visits could run code as the user. Requests of programs cost a few dictionary
lookups.

Resources with endpoints of their own: functions with a URL, and APIs of API Gateway.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import API, is_admin, refuse
from headrace.aws.gateway.hosts import (
    NULL,
    UNNAMED,
    AllowedOrigins,
    Hosts,
    foreign_origin,
    own_origin,
    page_origin,
)

log = logging.getLogger(__name__)


# CORS headers of the services' endpoints as AWS sends them, and the headers that restrict what documents may do.
#
# S3 and function URLs have rules of their own: `headrace.services.s3.website`, `headrace.services.lambda_.url_calls`.
# Source of the former: OPTIONS requests to AWS's endpoints, recorded on 26 October 2020 by aws-sdk-js-v3 (observed):
# every origin is allowed, with the headers and the method that the browser asked for, for two days.

MAX_AGE_S = 172_800
_EXPOSED = "x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date"
# The answers to preflights; the path alone tells whether a preflight is for a REST service such as Lambda.
_EXPOSED_BY_MOST = (
    "x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date"
)
_EXPOSED_BELOW_DATES = f"{_EXPOSED},x-amz-log-result,x-amz-function-error"
_DATED_PATH = re.compile(r"/20\d\d-\d\d-\d\d/")

# The media types of documents that run no code: any other type may be HTML, SVG or XML in disguise. The browser's own
# viewer shows a PDF, and would not open in a sandbox.
_PASSIVE = re.compile(r"(?:image/(?!svg)|audio/|video/|font/|application/pdf)", re.IGNORECASE)
# Without allow-same-origin the document's origin is null, so it has no more rights here than another site's page.
_SANDBOX = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"


def preflight(request: HttpRequest) -> HttpResponse:
    """Answer a browser that asks whether a page of an allowed origin may send a request."""
    asked = request.headers
    exposed = _EXPOSED_BELOW_DATES if _DATED_PATH.match(request.path) else _EXPOSED_BY_MOST
    headers = [("Access-Control-Allow-Origin", "*")]
    if "access-control-request-headers" in asked:
        headers.append(("Access-Control-Allow-Headers", asked["access-control-request-headers"]))
    if "access-control-request-method" in asked:
        headers.append(("Access-Control-Allow-Methods", asked["access-control-request-method"]))
    headers += [
        ("Access-Control-Expose-Headers", exposed),
        ("Access-Control-Max-Age", str(MAX_AGE_S)),
    ]
    if asked.get("access-control-request-private-network") == "true":
        # Not in AWS's answers: browsers require it of servers on this machine or in its network.
        headers.append(("Access-Control-Allow-Private-Network", "true"))
    return HttpResponse(200, headers)


def answer_headers(exposed: str | None) -> list[tuple[str, str]]:
    """Return the headers with which a page of an allowed origin may read an answer; see `Profile.exposed_headers`."""
    return [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Expose-Headers", _EXPOSED if exposed is None else exposed),
    ]


def restraints(request: HttpRequest, answer: HttpResponse) -> list[tuple[str, str]]:
    """Return the headers with which a browser shows an answer as a document of no origin.

    Users who store objects or write functions decide the content of documents of this cloud's origin. With these
    headers such a document cannot use the cloud's pages or AWS's operations. A 304 has them too, since it renews the
    browser's cached headers.
    """
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    if _PASSIVE.match(kind):
        return []
    headers = [("Content-Security-Policy", _SANDBOX)]
    # Only of documents: stored scripts and styles often have no type of their own.
    if "text/html" in request.headers.get("accept", ""):
        headers.append(("X-Content-Type-Options", "nosniff"))
    return headers


MOST_LOGGED = 100
_READING = ("GET", "HEAD")


class OwnRules(Protocol):
    """The cross-origin rules of single resources, such as buckets and function URLs. Thread-safe.

    The methods get a request's head only, whose Host has been found to be this cloud's.
    """

    def covers(self, request: HttpRequest) -> bool:
        """Whether a request is for such a resource."""
        ...

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """Whether the rules allow a page of `origin` the request, or the resource answers preflights itself."""
        ...

    def is_alone(self, request: HttpRequest) -> bool:
        """Whether the request's Host serves this resource only, so that its pages cannot reach other resources."""
        ...


class BrowserRules:
    """Accepts or refuses requests. Thread-safe.

    Attributes:
        hosts: decides which Host headers name this cloud.

    Args:
        exposed_headers: returns those of a request's service; see `Profile.exposed_headers`.
    """

    def __init__(
        self,
        *,
        hosts: Hosts,
        origins: AllowedOrigins,
        own_addresses: OwnRules,
        buckets: OwnRules,
        exposed_headers: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.hosts = hosts
        self._origins = origins
        self._own_addresses = own_addresses
        self._buckets = buckets
        self._exposed_headers = exposed_headers
        self._logged: set[str] = set()

    def refusal_of(
        self, request: HttpRequest, *, has_resources: bool = True
    ) -> HttpResponse | None:
        """Return the refusal of a request by its head; None to accept it.

        Without `has_resources` it came to a port that serves no bucket and no function: their rules let no page in.
        """
        host = request.headers.get("host")
        if host is not None and not self.hosts.owns(host):
            return self._refuse_host(request, host)
        if not is_of_a_browser(request):
            return None
        page = page_origin(request.headers)
        if page is not None and page in self._origins:
            return None
        if _is_action_by_link(request):
            sentence = "No link may run an operation of AWS: send it by POST, signed in a header."
            return refuse(request, 403, "OperationByLinkNotAllowed", sentence)
        origin = foreign_origin(request.headers)
        if self._is_let_in(request, origin) if has_resources else origin is None:
            return None
        shown = UNNAMED if page is None else page
        return self._refuse_origin(request, shown, has_resources=has_resources)

    def preflight_of(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer to a CORS preflight; None when the service or resource answers it."""
        if request.method != "OPTIONS" or "origin" not in request.headers:
            return None
        if foreign_origin(request.headers) is None or self._has_own_rules(request):
            return None
        return preflight(request)

    def add_browser_headers(self, request: HttpRequest, answer: HttpResponse) -> None:
        """Add the CORS headers for an allowed page, and the headers that sandbox a hostile document."""
        has_own_address = self._own_addresses.covers(request)
        if (
            "origin" in request.headers
            and not has_own_address
            and not self._buckets.covers(request)
        ):
            origin = foreign_origin(request.headers)
            if origin is not None and origin in self._origins:
                service = request.call.service if request.call is not None else ""
                answer.headers += answer_headers(self._exposed_headers(service))
        if is_admin(request.path) and not has_own_address:
            return  # they already have such headers, see `headrace.aws.gateway.documents`
        if self._own_addresses.is_alone(request) or self._buckets.is_alone(request):
            return
        if own_origin(request.headers) not in self._origins:
            answer.headers += restraints(request, answer)

    # --- checks -------------------------------------------------------------------------------

    def _has_own_rules(self, request: HttpRequest) -> bool:
        return self._own_addresses.covers(request) or self._buckets.covers(request)

    def _is_let_in(self, request: HttpRequest, origin: str | None) -> bool:
        """Whether to accept a request of a page of `origin`; None stands for the cloud's own pages and programs."""
        if self._own_addresses.covers(request):
            return origin is None or self._own_addresses.permits(request, origin)
        if self._buckets.is_alone(request):
            return self._may_use_bucket(request, origin)
        if is_admin(request.path):
            return _may_visit(request, origin)
        if origin is None:
            return True
        return self._buckets.covers(request) and self._buckets.permits(request, origin)

    def _may_use_bucket(self, request: HttpRequest, origin: str | None) -> bool:
        """Whether to accept a request to a bucket's own host, whose pages may read there, but have no other rights."""
        if request.method in _READING and origin is None:
            return self._buckets.covers(request)
        page = page_origin(request.headers)
        if page is None:
            return True
        return self._buckets.covers(request) and self._buckets.permits(request, page)

    # --- refusing -----------------------------------------------------------------------------

    def _refuse_host(self, request: HttpRequest, host: str) -> HttpResponse:
        name = host.partition(":")[0][:200]
        sentence = (
            f"This cloud does not answer to the name {name!r}. If it is meant to, start it with"
            f" --allow-host {name} (HEADRACE_ALLOW_HOST)."
        )
        self._log_once(f"host {name}", sentence)
        # 421: this server does not serve that name (RFC 9110, 15.5.20). AWS never answers 421.
        return refuse(request, 421, "HostNotAllowed", sentence)

    def _refuse_origin(
        self, request: HttpRequest, origin: str, *, has_resources: bool
    ) -> HttpResponse:
        shown = origin[:200]
        if origin in (NULL, UNNAMED):
            who, how = (
                "a page whose origin is not named",
                "--allow-origin '*', which lets in every page",
            )
        else:
            who, how = f"a page of {shown}", f"--allow-origin {shown} (HEADRACE_ALLOW_ORIGIN)"
        sentence = f"This cloud refuses requests of {who}. To let it in, start the cloud with {how}"
        if has_resources and self._own_addresses.covers(request):
            sentence += ", or give the function's URL a Cors configuration that does"
        elif has_resources and self._buckets.covers(request):
            sentence += ", or give the bucket a CORS rule that does"
        sentence += "."
        self._log_once(f"origin {shown}", sentence)
        return refuse(request, 403, "OriginNotAllowed", sentence)

    def _log_once(self, what: str, sentence: str) -> None:
        if what not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(what)
            log.warning("refused a browser's request: %s", ascii(sentence)[1:-1])


def is_of_a_browser(request: HttpRequest) -> bool:
    """Whether a browser may have sent a request: every browser sends one of three headers."""
    headers = request.headers
    return (
        "origin" in headers
        or "sec-fetch-site" in headers
        or headers.get("user-agent", "").startswith("Mozilla/")
    )


def _is_action_by_link(request: HttpRequest) -> bool:
    """Whether a link or an image would run an operation of the query protocol, which accepts GET too."""
    if request.method not in _READING or not request.query or "authorization" in request.headers:
        return False
    return any(name == "Action" for name, _ in parse_qsl(request.query, keep_blank_values=True))


def _may_visit(request: HttpRequest, origin: str | None) -> bool:
    """Whether to accept a request to the cloud's own pages; only the dashboard's own scripts may write.

    Their writes bring a token too, which the dashboard checks.
    A user who follows a link on another site gets the page as a top-level document.
    """
    headers = request.headers
    if origin is None:
        is_page = "origin" in headers or "sec-fetch-site" in headers
        return (
            request.method in _READING
            or not is_page
            or (request.method == "POST" and request.path.startswith(API))
        )
    return (
        request.method in _READING
        and "origin" not in headers
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


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
