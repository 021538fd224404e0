"""Writes random inputs as HTTP requests of a service's protocol, bodies now and then damaged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import botocore.session
from botocore import parsers
from botocore.exceptions import BotoCoreError
from botocore.serialize import create_serializer

from headrace.aws.calls.http import HttpRequest, HttpResponse

DAMAGED = 0.15


@cache
def model_of(service: str) -> Any:
    """Return botocore's model of a service."""
    return botocore.session.get_session().get_service_model(service)


@cache
def _serializer(protocol: str) -> Any:
    return create_serializer(protocol, include_validation=False)


@cache
def _parser(protocol: str) -> Any:
    return parsers.create_parser(protocol)


@cache
def _operation(service: str, operation: str) -> Any:
    return model_of(service).operation_model(operation)


def request_of(
    service: str,
    operation: str,
    params: Mapping[str, Any],
    random: Random,
    scope: str,
    *,
    damaged: float = DAMAGED,
) -> HttpRequest | None:
    """Return the request of an input, or None for what no client can send.

    `scope` is the service's signing name (empty: unsigned), `damaged` how often a body has bytes changed.
    """
    try:
        made = _serializer(model_of(service).resolved_protocol).serialize_to_request(
            params, _operation(service, operation)
        )
        body = made["body"]
        body = urlencode(body, doseq=True) if isinstance(body, dict) else body
        if not isinstance(body, str | bytes | bytearray | None):
            return None
        data = body.encode("utf-8", "replace") if isinstance(body, str) else bytes(body or b"")
        path, _, in_path = str(made["url_path"]).partition("?")
        query = "&".join(filter(None, (in_path, urlencode(made["query_string"], doseq=True))))
        headers = {str(name).lower(): str(value) for name, value in made["headers"].items()}
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError, BotoCoreError):
        return None  # botocore cannot write every flaw
    if data and random.random() < damaged:
        at = random.randrange(len(data))
        data = data[:at] + random.randbytes(2) + data[at + 1 :]
    if any(character in value for value in headers.values() for character in "\r\n"):
        return None  # no HTTP can carry it
    if scope:
        signed = f"000000000000/20260101/us-east-1/{scope}/aws4_request"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={signed}, SignedHeaders=host, Signature=0"
        )
    try:
        return HttpRequest(made["method"], quote(path, safe="/%"), query, headers, data)
    except UnicodeEncodeError:
        return None


def parsed(service: str, operation: str, answer: HttpResponse) -> Any:
    """Return an answer as botocore reads it."""
    assert isinstance(answer.body, bytes)
    headers = {name.lower(): value for name, value in answer.headers}
    return _parser(model_of(service).resolved_protocol).parse(
        {"status_code": answer.status, "headers": headers, "body": answer.body},
        _operation(service, operation).output_shape,
    )


def check_answer(service: str, operation: str, answer: HttpResponse) -> None:
    """Fail unless the answer is one that AWS could give, as botocore reads it."""
    assert answer.status < 500, answer.body
    read = parsed(service, operation, answer)
    if answer.status >= 300:
        assert read["Error"]["Code"], answer.body
