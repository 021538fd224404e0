"""CORS headers of the services' endpoints as AWS sends them, and the headers that restrict what documents may do.

S3 and function URLs have rules of their own: `headrace.services.s3.cors`, `headrace.services.lambda_.urls.cors`.
Source of the former: OPTIONS requests to AWS's endpoints, recorded on 26 October 2020 by aws-sdk-js-v3 (observed):
every origin is allowed, with the headers and the method that the browser asked for, for two days.
"""

from __future__ import annotations

import re

from headrace.aws.calls.http import HttpRequest, HttpResponse

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
