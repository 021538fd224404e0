"""Posts to an HTTP address outside the cloud, within a time limit."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

from headrace.aws.errors import AwsError

# Documented: SNS waits 15 seconds for an HTTP endpoint's answer.
ANSWER_WITHIN_S = 15.0


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Post `body`. Raises AwsError with the status of an answer that is no success, OSError when there is none."""
    if not url.startswith(("http://", "https://")):
        raise AwsError("InvalidParameter", f"{url} is no address of HTTP")
    request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S):
            return
    except urllib.error.HTTPError as error:
        with error:
            raise AwsError(
                "HTTP_ERROR", f"the endpoint answered {error.code}", error.code
            ) from error
