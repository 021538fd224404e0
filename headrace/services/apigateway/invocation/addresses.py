"""Recognizes requests to APIs' own addresses.

Addresses: `http://API.execute-api.REGION.localhost:PORT/STAGE/PATH` where such names resolve, and everywhere
`ENDPOINT/_aws/execute-api/API/STAGE/PATH`.
The address of an HTTP API's `$default` stage has no stage, as on AWS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.aws.calls.http import HttpRequest

HOST_MARK = ".execute-api."
API_PATH = "/_aws/execute-api/"
_PATH = re.compile(rf"{API_PATH}([0-9a-z]+)(/.*)?")


@dataclass(frozen=True, slots=True)
class Address:
    """A request's destination.

    Attributes:
        api_id: the API.
        path: the rest of the address after the API, with its slash: stage and path, percent-encoded.
        domain: the domain name by which the request calls the API.
    """

    api_id: str
    path: str
    domain: str


def has_own_host(request: HttpRequest) -> bool:
    """Whether a request's Host belongs to one API, so that nothing else may answer."""
    return HOST_MARK in request.headers.get("host", "")


def is_of_an_api(request: HttpRequest) -> bool:
    """Whether a request is for any API's own address."""
    return request.path.startswith(API_PATH) or has_own_host(request)


def address_of(request: HttpRequest) -> Address | None:
    """Return a request's destination; None when it is not for an API."""
    domain = request.headers.get("host", "").partition(":")[0]
    api_id, mark, _ = domain.partition(HOST_MARK)
    if mark:
        return Address(api_id, request.path or "/", domain)
    match = _PATH.fullmatch(request.path)
    return None if match is None else Address(match[1], match[2] or "/", domain)
