"""Makes requests to HTTP addresses outside the cloud, within a time limit. AWS's own names stay within it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.own_hosts import own_answer

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
