"""Checks requests to moto's services for missing members and members of a wrong type; moto does not.

AWS's services parse a request by their model first, and so refuse a number instead of a string
(`SerializationException`), and a missing required member.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.validate import find_missing_member
from headrace.moto.requests.kinds import changes_rows_only

log = logging.getLogger(__name__)

# The error code for a missing member, for services that use the sentence of AWS's validation framework (recorded: SNS;
# the others are assumed to be alike). The other services have sentences of their own, from moto.
_CODES = {
    "cloudwatch": "ValidationError",
    "iam": "ValidationError",
    "logs": "InvalidParameterException",
    "sns": "ValidationError",
    "sts": "ValidationError",
    **dict.fromkeys(
        (
            *("dynamodb", "dynamodbstreams", "events", "glue", "kms", "pipes", "scheduler"),
            *("secretsmanager", "ssm", "stepfunctions"),
        ),
        "ValidationException",
    ),
}


def check_members(service: str, operation: str, request: HttpRequest) -> None:
    """Raise AwsError when a request breaks its operation's model in a way that every AWS service refuses.

    `service` is botocore's name. moto answers a request that cannot be parsed at all, with its own sentence.
    """
    if "smithy-protocol" in request.headers:
        return
    try:
        operation, params = _read(service, operation, request)
    except AwsError as fault:
        if fault.code == "SerializationException":
            raise
        return
    except Exception:
        log.debug("%s:%s cannot be checked", service, operation, exc_info=True)
        return
    code = _CODES.get(service)
    sentence = (
        find_missing_member(service, operation, params) if code and params is not None else ""
    )
    if sentence:
        raise AwsError(str(code), sentence)


def without_nulls(request: HttpRequest) -> HttpRequest:
    """Return a JSON request without its null members: AWS treats them as missing, moto reads them.

    A request that cannot be parsed is returned unchanged.
    """
    if b"null" not in request.body or "x-amz-target" not in request.headers:
        return request
    try:
        value = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return request
    return replace(request, body=msgspec.json.encode(_strip(value)))


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: _strip(item) for name, item in pairs if item is not None}
    if isinstance(value, list):
        return [_strip(item) for item in cast("list[Any]", value)]
    return value


def _read(service: str, operation: str, request: HttpRequest) -> tuple[str, dict[str, Any] | None]:
    """Return a request's operation and parameters; None if it is not checked. Raises the codecs' errors."""
    if "x-amz-target" in request.headers:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        params = codec_json.decode_input(service, operation, request.body, content_type)
        return operation, params
    # Only rare requests are checked here; moto checks frequent ones, for messages and rows, itself.
    if service not in _CODES or (service != "sts" and changes_rows_only(service, operation)):
        return operation, None
    return codec_moto.parse_request(service, request)
