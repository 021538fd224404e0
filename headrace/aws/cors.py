"""CORS headers of the services' endpoints as AWS sends them, and the headers that restrict what documents may do.

S3 and function URLs have rules of their own: `headrace.services.s3.cors`, `headrace.services.lambda_.urls.cors`.
Source of the former: OPTIONS requests to AWS's endpoints, recorded on 26 October 2020 by aws-sdk-js-v3 (observed):
every origin is let in, headers and method are allowed as asked for, for two days.
"""

from __future__ import annotations

import re

from headrace.aws.http import HttpRequest, HttpResponse

MAX_AGE_S = 172_800
_EXPOSED = "x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date"
# What a preflight is answered, of which only the path tells whether it is for a REST service such as Lambda.
_EXPOSED_BY_MOST = (
    "x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date"
)
_EXPOSED_BELOW_DATES = f"{_EXPOSED},x-amz-log-result,x-amz-function-error"
_DATED_PATH = re.compile(r"/20\d\d-\d\d-\d\d/")

# What a document can be that runs nothing: everything else may be HTML, SVG or XML in disguise. A PDF is shown by the
# browser's own viewer, which a sandbox would keep shut.
_PASSIVE = re.compile(r"(?:image/(?!svg)|audio/|video/|font/|application/pdf)", re.IGNORECASE)
# Without allow-same-origin: the document's origin is null, so that it is to this cloud what any other site's is.
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
        # Not AWS's: browsers ask it of what is on this machine or in its network.
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

    Whoever stores an object, or writes a function, decides what stands in a document of this cloud's own origin. With
    these it can act neither on the cloud's pages nor on AWS's operations. A 304 has them too: it renews what the
    browser keeps.
    """
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    if _PASSIVE.match(kind):
        return []
    headers = [("Content-Security-Policy", _SANDBOX)]
    # Only of documents: stored scripts and styles often have no type of their own.
    if "text/html" in request.headers.get("accept", ""):
        headers.append(("X-Content-Type-Options", "nosniff"))
    return headers
