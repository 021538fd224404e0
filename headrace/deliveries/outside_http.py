"""Makes requests to HTTP addresses outside the cloud, within a time limit. AWS's own names stay within it.

Answers requests to AWS's host names within this cloud: they never leave the machine.

APIs answer (`ID.execute-api.REGION.amazonaws.com`); every other name of AWS is refused.

This cloud plays AWS, so it never sends a request to the real one.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from contextvars import ContextVar
from urllib.parse import urlsplit

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT

# Documented: SNS waits 15 seconds for an HTTP endpoint's answer.
ANSWER_WITHIN_S = 15.0
# The most bytes that are read of an answer: an API's may have 10 MB (documented).
MOST_ANSWER_BYTES = 10 << 20


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Post `body`. Raises AwsError for a status other than success, OSError without an answer."""
    status, _ = request("POST", url, body, headers, within_s=ANSWER_WITHIN_S)
    if status >= 300:
        raise AwsError("HTTP_ERROR", f"the endpoint answered {status}", status)


def request(
    method: str, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
) -> tuple[int, bytes]:
    """Return an answer's status and body, whatever the status. Raises AwsError, and OSError without an answer."""
    status, _, answer = exchange(method, url, body, headers, within_s=within_s)
    return status, answer


def exchange(
    method: str, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return an answer's status, headers and body, whatever the status. Raises as `request` does."""
    if not url.startswith(("http://", "https://")):
        raise AwsError("InvalidParameter", f"{url} is not an HTTP address")
    own = own_answer(method, url, body, headers)
    if own is not None:
        return own
    data = None if method in ("GET", "HEAD") else body
    asked = urllib.request.Request(url, data=data, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(asked, timeout=within_s) as answer:
            return int(answer.status), answer.getheaders(), answer.read(MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, list(error.headers.items()), error.read(MOST_ANSWER_BYTES)


# Documented: the ends of the host names of all partitions (`headrace.core.arn.URL_SUFFIXES`), and the newer `on.aws`.
_SUFFIXES = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "api.aws",
    "on.aws",
    "c2s.ic.gov",
    "sc2s.sgov.gov",
    "csp.hci.ic.gov",
    "cloud.adc-e.uk",
)


def is_aws_host(host: str) -> bool:
    """Whether a host name, without a port, is one of AWS's services."""
    name = host.lower().rstrip(".")
    return any(name == suffix or name.endswith(f".{suffix}") for suffix in _SUFFIXES)


def api_of_host(host: str) -> str:
    """Return the id of the API in a name such as `ID.execute-api.REGION.amazonaws.com`; empty for any other name."""
    labels = host.lower().rstrip(".").split(".")
    return labels[0] if is_aws_host(host) and labels[1:2] == ["execute-api"] else ""


# How many APIs may call each other within one request; AWS has no such bound, but time-outs.
MOST_CALLS = 5
_DEPTH = ContextVar("depth of calls to own APIs", default=0)
_NOT_SENT_ON = ("host", "content-length", "connection")


def own_answer(
    method: str, url: str, body: bytes, headers: Mapping[str, str]
) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """Return the status, headers and body of this cloud's answer; None when the host is not AWS's.

    The request has no caller, as one from the internet without a signature. Raises AwsError for a name that this cloud
    does not serve.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not is_aws_host(host):
        return None
    api = api_of_host(host)
    if not api:
        raise AwsError(
            "SDK_CLIENT_ERROR",
            f"{host} is a name of AWS that headrace does not serve here; it sends nothing to AWS",
        )
    if CURRENT.apis is None:
        raise AwsError("ServiceUnavailable", "headrace is starting or stopping", 503)
    depth = _DEPTH.get()
    if depth >= MOST_CALLS:
        raise AwsError("LoopDetected", f"{host} calls itself {MOST_CALLS} deep", 508)
    within = _DEPTH.set(depth + 1)
    try:
        return CURRENT.apis(
            api,
            method=method,
            url=f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}",
            headers={
                name: value for name, value in headers.items() if name.lower() not in _NOT_SENT_ON
            },
            body=body,
            by="",
        )
    finally:
        _DEPTH.reset(within)
