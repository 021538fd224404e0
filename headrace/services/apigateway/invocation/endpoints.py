"""Forwards an API's requests to an HTTP endpoint: integrations of the types HTTP and HTTP_PROXY.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/setup-http-integrations.html and
http-api-develop-integrations-http.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.outside_http import exchange
from headrace.services.apigateway.invocation.functions import Refused

# Documented: the longest default timeout of an integration.
WITHIN_S = 29.0
# Headers of the connection to the API; the endpoint has its own host.
_OF_THE_CONNECTION = frozenset(
    (
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "authorization",
        "accept-encoding",
    )
)


def forward(
    method: str,
    uri: str,
    *,
    path: Mapping[str, str],
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the endpoint's status, headers and body. Raises Refused when it does not answer."""
    for name, value in path.items():
        # A greedy parameter keeps its slashes.
        uri = uri.replace(f"{{{name}+}}", quote(value)).replace(f"{{{name}}}", quote(value))
    if query:
        uri = f"{uri}{'&' if '?' in uri else '?'}{urlencode(dict(query))}"
    kept = {
        name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION
    }
    try:
        status, answered, answer = exchange(method, uri, body, kept, within_s=WITHIN_S)
    except TimeoutError as error:
        raise Refused(504, "Endpoint request timed out", "IntegrationTimeoutException") from error
    except (AwsError, OSError, ValueError) as error:
        raise Refused(502, "Internal server error", "InternalServerErrorException") from error
    return (
        status,
        [header for header in answered if header[0].lower() not in _OF_THE_CONNECTION],
        answer,
    )
