"""The policy of a browser's form: checks its expiration and the form's fields. Pure functions.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html (documented); for the error
messages, AWS's answers to LocalStack's tests/aws/services/s3/test_s3.py, recorded in March 2025 (observed).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.s3.errors import invalid_argument

_SIGNED_V4 = ("x-amz-signature", "x-amz-algorithm", "x-amz-credential", "x-amz-date")
_SIGNED_V2 = ("signature", "awsaccesskeyid")
_SHOWN = {
    "x-amz-signature": "X-Amz-Signature",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "signature": "Signature",
    "awsaccesskeyid": "AWSAccessKeyId",
}
# Fields that need no condition in the policy.
_FREE = frozenset({*_SIGNED_V2, "x-amz-signature", "file", "policy"})
_IGNORED_PREFIX = "x-ignore-"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The file sizes that a policy allows, in bytes."""

    least: int
    most: int


def check_signed(fields: Mapping[str, str]) -> None:
    """Refuse a form whose policy has no signature, or only a part of one. `fields` is by lower-case names."""
    names = _SIGNED_V4 if any(name in fields for name in _SIGNED_V4) else _SIGNED_V2
    if not any(name in fields for name in names):
        raise AwsError("AccessDenied", "Access Denied", 403)
    for name in names:
        if name not in fields:
            raise field_missing(_SHOWN[name])


def field_missing(name: str) -> AwsError:
    """The form lacks a required field."""
    return invalid_argument(
        f"Bucket POST must contain a field named '{name}'."
        "  If it is specified, please check the order of the fields.",
        name,
        "",
    )


def check(text: str, fields: Mapping[str, str], now_ms: int) -> list[SizeRange]:
    """Check a policy, and the form against it. Return the allowed file sizes. Raises AwsError."""
    policy = _read(text)
    if _parse_expiry_ms(policy) < now_ms:
        raise _build_refusal("Policy expired.")
    sizes: list[SizeRange] = []
    named: set[str] = set()
    for condition in policy["conditions"]:
        operator, first, second = _split_condition(condition)
        if operator == "content-length-range":
            sizes.append(_size_range(first, second))
            continue
        name = str(first)
        if not _holds(operator, name, str(second), fields):
            raise _build_condition_error([operator, first, second])
        named.add(name[1:].lower())
    extra = [name for name in fields if name not in named and not _is_free(name)]
    if extra:
        raise _build_refusal(f"Extra input fields: {extra[0]}")
    return sizes


def check_size(size_bytes: int, ranges: list[SizeRange]) -> None:
    """Refuse a file that is larger or smaller than a policy allows. Raises AwsError."""
    for bounds in ranges:
        if size_bytes > bounds.most:
            raise AwsError(
                "EntityTooLarge",
                "Your proposed upload exceeds the maximum allowed size",
                400,
                {"ProposedSize": str(size_bytes), "MaxSizeAllowed": str(bounds.most)},
            )
        if size_bytes < bounds.least:
            raise AwsError(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                400,
                {"ProposedSize": str(size_bytes), "MinSizeAllowed": str(bounds.least)},
            )


def _read(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _invalid("Invalid JSON.") from error
    if not isinstance(value, dict):
        raise _invalid("Invalid JSON.")
    policy = cast("dict[str, Any]", value)
    if not isinstance(policy.get("expiration"), str):
        raise _invalid("Policy missing expiration.")
    if not isinstance(policy.get("conditions"), list):
        raise _invalid("Policy missing conditions.")
    return policy


def _parse_expiry_ms(policy: dict[str, Any]) -> float:
    text = str(policy["expiration"])
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _invalid(f"Invalid 'expiration' value: '{text}'") from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000


def _split_condition(condition: Any) -> tuple[str, Any, Any]:
    if isinstance(condition, dict):
        members = cast("dict[str, Any]", condition)
        if len(members) != 1:
            raise _invalid(
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified."
            )
        ((name, value),) = members.items()
        return "eq", f"${name}", value
    if isinstance(condition, list):
        items = cast("list[Any]", condition)
        if len(items) == 3:
            return str(items[0]).lower(), items[1], items[2]
    raise _invalid("Invalid JSON.")


def _size_range(least: Any, most: Any) -> SizeRange:
    try:
        return SizeRange(int(least), int(most))
    except (TypeError, ValueError) as error:
        raise _build_condition_error(["content-length-range", least, most]) from error


def _holds(operator: str, name: str, value: str, fields: Mapping[str, str]) -> bool:
    if not name.startswith("$"):
        return False
    field = fields.get(name[1:].lower())
    if operator == "eq":
        return field == value
    if operator == "starts-with":
        return (field or "").startswith(value)
    raise _invalid(f"Invalid Condition: {operator}")


def _is_free(name: str) -> bool:
    # The bucket is part of the request's address, so it needs no condition.
    return name in _FREE or name == "bucket" or name.startswith(_IGNORED_PREFIX)


def _build_condition_error(condition: list[Any]) -> AwsError:
    return _build_refusal(f"Policy Condition failed: {json.dumps(condition)}")


def _build_refusal(why: str) -> AwsError:
    return AwsError("AccessDenied", f"Invalid according to Policy: {why}", 403)


def _invalid(why: str) -> AwsError:
    return AwsError("InvalidPolicyDocument", f"Invalid Policy: {why}")
